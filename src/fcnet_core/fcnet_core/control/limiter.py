"""Joint commands: targets of all joints as a sender gives them, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array
from fcnet_core.errors import RefusedCommandError
from fcnet_core.robot import JOINT_NAMES


@dataclass(frozen=True)
class JointCommand:
    """A command for all joints.

    targets: positions (12,) [rad] in JOINT_NAMES order, or None to damp; received: time of arrival [s, time.monotonic];
    source: the sender; stamp: the sender's time [ns].
    """

    targets: Array | None
    received: float
    source: str
    stamp: int = 0


def joint_targets(
    names: Sequence[str], positions: npt.ArrayLike, velocities: npt.ArrayLike, efforts: npt.ArrayLike
) -> Array | None:
    """Return the position targets (12,) [rad] in JOINT_NAMES order of a point whose joints are `names`, in any order.

    Return None for velocities of zero without positions, which mean "damp". Raises RefusedCommandError.
    """
    order = _order(names)
    positions, velocities = np.asarray(positions, dtype=np.float64), np.asarray(velocities)
    if np.any(velocities) or np.any(efforts):
        raise RefusedCommandError("this robot follows positions only; leave velocities and effort empty or zero")
    if not positions.size:
        if velocities.size != len(JOINT_NAMES):
            raise RefusedCommandError("the point has no positions; send 12 positions, or 12 velocities of 0 to damp")
        return None
    if positions.size != len(JOINT_NAMES):
        raise RefusedCommandError(
            f"the point has {positions.size} positions for {len(JOINT_NAMES)} joints; send one for each"
        )
    targets = positions[order]
    if not np.isfinite(targets).all():
        joint = JOINT_NAMES[int(np.flatnonzero(~np.isfinite(targets))[0])]
        raise RefusedCommandError(f"the position of {joint} is not a finite number; send finite positions")
    return targets


def _order(names: Sequence[str]) -> slice | list[int]:
    if names == JOINT_NAMES:
        return slice(None)
    missing = sorted(set(JOINT_NAMES) - set(names))
    unknown = sorted(set(names) - set(JOINT_NAMES))
    if missing or unknown or len(names) != len(JOINT_NAMES):
        found = f"missing {missing}, unknown {unknown}" if missing or unknown else "a joint is named twice"
        raise RefusedCommandError(f"the joints must be {', '.join(JOINT_NAMES)}, each once, in any order; {found}")
    return [list(names).index(joint) for joint in JOINT_NAMES]
