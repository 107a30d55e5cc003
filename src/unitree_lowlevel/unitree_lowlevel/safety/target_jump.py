"""Whether targets move as targets of a robot do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.safety.limits import Limits

NAME = "target_jump"
Array = npt.NDArray[np.float64]


def check_jump(limits: Limits, last: Array, target: Array, elapsed: float) -> str | None:
    """A reason when targets (12,) [rad] have jumped from the last ones, `elapsed` [s] ago.

    Two targets may arrive at once, so a step is accepted on top of the slew.
    """
    jump = np.abs(target - last)
    worst = int(jump.argmax())
    accepted = limits.safety.max_target_jump + limits.safety.max_target_rate * elapsed
    if jump[worst] <= accepted:
        return None
    return (
        f"the target of {JOINT_NAMES[worst]} jumped by {jump[worst]:.2f} rad in {elapsed * 1e3:.0f} ms, accepted are "
        f"{accepted:.2f} rad; look at who sends joint_trajectory"
    )


def check_start(limits: Limits, position: Array, target: Array) -> str | None:
    """A reason when the first targets (12,) [rad] are not where the joints are, at `position` (12,) [rad]."""
    distance = np.abs(target - position)
    worst = int(distance.argmax())
    if distance[worst] <= limits.safety.max_start_error:
        return None
    return (
        f"the first target of {JOINT_NAMES[worst]} is {distance[worst]:.2f} rad away, accepted are "
        f"{limits.safety.max_start_error:g} rad; damp, then begin where the joints are"
    )
