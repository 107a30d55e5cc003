"""One status of /diagnostics: level, sentence and values."""

from __future__ import annotations

import time
from collections.abc import Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from fcnet_core.control_clock import Quantiles
from fcnet_ros.topics import DIAGNOSTICS

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
PERIOD = 1.0  # [s] between two statuses
SLOW = 0.95  # of the wanted rate, below which a loop is called slow


class HealthPublisher:
    """Publishes the status `<node>: <part>`."""

    def __init__(self, node: Node, part: str = "") -> None:
        self.publisher = DIAGNOSTICS.publisher(node)
        self._clock = node.get_clock()
        name = node.get_fully_qualified_name().lstrip("/")
        self._name = f"{name}: {part}" if part else name

    def publish(self, level: bytes, message: str, values: Mapping[str, str]) -> None:
        """Publish a level with a sentence, and values by key."""
        pairs = [KeyValue(key=key, value=value) for key, value in values.items()]
        status = DiagnosticStatus(name=self._name, level=level, message=message, values=pairs)
        array = DiagnosticArray(status=[status])
        array.header.stamp = self._clock.now().to_msg()
        self.publisher.publish(array)


class Rate:
    """Counts per second since the last call, of a count that only grows."""

    def __init__(self) -> None:
        self._count, self._since = 0, time.monotonic()

    def measure(self, count: int) -> float:
        """Return the rate [1/s] since the last call."""
        now = time.monotonic()
        rate = (count - self._count) / max(now - self._since, 1e-6)
        self._count, self._since = count, now
        return rate


def milliseconds(what: str, quantiles: Quantiles) -> dict[str, str]:
    """Return the values of a latency's quantiles."""
    return {
        f"{what}_p50_ms": f"{1e3 * quantiles.p50:.3f}",
        f"{what}_p99_ms": f"{1e3 * quantiles.p99:.3f}",
        f"{what}_max_ms": f"{1e3 * quantiles.largest:.3f}",
    }
