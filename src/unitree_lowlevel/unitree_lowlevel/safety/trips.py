"""The latched trip of a motor driver, its warnings, and the events that a bridge logs."""

from __future__ import annotations

from collections.abc import Sequence
from logging import ERROR, INFO, WARNING

from fcnet_core.errors import FcnetError
from unitree_lowlevel.safety.checks import TILT, Finding, Severity
from unitree_lowlevel.safety.monitor import IDENTITY

WARNING_DELAY = 0.5  # [s] before a warning is logged: the first state takes a while
WARNING_PAUSE = 10.0  # [s] in which an intermittent warning is logged once
_NEVER = float("-inf")


class Trips:
    """Latches the first trip until it is cleared; later ones are warnings. Collects events, and each warning once.

    latched: the finding that has tripped the motors, or None.
    """

    def __init__(self) -> None:
        self.latched: Finding | None = None
        self._later: dict[str, Finding] = {}
        self._events: list[tuple[int, str]] = []
        self._since: dict[str, float] = {}
        self._logged: dict[str, float] = {}

    def latch(self, finding: Finding) -> None:
        """Latch the first trip; keep another one as a warning."""
        if self.latched is None:
            self.latched = finding
            self._events.append((ERROR, f"tripped: {finding}; the joints are damped until reset"))
        elif finding.name != self.latched.name:
            self._later[finding.name] = finding

    def clear(self, findings: Sequence[Finding], tilt_allowed: bool) -> None:
        """Clear the trip. Raises FcnetError if its cause, or that of another trip, is among the findings."""
        assert self.latched is not None
        for finding in findings:
            remains = finding.name == self.latched.name and not (finding.name == TILT and tilt_allowed)
            if finding.name != IDENTITY and (remains or finding.severity is Severity.TRIP):
                raise FcnetError(f"cannot reset: {finding.reason}")
        self.latched = None
        self._later.clear()

    def others(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return the findings other than the latched one, then the later trips that are no longer found."""
        current = [finding for finding in findings if self.latched is None or finding.name != self.latched.name]
        names = {finding.name for finding in current}
        return current + [finding for name, finding in self._later.items() if name not in names]

    def log(self, text: str) -> None:
        """Add an event."""
        self._events.append((INFO, text))

    def warn(self, now: float, findings: Sequence[Finding]) -> None:
        """Add, at time `now` [s], the findings that have lasted WARNING_DELAY and are not logged yet."""
        present = {finding.name: finding for finding in findings}
        self._since = {name: self._since.get(name, now) for name in present}
        for name, since in self._since.items():
            if now - since < WARNING_DELAY:
                continue
            if now - self._logged.get(name, _NEVER) > WARNING_PAUSE:
                self._events.append((WARNING, str(present[name])))
            self._logged[name] = now

    def take_events(self) -> list[tuple[int, str]]:
        """Return the events since the last call, as (level of `logging`, text)."""
        taken, self._events = self._events, []
        return taken
