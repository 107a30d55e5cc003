"""What somebody should read, each thing once."""

from __future__ import annotations

from collections.abc import Iterable

from unitree_lowlevel.safety.trip import Finding

LASTING = 0.5  # [s] before a warning is worth a line: the first state always takes a moment
SILENCE = 10.0  # [s] in which a warning that comes and goes is announced once


class Announcements:
    """Collects sentences until they are taken."""

    def __init__(self) -> None:
        self._sentences: list[str] = []
        self._since: dict[str, float] = {}
        self._announced: dict[str, float] = {}

    def say(self, sentence: str) -> None:
        """Announce something that has happened."""
        self._sentences.append(sentence)

    def warn(self, now: float, findings: Iterable[Finding]) -> None:
        """Announce, at time `now` [s], what has been found for a while and not been announced yet."""
        present = {finding.name: finding for finding in findings}
        self._since = {name: self._since.get(name, now) for name in present}
        for name, since in self._since.items():
            if now - since < LASTING:
                continue
            if now - self._announced.get(name, float("-inf")) > SILENCE:
                self._sentences.append(f"warning: {present[name]}")
            self._announced[name] = now

    def take(self) -> tuple[str, ...]:
        """Everything announced since the last call."""
        taken, self._sentences = tuple(self._sentences), []
        return taken
