"""The physics of a fake motor board: the interface, and twelve independent joints."""

from typing import Protocol

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import Robot
from fcnet_core.rotation import GRAVITY
from unitree_lowlevel.codec import MOTORS

INERTIA = 0.05  # [kg m^2] of a joint with its link
FRICTION = 0.1  # [Nms/rad]
STOP_MARGIN = 0.1  # [rad] from the vendor's limits to the mechanical stops, which lie outside them
UPRIGHT = (0.0, 0.0, 0.0, 1.0)
AT_REST = (0.0, 0.0, GRAVITY)  # [m/s^2] of an accelerometer
# Standard deviations of the sensors at noise 1: no real sensor repeats a value. Joints [rad, rad/s], angular
# velocity [rad/s], acceleration [m/s^2], orientation (a quaternion's elements).
NOISE = np.repeat([1e-4, 0.01, 0.005, 0.02, 1e-4], [MOTORS, MOTORS, 3, 3, 4])
NOISE_PARTS = [MOTORS, 2 * MOTORS, 2 * MOTORS + 3, 2 * MOTORS + 6]


class BoardPhysics(Protocol):
    """The physics of a board, initially without torque; used only by the board's thread."""

    robot: Robot

    def drive(self, position: Array, velocity: Array, torque: Array, stiffness: Array, damping: Array) -> None:
        """Set the command: finite arrays (12,) in the units of LowCommand."""

    def block(self, joint: int | None) -> None:
        """Block one joint, an index in codec.JOINTS; None releases it."""

    def advance(self, duration: float) -> None:
        """Simulate `duration` [s]."""

    def sense(self) -> dict[str, Array]:
        """Return position, velocity, torque, orientation, angular_velocity, linear_acceleration and foot_force, as in a
        LowState.
        """


class JointPhysics:
    """Independent joints of a robot that hangs at rest in the lying pose; see BoardPhysics.

    The trunk does not move and no foot has contact.
    """

    def __init__(self, robot: Robot, noise: float = 1.0, seed: int = 0) -> None:
        self.robot = robot
        self._noise = noise * NOISE
        self._rng = np.random.default_rng(seed)
        self._position = robot.rest_pose.copy()
        self._velocity, self._torque = np.zeros(MOTORS), np.zeros(MOTORS)
        self._limit = robot.torque_limit
        self._lowest, self._highest = robot.lower - STOP_MARGIN, robot.upper + STOP_MARGIN
        self._blocked: int | None = None
        self.drive(*np.zeros((5, MOTORS)))

    def drive(self, position: Array, velocity: Array, torque: Array, stiffness: Array, damping: Array) -> None:
        self._stiffness, self._damping = stiffness, damping
        self._push = torque + stiffness * position + damping * velocity

    def block(self, joint: int | None) -> None:
        self._blocked = joint

    def advance(self, duration: float) -> None:
        # Implicit in position and velocity, so that no gain of the wire's range makes it unstable.
        spring = self._push - self._stiffness * self._position
        momentum = INERTIA * self._velocity
        drag = INERTIA + duration * FRICTION
        velocity = (momentum + duration * spring) / (drag + duration * (self._damping + duration * self._stiffness))
        commanded = spring - (self._stiffness * duration + self._damping) * velocity
        self._torque = np.clip(commanded, -self._limit, self._limit)
        velocity = (momentum + duration * self._torque) / drag
        if self._blocked is not None:
            velocity[self._blocked] = 0.0
        reached = self._position + duration * velocity
        self._position = np.clip(reached, self._lowest, self._highest)
        self._velocity = np.where(reached == self._position, velocity, 0.0)

    def sense(self) -> dict[str, Array]:
        noise = self._noise * self._rng.standard_normal(len(NOISE))
        position, velocity, rate, acceleration, orientation = np.split(noise, NOISE_PARTS)
        return {
            "position": self._position + position,
            "velocity": self._velocity + velocity,
            "torque": self._torque,
            "orientation": UPRIGHT + orientation,
            "angular_velocity": rate,
            "linear_acceleration": AT_REST + acceleration,
            "foot_force": np.zeros(4),
        }
