"""The bridge's health as a diagnostics status."""

from __future__ import annotations

import time

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from fcnet_core.control_clock import Quantiles
from fcnet_core.robot import JOINT_NAMES
from unitree_bridge.io_loop import IoLoop
from unitree_bridge.topics import GainsReceiver
from unitree_lowlevel.driver import DriverMode, MotorDriver
from unitree_lowlevel.transport import Transport

SLOW = 0.95  # of the wanted rate, below which the loop is called slow


class BridgeHealth:
    """Turns what loop, driver and transport have done into one status a second."""

    def __init__(
        self,
        name: str,
        wanted_rate: float,
        loop: IoLoop,
        driver: MotorDriver,
        transport: Transport,
        gains: GainsReceiver,
    ) -> None:
        self._name = name
        self._wanted_rate = wanted_rate
        self._loop, self._driver, self._transport = loop, driver, transport
        self._gains = gains
        self._turns = self._misses = self._states = 0
        self._since = time.monotonic()

    def status(self) -> DiagnosticStatus:
        """The status of the time since this was last asked."""
        statistics, now = self._loop.statistics, time.monotonic()
        duration = max(now - self._since, 1e-6)
        rate = (statistics.turns - self._turns) / duration
        states = (statistics.states - self._states) / duration
        missed = statistics.misses - self._misses
        self._turns, self._misses, self._states = statistics.turns, statistics.misses, statistics.states
        self._since = now
        level, message = self._judge(rate, missed)
        values = {"io_rate_hz": f"{rate:.2f}", "state_rate_hz": f"{states:.2f}", **self._values(now)}
        return DiagnosticStatus(
            name=self._name,
            level=level,
            message=message,
            values=[KeyValue(key=key, value=value) for key, value in values.items()],
        )

    def _judge(self, rate: float, missed: int) -> tuple[bytes, str]:
        driver = self._driver
        if driver.trip is not None:
            return DiagnosticStatus.ERROR, str(driver.trip)
        if driver.warnings:
            return DiagnosticStatus.WARN, "; ".join(driver.warnings)
        if driver.mode is DriverMode.WAITING:
            return DiagnosticStatus.WARN, "waiting for the robot"
        if rate < SLOW * self._wanted_rate:
            return DiagnosticStatus.WARN, f"slow: {rate:.0f} Hz of {self._wanted_rate:g} Hz, {missed} turns missed"
        return DiagnosticStatus.OK, driver.mode.value

    def _values(self, now: float) -> dict[str, str]:
        driver, counters, statistics = self._driver, self._transport.counters, self._loop.statistics
        loss = driver.packet_loss
        return {
            "phase": driver.mode.value,
            "trip": str(driver.trip or ""),
            "warnings": "; ".join(driver.warnings),
            "gains": self._gains.state,
            "io_wanted_rate_hz": f"{self._wanted_rate:g}",
            "io_turns": str(statistics.turns),
            "io_misses": str(statistics.misses),
            **_milliseconds("io_period", statistics.period.quantiles()),
            **_milliseconds("io_work", statistics.work.quantiles()),
            "robot_state_age_ms": f"{1e3 * max(now - statistics.received, 0.0):.1f}" if statistics.states else "",
            "packet_loss_percent": "" if loss is None else f"{100 * loss:.2f}",
            "packets_sent": str(counters.sent),
            "packets_received": str(counters.received),
            "packets_rejected": ", ".join(f"{kind} {count}" for kind, count in sorted(counters.rejected.items())),
            "packets_foreign": str(counters.foreign),
            "packets_duplicate": str(counters.duplicates),
            "packets_old": str(counters.old),
            "send_errors": str(counters.send_errors),
            "commands_refused": str(self._loop.refused),
            **self._temperatures(),
        }

    def _temperatures(self) -> dict[str, str]:
        state = self._driver.state
        if state is None:
            return {}
        hottest = int(state.temperature.argmax())
        return {
            "hottest_motor": f"{JOINT_NAMES[hottest]} {state.temperature[hottest]:.0f}",
            "temperatures_deg_c": ", ".join(f"{value:.0f}" for value in state.temperature.tolist()),
            "imu_temperature_deg_c": f"{state.imu_temperature:.0f}",
        }


def _milliseconds(what: str, quantiles: Quantiles) -> dict[str, str]:
    return {
        f"{what}_p50_ms": f"{1e3 * quantiles.p50:.3f}",
        f"{what}_p99_ms": f"{1e3 * quantiles.p99:.3f}",
        f"{what}_max_ms": f"{1e3 * quantiles.largest:.3f}",
    }
