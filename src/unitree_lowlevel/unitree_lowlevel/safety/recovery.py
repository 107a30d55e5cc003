"""Permission for a robot that has fallen to turn over, for a bounded time: see "Getting up" in docs/deployment.md."""

from __future__ import annotations

import math

from fcnet_core.arrays import Array
from fcnet_core.robot import Robot
from fcnet_core.rotation import tilt

BEGIN_TIME = 2.0  # [s] from the request until targets must begin
UPRIGHT_TIME = 0.5  # [s] upright, after which the robot needs no permission any longer
_NEVER = float("-inf")


class RecoveryPermit:
    """While it is `valid` the tilt does not count, and the trunk may turn faster.

    Times [s] are those of the driver's cycles. It is granted for BEGIN_TIME; targets that begin in it make it last
    until the robot has been upright for a while, at most the max_time of the robot's recovery. It ends with them.
    """

    def __init__(self, robot: Robot) -> None:
        self._facts = robot.recovery
        self.end()

    @property
    def exists(self) -> bool:
        """Whether the robot's file has a recovery."""
        return self._facts is not None

    @property
    def valid(self) -> bool:
        """Whether it holds, as of the newest `update`."""
        return self._until > _NEVER

    @property
    def torque(self) -> float:
        """Share of the motors' torque that joints may have now."""
        return self._facts.torque if self._facts and self._running else 1.0

    @property
    def max_rate(self) -> float | None:
        """Largest rate [rad/s] of the trunk, None where it is the usual one."""
        return self._facts.max_rate if self._facts and self.valid else None

    def grant(self, now: float) -> None:
        """Permit somebody's targets to begin."""
        self._until = now + BEGIN_TIME

    def begin(self, now: float) -> None:
        """Targets begin."""
        if self.valid and self._facts:
            self._running, self._upright, self._until = True, now, now + self._facts.max_time

    def end(self) -> None:
        """Withdraw it."""
        self._running, self._until, self._upright = False, _NEVER, math.inf

    def update(self, now: float, orientation: Array) -> None:
        """Look at a robot with this orientation (4,) x, y, z, w; what is not finite counts as tilted."""
        if not self.valid or self._facts is None:
            return
        if not tilt(orientation) <= self._facts.max_tilt:
            self._upright = now
        if now > self._until or (self._running and now - self._upright > UPRIGHT_TIME):
            self.end()
