"""A robot in MuJoCo as the body behind a fake motor board."""

from __future__ import annotations

import threading

from quadruped_sim.live_robot import GroundTruth, MotorDrivenRobot
from unitree_lowlevel.fake_board.physics import AMBIENT, MotorHeat, acting_command
from unitree_lowlevel.messages import LowCommand, LowState


class MujocoPhysics:
    """See BoardPhysics. Foot forces are in N, whatever the vendor's unit is. Any thread may push and reset."""

    def __init__(self, body: MotorDrivenRobot) -> None:
        self.robot = body.robot
        self._lock = threading.Lock()  # guards the body
        self._body = body
        self._heat = MotorHeat(self.robot.torque_limit)
        self.apply(None)

    @property
    def damped(self) -> bool:
        """Whether no joint is stiff."""
        return self._body.damped

    def apply(self, command: LowCommand | None) -> None:
        acting = acting_command(command)
        self._mode = acting.mode
        with self._lock:
            self._body.drive(acting.position, acting.velocity, acting.torque, acting.stiffness, acting.damping)

    def block(self, joint: int | None) -> None:
        self._body.block(joint)

    def advance(self, duration: float) -> None:
        with self._lock:
            self._body.advance(round(duration / self._body.model.opt.timestep))
        self._heat.advance(self._body.data.actuator_force, duration)

    def state(self, tick: int, remote: bytes, identity: tuple[int, ...]) -> LowState:
        reading = self._body.read_sensors()
        return LowState(
            mode=self._mode,
            position=reading.joint_position,
            velocity=reading.joint_velocity,
            torque=reading.joint_effort,
            temperature=self._heat.temperature,
            orientation=reading.orientation,
            angular_velocity=reading.angular_velocity,
            linear_acceleration=reading.linear_acceleration,
            imu_temperature=AMBIENT,
            foot_force=self._body.foot_force(),
            tick=tick,
            remote=remote,
            identity=identity,
        )

    def ground_truth(self) -> GroundTruth:
        """Where the trunk really is."""
        return self._body.ground_truth()

    def push(self, speed: float, direction: float | None) -> float:
        """See LiveRobot.push."""
        with self._lock:
            return self._body.push(speed, direction)

    def reset(self) -> None:
        """Put the robot back where it started, without torque until the next command."""
        with self._lock:
            self._body.reset()
