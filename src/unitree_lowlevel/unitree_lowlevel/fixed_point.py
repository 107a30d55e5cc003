"""What a command becomes on the wire: single precision, and torque and gains in steps that fit into 16 bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unitree_lowlevel.low_command import LowCommand
from unitree_lowlevel.wire_error import WireError

FIELDS = ("position", "velocity", "torque", "stiffness", "damping")
STEPS = np.array([[1], [1], [256], [32], [16]], dtype=np.float32)  # per SI unit; position and velocity have none
_LOWEST = np.array([[-32768], [0], [0]], dtype=np.float32) / STEPS[2:]
_HIGHEST = np.float32(32767) / STEPS[2:]


def wire_values(command: LowCommand) -> npt.NDArray[np.float32]:
    """Rows position, velocity, torque, stiffness, damping (5, 12), the last three whole numbers of their STEPS.

    Values are cut towards zero as in the vendor's library, but one beyond the wire's range becomes the nearest within
    (-128 <= torque < 128 Nm, 0 <= stiffness < 1024 Nm/rad, 0 <= damping < 2048 Nms/rad) where the library wraps round.
    Raises WireError "not_finite" for NaN and for what single precision cannot hold.
    """
    rows = [command.position, command.velocity, command.torque, command.stiffness, command.damping]
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.array(rows, dtype=np.float32)
    finite = np.isfinite(values)
    if not finite.all():
        name = FIELDS[int(np.flatnonzero(~finite.all(axis=1))[0])]
        raise WireError("not_finite", f"a command's {name} is not a finite number: it was not sent")
    values[2:] = np.trunc(np.clip(values[2:], _LOWEST, _HIGHEST) * STEPS[2:])
    return values
