"""What has been said lately: mode, faults, health and answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

OUTDATED = 3.0  # [s] after which a status that should come every second is no more true
FORGOTTEN = 60.0  # [s]
MOST_ANSWERS = 8
LEVELS = ("ok", "warning", "error", "stale")


class MonitorNews:
    """Collects what the page shows in words. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._mode = ""
        self._robot_fault = ""
        self._statuses: dict[str, tuple[float, dict[str, Any]]] = {}
        self._answers: deque[str] = deque(maxlen=MOST_ANSWERS)
        self._count = 0

    @property
    def mode(self) -> str:
        """The controller's mode; empty before it has told one."""
        return self._mode

    def set_mode(self, mode: str) -> None:
        """Take the controller's mode."""
        self._mode = mode

    def set_robot_fault(self, fault: str) -> None:
        """Take what a robot's bridge says; empty where all is well."""
        self._robot_fault = fault

    def set_status(self, name: str, level: int, message: str, values: Sequence[tuple[str, str]], now: float) -> None:
        """Take one status of diagnostics."""
        told = {"name": name, "level": LEVELS[min(level, len(LEVELS) - 1)], "message": message, "values": dict(values)}
        self._statuses[name] = (now, told)

    def answer(self, sentence: str) -> None:
        """Take an answer to what a page has asked for."""
        self._count += 1
        self._answers.append(sentence)

    def told(self, now: float) -> dict[str, Any]:
        """All of it as JSON's types; `old` where a status is out of date, `faults`: why the robot is not to be used."""
        self._statuses = {name: entry for name, entry in self._statuses.items() if now - entry[0] <= FORGOTTEN}
        statuses = [{**told, "old": now - since > OUTDATED} for since, told in self._statuses.values()]
        return {
            "mode": self._mode,
            "faults": self._faults(statuses),
            "statuses": sorted(statuses, key=lambda status: status["name"]),
            "answers": list(self._answers),
            "answered": self._count,
        }

    def _faults(self, statuses: list[dict[str, Any]]) -> list[str]:
        faults = [f"robot: {self._robot_fault}"] if self._robot_fault else []
        for status in statuses:
            node = status["name"].partition(":")[0]
            if status["old"]:
                faults.append(f"{node} has been silent for more than {OUTDATED:g} s")
            elif status["level"] == "error" and status["message"] != self._robot_fault:
                faults.append(f"{node}: {status['message']}")
        return faults
