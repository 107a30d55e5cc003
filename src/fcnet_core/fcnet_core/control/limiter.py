"""Joint commands: targets of all joints as a sender gives them, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array
from fcnet_core.errors import RefusedCommandError


@dataclass(frozen=True)
class JointCommand:
    """A command for all joints.

    targets: positions (N,) [rad] of the robot's joints, or None to damp; received: time of arrival [s, time.monotonic];
    source: the sender; stamp: the sender's time [ns].
    """

    targets: Array | None
    received: float
    source: str
    stamp: int = 0


def joint_targets(
    joints: Sequence[str],
    names: Sequence[str],
    positions: npt.ArrayLike,
    velocities: npt.ArrayLike,
    efforts: npt.ArrayLike,
) -> Array | None:
    """Return the position targets (N,) [rad] of a robot's `joints` from a point that has them as `names`, in any order.

    Return None for velocities of zero without positions, which mean "damp". Raises RefusedCommandError.
    """
    order = _order(joints, names)
    positions, velocities = np.asarray(positions, dtype=np.float64), np.asarray(velocities)
    if np.any(velocities) or np.any(efforts):
        raise RefusedCommandError("this robot follows positions only; leave velocities and effort empty or zero")
    if not positions.size and velocities.size == len(joints):
        return None
    if positions.size != len(joints):
        raise RefusedCommandError(
            f"the point has {positions.size or 'no'} positions for {len(joints)} joints; send one for each, or a "
            "velocity of 0 for each to damp"
        )
    targets = positions[order]
    if not np.isfinite(targets).all():
        joint = joints[int(np.flatnonzero(~np.isfinite(targets))[0])]
        raise RefusedCommandError(f"the position of {joint} is not a finite number; send finite positions")
    return targets


def _order(joints: Sequence[str], names: Sequence[str]) -> slice | list[int]:
    if names == joints:
        return slice(None)
    missing, unknown = sorted(set(joints) - set(names)), sorted(set(names) - set(joints))
    if missing or unknown or len(names) != len(joints):
        found = f"missing {missing}, unknown {unknown}" if missing or unknown else "a joint is named twice"
        raise RefusedCommandError(f"the joints must be {', '.join(joints)}, each once, in any order; {found}")
    return [list(names).index(joint) for joint in joints]
