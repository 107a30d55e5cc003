"""What a joint_trajectory message asks of a robot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES


class RefusedCommandError(ValueError):
    """A command that no robot should follow; the sentence says why."""


@dataclass(frozen=True)
class JointCommand:
    """Position targets (12,) [rad] in JOINT_NAMES order, or None where the joints shall only be damped."""

    targets: npt.NDArray[np.float64] | None


DAMP = JointCommand(targets=None)


def joint_command(
    names: Sequence[str], positions: Sequence[float], velocities: Sequence[float], efforts: Sequence[float]
) -> JointCommand:
    """Read the one point of a trajectory whose joints are `names`, in any order.

    Positions are targets; velocities of zero without positions mean "damp". Raises RefusedCommandError.
    """
    order = _order(names)
    if any(velocities) or any(efforts):
        raise RefusedCommandError("this robot follows positions only; leave velocities and effort empty or zero")
    if not len(positions):
        if len(velocities) != len(JOINT_NAMES):
            raise RefusedCommandError("the point has no positions; send 12 positions, or 12 velocities of 0 to damp")
        return DAMP
    if len(positions) != len(JOINT_NAMES):
        raise RefusedCommandError(
            f"the point has {len(positions)} positions for {len(JOINT_NAMES)} joints; send one for each"
        )
    targets = np.asarray(positions, dtype=np.float64)[order]
    if not np.isfinite(targets).all():
        joint = JOINT_NAMES[int(np.flatnonzero(~np.isfinite(targets))[0])]
        raise RefusedCommandError(f"the position of {joint} is not a finite number; send finite positions")
    return JointCommand(targets)


def _order(names: Sequence[str]) -> list[int]:
    if tuple(names) == JOINT_NAMES:
        return list(range(len(JOINT_NAMES)))
    missing = sorted(set(JOINT_NAMES) - set(names))
    unknown = sorted(set(names) - set(JOINT_NAMES))
    if missing or unknown or len(names) != len(JOINT_NAMES):
        found = f"missing {missing}, unknown {unknown}" if missing or unknown else "a joint is named twice"
        raise RefusedCommandError(f"the joints must be {', '.join(JOINT_NAMES)}, each once, in any order; {found}")
    return [list(names).index(joint) for joint in JOINT_NAMES]
