"""Signals: named arrays from which a policy's terms are read, and the types that carry those of a robot.

Each has one size, unit [SI, radians] and frame. Velocities are in the body frame, quaternions x, y, z, w.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, ArraySpec
from fcnet_core.errors import NonFiniteObservation
from fcnet_core.robot import SETPOINT_FIELDS


def finite_observation(
    observation: npt.ArrayLike, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32
) -> npt.NDArray[Any]:
    """Return the observation as a contiguous array of the given shape and type; NaN must not enter a recurrent state.

    Raises NonFiniteObservation if an entry is NaN, infinite or beyond float32, ValueError for another shape.
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


ROBOT_SIGNALS = ("orientation", "angular_velocity", "joint_position", "joint_velocity")  # every robot measures them


@dataclass(frozen=True)
class SensorReading:
    """Sensor readings of a real or simulated robot.

    Joint position [rad], velocity [rad/s] and torque [Nm], (N,) of the robot's joints or empty; orientation (4,) x, y,
    z, w; angular velocity (3,) [rad/s] and acceleration (3,) [m/s^2] in the body frame; the acceleration includes
    gravity, as an accelerometer measures it: (0, 0, 9.81) at rest.
    """

    position: Array
    velocity: Array
    torque: Array
    orientation: Array
    angular_velocity: Array
    linear_acceleration: Array


@dataclass(frozen=True)
class TrunkPose:
    """Position (3,) [m] and orientation (4,) x, y, z, w of the trunk in the world; its velocities (3,) [m/s] and (3,)
    [rad/s] in the body frame.
    """

    position: Array
    orientation: Array
    linear_velocity: Array
    angular_velocity: Array


@dataclass(eq=False)
class RobotState:
    """A state of one robot or, with a leading axis, of several. Joints (N,) in the robot's order [rad, rad/s];
    orientation (4,) x, y, z, w; angular velocity (3,) [rad/s] in the body frame; stamps [s] in the sender's time.

    Recorded and simulated states are never too old; receivers keep one up to date, see StateBuffer.
    """

    joint_position: Array
    joint_velocity: Array
    orientation: Array
    angular_velocity: Array
    joints_stamp: float = 0.0
    imu_stamp: float = 0.0

    def problem(self, now: float) -> str | None:
        """Return why the state must not be used at time `now` [s]; None if it may."""
        return None

    def conflict(self) -> str:
        """Return why no motion may start on this state, though it may be used; empty without a reason."""
        return ""


PARTS = {  # in the order of the paper, appendix C.3
    "projected_gravity": 3,
    "joint_velocity": 12,
    "sin_joint_position": 12,
    "cos_joint_position": 12,
    "angular_velocity": 3,
    "last_action": 12,
    "command": 16,
}
ARRAYS = {"observation": ArraySpec((70,), parts=PARTS), "action": ArraySpec((12,))}
LAYOUT = ARRAYS["observation"].slices()


SCALARS = ("target_stamp", "previous_stamp", "joints_stamp", "imu_stamp", "cold")
LABEL = f"{', '.join(SCALARS)}, setpoint[{len(SETPOINT_FIELDS)}], phase, walking"
SIZE = len(SCALARS) + len(SETPOINT_FIELDS) + 2


@dataclass(frozen=True)
class PolicyStep:
    """Inputs of one step of a policy, so that a recording can be replayed exactly.

    A bag has all states and commands, but not the information which of them a cycle used.

    target_stamp, previous_stamp [s]: of the message with its targets and of the message before; joints_stamp, imu_stamp
    [s]: of its joint_states and imu/data (a double resolves half a microsecond); cold: whether it was the first step
    after a reset; setpoint (9,), shaped; phase and walking: of the gait clock.
    """

    target_stamp: float
    previous_stamp: float
    joints_stamp: float
    imu_stamp: float
    cold: bool
    setpoint: Array
    phase: float
    walking: bool

    def vector(self) -> Array:
        """Return the step as numbers (16,) in the order of LABEL."""
        scalars = (getattr(self, name) for name in SCALARS)
        return np.array([*scalars, *self.setpoint.tolist(), self.phase, self.walking])
