"""Joint commands, and the position and slew limits of every target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Mask
from fcnet_core.errors import RefusedCommandError
from fcnet_core.robot import JOINT_NAMES, Robot


class JointLimiter:
    """Clips position targets to the robot's limits, limits their rate and replaces NaN; the last stage of every target.

    batch: number of robots, the leading axis of all arrays; None for one robot without that axis. last, previous: the
    targets sent last and those sent before (..., 12) [rad].
    """

    def __init__(self, robot: Robot, period: float, batch: int | None = None) -> None:
        self.period = period
        self._lower, self._upper = robot.lower, robot.upper
        self._step = robot.safety.max_target_rate * period
        self.start(robot.lie_pose if batch is None else np.tile(robot.lie_pose, (batch, 1)))

    def start(self, position: npt.ArrayLike, mask: Mask | None = None) -> None:
        """Start at joint positions (..., 12) [rad], clipped to the limits; mask (batch,): these robots only."""
        start = self.within_limits(position)
        self.previous: Array = start if mask is None else np.where(mask[:, None], start, self.previous)
        self.last: Array = start if mask is None else np.where(mask[:, None], start, self.last)

    def limit(self, target: npt.ArrayLike) -> Array:
        """Return the targets (..., 12) [rad] to send in this period; NaN becomes the last target."""
        requested = np.asarray(target, dtype=np.float64)
        requested = np.where(np.isnan(requested), self.last, requested)
        slewed = np.minimum(np.maximum(requested, self.last - self._step), self.last + self._step)
        self.previous, self.last = self.last, self.within_limits(slewed)
        return self.last

    def within_limits(self, target: npt.ArrayLike) -> Array:
        """Return targets (..., 12) [rad] clipped to the joint limits."""
        return np.minimum(np.maximum(np.asarray(target, dtype=np.float64), self._lower), self._upper)


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
