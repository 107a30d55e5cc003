"""Reasons for a fault while joints follow targets: a tilted trunk, joints away from their targets, a bridge that does
not follow.
"""

from __future__ import annotations

import math

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import Robot, Safety

FOLLOWING_PATIENCE = 0.1  # [s] for which a robot's bridge may not follow targets that it has followed before
FIRST_PATIENCE = 0.5  # [s] until it reports that it follows the first ones; the joints have not moved by then


def tilt_problem(safety: Safety, orientation: Array) -> str | None:
    """Return the reason for a fault if the trunk, at an orientation (4,) x, y, z, w, is tilted too far; or None."""
    x, y, _, _ = orientation.tolist()
    tilt = math.acos(max(-1.0, 1.0 - 2.0 * (x * x + y * y)))  # the body's z axis against the vertical
    if tilt <= safety.max_tilt:
        return None
    return f"the robot is tilted by {tilt:.2f} rad, the limit is {safety.max_tilt:g} rad; set it on its belly"


class JointErrorWatchdog:
    """Watches the distance between targets and measured positions, which grows when a leg is blocked or powerless.

    It counts only after the robot's joint_error_time: impacts pass, blocked legs stay.
    """

    def __init__(self, robot: Robot, period: float) -> None:
        self._names, self._safety, self._period = robot.joint_names, robot.safety, period
        self.reset()

    def reset(self) -> None:
        """Restart the measurement of how long a joint has been away."""
        self._exceeded = 0.0

    def check(self, target: Array, measured: Array) -> str | None:
        """Return the reason for a fault, or None, after one more period with targets and positions (N,) [rad]."""
        error, limit = np.abs(target - measured), self._safety.max_joint_error
        worst = int(error.argmax())
        self._exceeded = self._exceeded + self._period if error[worst] > limit else 0.0
        if self._exceeded <= self._safety.joint_error_time:
            return None
        return (
            f"{self._names[worst]} is {error[worst]:.2f} rad from its target, the limit is {limit:g} rad; "
            "look for a blocked leg or a motor without power"
        )


class FollowingWatchdog:
    """Watches whether the robot's bridge follows this controller's targets.

    Any thread may set `refusal`: why the bridge would refuse all targets now, empty if it would not; and `owner`: whom
    it follows, empty for no one, and whether that is this controller. For a simulated robot, which has no bridge,
    neither is ever set.
    """

    def __init__(self) -> None:
        self.refusal = ""
        self.owner: tuple[str, bool] | None = None
        self.reset()

    def reset(self) -> None:
        """Restart before the first of several targets."""
        self._unfollowed, self._has_followed = math.inf, False  # [s] since when; before

    def obstacle(self) -> str:
        """Return why targets would not be followed now; empty if they would."""
        owner, is_own = self.owner or ("", False)
        return self.refusal or (f"it follows {owner}" if owner and not is_own else "")

    def check(self, now: float) -> str | None:
        """Return the reason for a fault, or None, in a cycle at `now` [s] in which targets are sent."""
        obstacle, owner = self.obstacle(), self.owner
        problem = obstacle or ("it follows no controller" if owner is not None and not owner[0] else "")
        if not problem:
            self._has_followed, self._unfollowed = owner is not None, math.inf
            return None
        self._unfollowed = min(self._unfollowed, now)
        starts = not self._has_followed and not obstacle
        if now - self._unfollowed < (FIRST_PATIENCE if starts else FOLLOWING_PATIENCE):
            return None
        return f"the robot's bridge does not follow this controller: {problem}"
