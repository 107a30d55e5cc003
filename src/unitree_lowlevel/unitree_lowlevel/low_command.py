"""What the motors are asked to do, in SI units; the codec turns it into bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SERVO = 0x0A  # motor modes of the vendor
OFF = 0x00
POSITION_STOP = 2.146e9  # [rad] the vendor's "no position control"
VELOCITY_STOP = 16000.0  # [rad/s] the vendor's "no velocity control"


@dataclass(frozen=True)
class LowCommand:
    """One command to the 12 joint motors, arrays (12,) in JOINT_NAMES order, which is also the order on the wire.

    A motor's torque is torque + stiffness (position - q) + damping (velocity - dq).
    mode: motor mode, SERVO or OFF; position [rad]; velocity [rad/s]; torque [Nm], feed-forward; stiffness [Nm/rad];
    damping [Nms/rad].
    """

    mode: npt.NDArray[np.uint8]
    position: Array
    velocity: Array
    torque: Array
    stiffness: Array
    damping: Array
