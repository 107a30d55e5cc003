"""Permission for a fallen robot to turn over, for a limited time: see "Getting up" in docs/deployment.md."""

from __future__ import annotations

import math

from fcnet_core.arrays import Array
from fcnet_core.robot import Robot
from fcnet_core.rotation import tilt

BEGIN_TIME = 2.0  # [s] from the request until the first targets
UPRIGHT_TIME = 0.5  # [s] upright, after which the permission ends
_NEVER = float("-inf")


class RecoveryPermit:
    """While it is `valid`, tilt is only a warning and the trunk may rotate faster.

    Times [s] are from the driver's cycles. It is granted for BEGIN_TIME. Targets that start within that time extend it
    until the robot has been upright for UPRIGHT_TIME, at most by max_time of the robot file. It ends when they end.
    """

    def __init__(self, robot: Robot) -> None:
        self._facts = robot.recovery
        self.end()

    @property
    def exists(self) -> bool:
        """Whether the robot file has a recovery."""
        return self._facts is not None

    @property
    def valid(self) -> bool:
        """Whether it holds, as of the newest `update`."""
        return self._until > _NEVER

    @property
    def torque(self) -> float:
        """Fraction of the motors' torque limits that commands may use now."""
        return self._facts.torque if self._facts and self._running else 1.0

    @property
    def max_rate(self) -> float | None:
        """Maximum rate [rad/s] of the trunk; None for the usual one."""
        return self._facts.max_rate if self._facts and self.valid else None

    def grant(self, now: float) -> None:
        """Permit targets to start."""
        self._until = now + BEGIN_TIME

    def begin(self, now: float) -> None:
        """Extend the permission: targets have started."""
        if self.valid and self._facts:
            self._running, self._upright, self._until = True, now, now + self._facts.max_time

    def end(self) -> None:
        """Withdraw it."""
        self._running, self._until, self._upright = False, _NEVER, math.inf

    def update(self, now: float, orientation: Array) -> None:
        """End it if its time is over or the orientation (4,) x, y, z, w is upright; NaN counts as tilted."""
        if not self.valid or self._facts is None:
            return
        if not tilt(orientation) <= self._facts.max_tilt:
            self._upright = now
        if now > self._until or (self._running and now - self._upright > UPRIGHT_TIME):
            self.end()
