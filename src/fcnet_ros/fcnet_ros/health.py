"""Health of a node: its status on /diagnostics, and statistics of its loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from fcnet_core.control.timing import LatencyRing
from fcnet_core.names import status_name
from fcnet_ros.topics import DIAGNOSTICS

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
PERIOD = 1.0  # [s] between two statuses
SLOW = 0.95  # fraction of the nominal rate below which a loop is reported as slow


class HealthPublisher:
    """Publishes the status `<node>: <task>`."""

    def __init__(self, node: Node, task: str = "") -> None:
        self.publisher = DIAGNOSTICS.publisher(node)
        self._clock = node.get_clock()
        self._name = status_name(node.get_fully_qualified_name(), task)

    def publish(self, level: bytes, message: str, values: Mapping[str, str]) -> None:
        """Publish a level, a summary, and values by key."""
        pairs = [KeyValue(key=key, value=value) for key, value in values.items()]
        status = DiagnosticStatus(name=self._name, level=level, message=message, values=pairs)
        array = DiagnosticArray(status=[status])
        array.header.stamp = self._clock.now().to_msg()
        self.publisher.publish(array)


class Rate:
    """Rate of an increasing count, in seconds of `clock`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._count, self._since = 0, clock()

    def measure(self, count: int) -> float:
        """Return the rate [1/s] since the last call."""
        now = self._clock()
        rate = (count - self._count) / max(now - self._since, 1e-6)
        self._count, self._since = count, now
        return rate


class LoopStatistics:
    """Statistics of a periodic loop, written by its thread and read by another.

    cycles: number run. misses: number skipped because an earlier cycle was a whole period late.
    """

    def __init__(self, *durations: str) -> None:
        """durations: names of the durations measured in each cycle."""
        self.cycles = self.misses = 0
        self._durations = {name: LatencyRing() for name in durations}
        self._rate, self._reported = Rate(), 0

    def use_clock(self, clock: Callable[[], float]) -> None:
        """Measure the rate of cycles in seconds of another clock."""
        self._rate = Rate(clock)

    def add(self, name: str, duration: float) -> None:
        """Add a duration [s]."""
        self._durations[name].add(duration)

    def measure(self) -> tuple[float, int]:
        """Return cycles per second and misses since the last call."""
        missed, self._reported = self.misses - self._reported, self.misses
        return self._rate.measure(self.cycles), missed

    def milliseconds(self) -> dict[str, str]:
        """Return quantiles of all durations [ms] by key."""
        values = {}
        for name, ring in self._durations.items():
            for key, duration in ring.quantiles().items():
                values[f"{name}_{key}_ms"] = f"{1e3 * duration:.3f}"
        return values
