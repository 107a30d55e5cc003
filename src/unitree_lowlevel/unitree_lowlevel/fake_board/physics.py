"""The body behind a fake motor board: the interface, motors and their heat, and twelve joints that weigh nothing."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fcnet_core.robot import Robot
from unitree_lowlevel.messages import OFF, POSITION_STOP, SERVO, VELOCITY_STOP, Array, LowCommand, LowState

INERTIA = 0.05  # [kg m^2] of a joint with what hangs on it
FRICTION = 0.1  # [Nms/rad]
STOP_MARGIN = 0.1  # [rad] from the vendor's limits to the mechanical stops, which lie outside them
UPRIGHT = (0.0, 0.0, 0.0, 1.0)
GRAVITY = (0.0, 0.0, 9.81)  # [m/s^2] as an accelerometer measures it at rest
# Standard deviations of the sensors at noise 1: no real sensor repeats a value. Joints [rad, rad/s], angular
# velocity [rad/s], acceleration [m/s^2].
NOISE = np.repeat([1e-4, 0.01, 0.005, 0.02], [12, 12, 3, 3])
# A simple model of motor temperatures, measured on no motor: holding half of the largest torque ends HEATING above
# ambient, approached with this time constant [s].
AMBIENT = 30.0  # [deg C]
HEATING = 30.0  # [deg C]
TIME_CONSTANT = 300.0
_ZERO = np.zeros(12)
_WITHOUT_TORQUE = LowCommand(np.full(12, OFF, dtype=np.uint8), _ZERO, _ZERO, _ZERO, _ZERO, _ZERO)


class BoardPhysics(Protocol):
    """The body behind a board, used from the board's thread alone."""

    robot: Robot

    def apply(self, command: LowCommand | None) -> None:
        """Follow `command`, all of it finite, from now on; None takes the torque from all motors."""
        ...

    def block(self, joint: int | None) -> None:
        """Hold one joint, an index in JOINT_NAMES, where it is, whatever its motor does; None releases it."""
        ...

    def advance(self, duration: float) -> None:
        """Let `duration` [s] pass."""
        ...

    def state(self, tick: int, remote: bytes, identity: tuple[int, ...]) -> LowState:
        """The sensors' state; the arguments, which are the board's own, go into it as they are."""
        ...


def effective_command(command: LowCommand | None) -> LowCommand:
    """The command that has the same torques by its numbers alone: terms that the vendor's special values or another
    mode than SERVO switch off are zero. None is no command.
    """
    if command is None:
        return _WITHOUT_TORQUE
    servo = command.mode == SERVO
    holds = servo & (np.abs(command.position) < POSITION_STOP)
    damps = servo & (np.abs(command.velocity) < VELOCITY_STOP)
    return LowCommand(
        mode=command.mode,
        position=np.where(holds, command.position, 0.0),
        velocity=np.where(damps, command.velocity, 0.0),
        torque=np.where(servo, command.torque, 0.0),
        stiffness=np.where(holds, command.stiffness, 0.0),
        damping=np.where(damps, command.damping, 0.0),
    )


class MotorHeat:
    """Temperatures of the motors whose largest torques are `torque_limit` (n,) [Nm]."""

    def __init__(self, torque_limit: Array) -> None:
        self._gain = HEATING / (0.5 * torque_limit) ** 2
        self._rise = np.zeros_like(torque_limit)

    @property
    def temperature(self) -> Array:
        """Temperatures (n,) [deg C]."""
        return AMBIENT + self._rise

    def advance(self, torque: Array, duration: float) -> None:
        """Let `torque` (n,) [Nm] act for `duration` [s]."""
        self._rise += (self._gain * torque**2 - self._rise) * (duration / TIME_CONSTANT)


class JointPhysics:
    """Joints of a robot that hangs at rest in the lying pose, each a body of its own with a motor; see BoardPhysics.

    The trunk never moves and no foot touches anything.
    """

    def __init__(self, robot: Robot, noise: float = 1.0, seed: int = 0) -> None:
        self.robot = robot
        self._noise = noise * NOISE
        self._rng = np.random.default_rng(seed)
        self._position = robot.lie_pose.copy()
        self._velocity, self._torque = np.zeros(12), np.zeros(12)
        self._limit = robot.torque_limit
        self._lowest, self._highest = robot.lower - STOP_MARGIN, robot.upper + STOP_MARGIN
        self._heat = MotorHeat(self._limit)
        self._blocked: int | None = None
        self.apply(None)

    def apply(self, command: LowCommand | None) -> None:
        effective = effective_command(command)
        self._mode, self._stiffness, self._damping = effective.mode, effective.stiffness, effective.damping
        self._push = effective.torque + self._stiffness * effective.position + self._damping * effective.velocity

    def block(self, joint: int | None) -> None:
        self._blocked = joint

    def advance(self, duration: float) -> None:
        # Implicit in position and velocity, so that no gain of the wire's range makes it unstable.
        spring = self._push - self._stiffness * self._position
        momentum = INERTIA * self._velocity
        drag = INERTIA + duration * FRICTION
        velocity = (momentum + duration * spring) / (drag + duration * (self._damping + duration * self._stiffness))
        wanted = spring - (self._stiffness * duration + self._damping) * velocity
        self._torque = np.clip(wanted, -self._limit, self._limit)
        velocity = (momentum + duration * self._torque) / drag
        if self._blocked is not None:
            velocity[self._blocked] = 0.0
        reached = self._position + duration * velocity
        self._position = np.clip(reached, self._lowest, self._highest)
        self._velocity = np.where(reached == self._position, velocity, 0.0)
        self._heat.advance(self._torque, duration)

    def state(self, tick: int, remote: bytes, identity: tuple[int, ...]) -> LowState:
        noise = self._noise * self._rng.standard_normal(len(NOISE))
        return LowState(
            mode=self._mode,
            position=self._position + noise[:12],
            velocity=self._velocity + noise[12:24],
            torque=self._torque,
            temperature=self._heat.temperature,
            orientation=np.array(UPRIGHT),
            angular_velocity=noise[24:27],
            linear_acceleration=GRAVITY + noise[27:],
            imu_temperature=AMBIENT,
            foot_force=np.zeros(4),
            tick=tick,
            remote=remote,
            identity=identity,
        )
