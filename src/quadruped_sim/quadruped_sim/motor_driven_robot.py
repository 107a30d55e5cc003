"""One robot in MuJoCo that is driven as its motors are: each joint with a target and gains of its own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import LEGS, Robot
from quadruped_sim.live_robot import LiveRobot
from quadruped_sim.terrain import Terrain

Array = npt.NDArray[np.float64]

FASTEST = FARTHEST = 1e6  # [rad/s, rad] targets beyond are taken as these; MuJoCo refuses controls above 1e10
TRUNK_FREEDOMS = 6
BLOCKED = 1000.0  # [Nms/rad] against which a motor's largest torque moves a joint by a few hundredths of a rad/s


class MotorDrivenRobot(LiveRobot):
    """A robot that starts lying and without torque. Its motors follow the newest command, whatever becomes of whoever
    sent it.

    A motor's torque is torque + stiffness (position - q) + damping (velocity - dq), within the robot's torque limits;
    MuJoCo integrates its part in q and dq implicitly, so that high damping stays stable.
    """

    def __init__(
        self, robot: Robot, terrain: Terrain, *, timestep: float = 0.002, noise: float = 1.0, seed: int = 0
    ) -> None:
        super().__init__(robot, terrain, timestep=timestep, noise=noise, start="lying", seed=seed)
        self._free_damping = self.model.dof_damping.copy()
        touch = self.model.sensor(f"{LEGS[0]}_touch").adr[0]
        self._touch = slice(touch, touch + len(LEGS))

    def reset(self) -> None:
        """Put the robot back where it started, at rest and without torque."""
        super().reset()
        self.release()

    def drive(
        self,
        position: npt.ArrayLike,
        velocity: npt.ArrayLike,
        torque: npt.ArrayLike,
        stiffness: npt.ArrayLike,
        damping: npt.ArrayLike,
    ) -> None:
        """Command the motors: arrays (12,) in JOINT_NAMES order [rad, rad/s, Nm, Nm/rad, Nms/rad].

        Position targets are not clipped to the joint limits: the motors do not know them. What is not finite raises
        ValueError and changes nothing.
        """
        values = np.array([position, velocity, torque, stiffness, damping], dtype=np.float64)
        if not np.isfinite(values).all():
            raise ValueError("a motor command is not a finite number")
        target, speed, push, spring, damper = values
        target, speed = target.clip(-FARTHEST, FARTHEST), speed.clip(-FASTEST, FASTEST)
        self.model.actuator_gainprm[:, 0] = 1.0
        self.model.actuator_biasprm[:, 1] = -spring
        self.model.actuator_biasprm[:, 2] = -damper
        self.data.ctrl[:] = push + spring * target + damper * speed

    def release(self) -> None:
        """Take the torque from all motors."""
        self.drive(*np.zeros((5, 12)))

    def block(self, joint: int | None) -> None:
        """Hold one joint, an index in JOINT_NAMES, where it is, whatever its motor does; None lets go of it."""
        self.model.dof_damping[:] = self._free_damping
        if joint is not None:
            self.model.dof_damping[TRUNK_FREEDOMS + joint] = BLOCKED

    def foot_force(self) -> Array:
        """Forces (4,) [N] with which the ground presses against the feet FR, FL, RR, RL."""
        return self.data.sensordata[self._touch].copy()
