"""The 70-dimensional observation, assembled here for simulator, training, controller and replay alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, ArraySpec, Single
from fcnet_core.control.command import COMMAND_SIZE
from fcnet_core.errors import NonFiniteObservation
from fcnet_core.rotation import projected_gravity


def finite_observation(
    observation: npt.ArrayLike, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32
) -> npt.NDArray[Any]:
    """The observation as a contiguous array of the given shape and type: one NaN would stay in a recurrent state for
    ever, so it is stopped before any is touched.

    Raises NonFiniteObservation when an entry is NaN, infinite or beyond float32, ValueError for another shape.
    """
    with np.errstate(over="ignore"):
        checked = np.ascontiguousarray(observation, dtype=dtype)
    if checked.shape != shape:
        raise ValueError(f"the policy expects an observation of shape {shape}, not {checked.shape}")
    finite = np.isfinite(checked)
    if not finite.all():
        entries = ", ".join(str(entry if len(shape) > 1 else entry[0]) for entry in np.argwhere(~finite).tolist()[:5])
        raise NonFiniteObservation(f"the observation is not finite at {entries}; check the sensor that fills it")
    return checked


@dataclass(frozen=True)
class SensorReading:
    """What the sensors of a robot measure, real or simulated: joint position [rad], velocity [rad/s] and torque [Nm],
    (12,) in JOINT_NAMES order or empty; orientation (4,) x, y, z, w; angular velocity (3,) [rad/s] and acceleration
    (3,) [m/s^2] in the body frame, the latter with gravity as an accelerometer measures it: (0, 0, 9.81) at rest.
    """

    position: Array
    velocity: Array
    torque: Array
    orientation: Array
    angular_velocity: Array
    linear_acceleration: Array


@dataclass(frozen=True)
class TrunkPose:
    """Where the trunk is: position (3,) [m] and orientation (4,) x, y, z, w in the world, velocities (3,) [m/s] and
    (3,) [rad/s] in the body frame.
    """

    position: Array
    orientation: Array
    linear_velocity: Array
    angular_velocity: Array


class MeasuredState(Protocol):
    """Joints (12,) in JOINT_NAMES order [rad, rad/s]; orientation (4,) x, y, z, w; angular velocity (3,) [rad/s] in the
    body frame.
    """

    @property
    def joint_position(self) -> Array: ...

    @property
    def joint_velocity(self) -> Array: ...

    @property
    def orientation(self) -> Array: ...

    @property
    def angular_velocity(self) -> Array: ...


PARTS = {  # in the order of the paper, appendix C.3
    "projected_gravity": 3,
    "joint_velocity": 12,
    "sin_joint_position": 12,
    "cos_joint_position": 12,
    "angular_velocity": 3,
    "last_action": 12,
    "command": COMMAND_SIZE,
}
OBSERVATION_SIZE = sum(PARTS.values())
ACTION_SIZE = 12
ARRAYS = {"observation": ArraySpec((OBSERVATION_SIZE,), parts=PARTS), "action": ArraySpec((ACTION_SIZE,))}
LAYOUT = ARRAYS["observation"].slices()
# Standard deviations of the sensor noise by part, in simulation and in training. The controller itself computes
# last_action and command, without noise.
SENSOR_NOISE: dict[str, float] = {
    "projected_gravity": 0.02,  # a unit vector; about 0.02 rad of attitude
    "joint_velocity": 0.3,  # [rad/s]
    "sin_joint_position": 0.01,  # about 0.01 rad of joint position
    "cos_joint_position": 0.01,
    "angular_velocity": 0.1,  # [rad/s]
}


def assemble_observation(
    orientation: npt.ArrayLike,
    angular_velocity: npt.ArrayLike,
    joint_position: npt.ArrayLike,
    joint_velocity: npt.ArrayLike,
    last_action: npt.ArrayLike,
    command: npt.ArrayLike,
) -> Single:
    """Observations (..., 70) from body orientation (..., 4) x, y, z, w; angular velocity (..., 3) [rad/s] in the body
    frame; joint positions and velocities (..., 12) [rad, rad/s]; the last position targets sent (..., 12) [rad]; and
    commands (..., 16). Joints follow JOINT_NAMES.
    """
    parts = (
        projected_gravity(orientation),
        joint_velocity,
        np.sin(joint_position),
        np.cos(joint_position),
        angular_velocity,
        last_action,
        command,
    )
    return np.concatenate(parts, axis=-1).astype(np.float32)


SCALARS = ("target_stamp", "previous_stamp", "joints_stamp", "imu_stamp", "cold")
LABEL = f"{', '.join(SCALARS)}, command[{COMMAND_SIZE}]"
SIZE = len(SCALARS) + COMMAND_SIZE


@dataclass(frozen=True)
class PolicyStep:
    """What went into one step of a policy, so that a recording can be replayed to the last digit: a bag holds every
    state and command, but not which of them a cycle had when it began.

    Stamps [s] of the message that carried its targets, of the one sent before, and of the joint_states and
    imu/data it saw (as a double they are good to half a microsecond); cold: whether it was the first after a reset;
    command (16,), see control/command.py.
    """

    target_stamp: float
    previous_stamp: float
    joints_stamp: float
    imu_stamp: float
    cold: bool
    command: Array

    def vector(self) -> Array:
        """The step as the numbers (21,) that LABEL names."""
        scalars = [self.target_stamp, self.previous_stamp, self.joints_stamp, self.imu_stamp, self.cold]
        return np.concatenate([scalars, self.command])
