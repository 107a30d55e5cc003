"""Joint commands and the limits of position and velocity that every target passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core import FcnetError
from fcnet_core.arrays import Array
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


class RefusedCommandError(FcnetError):
    """A command that no robot should follow; the sentence says why."""


@dataclass(frozen=True)
class JointCommand:
    """Position targets (12,) [rad] in JOINT_NAMES order, or None where the joints shall only be damped; when they
    arrived [s, time.monotonic], and whose they are.
    """

    targets: Array | None
    received: float = 0.0
    source: str = ""


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
