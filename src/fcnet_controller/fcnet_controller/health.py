"""The controller's health as a diagnostics status."""

from __future__ import annotations

import time

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from fcnet_controller.control_core import ControlCore, LoopStatistics
from fcnet_controller.posture import Mode
from fcnet_core.control_clock import Quantiles

SLOW = 0.95  # of the wanted rate, below which the loop is called slow


class Health:
    """Turns what a controller has done into one status a second."""

    def __init__(self, core: ControlCore, rate: float, name: str) -> None:
        self._core = core
        self._wanted_rate = rate
        self._name = name
        self._cycles = 0
        self._misses = 0
        self._since = time.monotonic()

    def status(self) -> DiagnosticStatus:
        """The status of the time since this was last asked."""
        statistics, now = self._core.statistics, time.monotonic()
        rate = (statistics.cycles - self._cycles) / max(now - self._since, 1e-6)
        missed = statistics.misses - self._misses
        self._cycles, self._misses, self._since = statistics.cycles, statistics.misses, now
        level, message = self._level(rate, missed, self._core.state.problem(now))
        return DiagnosticStatus(
            name=self._name,
            hardware_id="",
            level=level,
            message=message,
            values=[KeyValue(key=key, value=value) for key, value in self._values(statistics, rate, now).items()],
        )

    def _level(self, rate: float, missed: int, problem: str | None) -> tuple[bytes, str]:
        if self._core.mode is Mode.FAULT:
            return DiagnosticStatus.ERROR, f"fault: {self._core.fault}"
        if problem:
            return DiagnosticStatus.WARN, problem
        if missed or rate < SLOW * self._wanted_rate:
            return DiagnosticStatus.WARN, f"slow: {rate:.1f} Hz of {self._wanted_rate:g} Hz, {missed} cycles missed"
        return DiagnosticStatus.OK, self._core.mode.value

    def _values(self, statistics: LoopStatistics, rate: float, now: float) -> dict[str, str]:
        return {
            "mode": self._core.mode.value,
            "fault": self._core.fault,
            "rate_hz": f"{rate:.2f}",
            "wanted_rate_hz": f"{self._wanted_rate:g}",
            "cycles": str(statistics.cycles),
            "deadline_misses": str(statistics.misses),
            "state_age_ms": f"{1e3 * (now - self._core.state.received):.2f}",
            **_milliseconds("wake", statistics.wake.quantiles()),
            **_milliseconds("step", statistics.step.quantiles()),
            **_milliseconds("response", statistics.response.quantiles()),
        }


def _milliseconds(what: str, quantiles: Quantiles) -> dict[str, str]:
    return {
        f"{what}_p50_ms": f"{1e3 * quantiles.p50:.3f}",
        f"{what}_p99_ms": f"{1e3 * quantiles.p99:.3f}",
        f"{what}_max_ms": f"{1e3 * quantiles.largest:.3f}",
    }
