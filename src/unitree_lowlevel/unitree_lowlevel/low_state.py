"""What the robot says about itself, in SI units; the codec reads it from bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LowState:
    """One state. Joint arrays (12,) in JOINT_NAMES order.

    mode: motor modes; position [rad]; velocity [rad/s]; torque: the board's estimate [Nm]; temperature of the motors
    [deg C]; orientation (4,) x, y, z, w; angular_velocity (3,) [rad/s] and linear_acceleration (3,) [m/s^2] in the body
    frame, the latter with gravity as an accelerometer feels it; imu_temperature [deg C]; foot_force (4,), FR FL RR RL,
    in the vendor's units; tick: the board's own time, in its own unit; remote (40 bytes): the wireless remote;
    identity: the header's (commVersion, robotID) or what stands in their place.
    """

    mode: npt.NDArray[np.uint8]
    position: Array
    velocity: Array
    torque: Array
    temperature: Array
    orientation: Array
    angular_velocity: Array
    linear_acceleration: Array
    imu_temperature: float
    foot_force: Array
    tick: int
    remote: bytes
    identity: tuple[int, ...]
