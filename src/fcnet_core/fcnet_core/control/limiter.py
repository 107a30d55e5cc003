"""Joint commands and the limits of position and velocity that every target passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array
from fcnet_core.errors import RefusedCommandError
from fcnet_core.robot import JOINT_NAMES, Robot


class JointLimiter:
    """Clips position targets to the robot's limits and limits their change per second; never lets a NaN through.

    Every target that leaves the controller passes it last.
    """

    def __init__(self, robot: Robot, period: float) -> None:
        self._lower = robot.lower
        self._upper = robot.upper
        self._step = robot.safety.max_target_rate * period
        self.last: Array = np.clip(robot.lie_pose, self._lower, self._upper)

    def start(self, position: npt.ArrayLike) -> None:
        """Begin at measured joint positions (12,) [rad], clipped to the limits."""
        self.last = np.clip(np.asarray(position, dtype=np.float64), self._lower, self._upper)

    def limit(self, target: npt.ArrayLike) -> Array:
        """The targets (12,) [rad] to send this period for wanted targets (12,); where these are NaN, the last ones."""
        wanted = np.asarray(target, dtype=np.float64)
        wanted = np.where(np.isnan(wanted), self.last, wanted)
        slewed = np.minimum(np.maximum(wanted, self.last - self._step), self.last + self._step)
        self.last = np.minimum(np.maximum(slewed, self._lower), self._upper)
        return self.last


@dataclass(frozen=True)
class JointCommand:
    """Position targets (12,) [rad] in JOINT_NAMES order, or None where the joints shall only be damped; when they
    arrived [s, time.monotonic], whose they are, and their sender's stamp [ns].
    """

    targets: Array | None
    received: float
    source: str
    stamp: int = 0


def joint_targets(
    names: Sequence[str], positions: npt.ArrayLike, velocities: npt.ArrayLike, efforts: npt.ArrayLike
) -> Array | None:
    """Return the position targets (12,) [rad] in JOINT_NAMES order of a point whose joints are `names`, in any order.

    None where velocities of zero without positions mean "damp". Raises RefusedCommandError.
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
