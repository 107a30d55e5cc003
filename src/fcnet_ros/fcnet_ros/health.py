"""Health of a node: its status on /diagnostics, statistics of its loop, and a watch over its subscriptions: publishers
of another type or quality of service, publishers that are ignored, topics without a publisher, and simulated time.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import QoSCompatibility, qos_check_compatible
from rclpy.subscription import Subscription
from rclpy.time import Time
from rclpy.topic_endpoint_info import TopicEndpointInfo
from rosgraph_msgs.msg import Clock

from fcnet_core.control.timing import NEVER, LatencyRing
from fcnet_core.names import status_name
from fcnet_ros.one_publisher import conflicts, node_name
from fcnet_ros.parameters import SIM_TIME
from fcnet_ros.topics import CLOCK, DIAGNOSTICS, SUBSCRIBED, steady_timer

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
PERIOD = 1.0  # [s] between two statuses
SLOW = 0.95  # fraction of the nominal rate below which a loop is reported as slow
MISSING_TIME = 5.0  # [s] after which a topic without a publisher is reported
CLOCK_LAPSE = 0.5  # [s] of real time after which simulated time that does not advance stands still
MAX_STEP = 10**9  # [ns] between two times of one publisher of /clock
RESTART_TIME = 1.0  # [s] of real time after which another publisher's time is taken, and for which that is reported
START_CLOCK = "start one simulator with clock:=true, or set use_sim_time to false"
REMEDIES = {  # by expected and found type
    ("geometry_msgs/msg/Twist", "geometry_msgs/msg/TwistStamped"): "set the parameter use_stamped_cmd_vel to true",
    ("geometry_msgs/msg/TwistStamped", "geometry_msgs/msg/Twist"): "set the parameter use_stamped_cmd_vel to false",
}


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


class LoopStatistics:
    """Statistics of a periodic loop, written by its thread and read by another.

    cycles: number run. misses: number skipped because an earlier cycle was a whole period late.
    """

    def __init__(self, *durations: str) -> None:
        """durations: names of the durations measured in each cycle."""
        self.cycles = self.misses = 0
        self._durations = {name: LatencyRing() for name in durations}
        self.use_clock(time.monotonic)

    def use_clock(self, clock: Callable[[], float]) -> None:
        """Measure the rate of cycles in seconds of this clock from now on."""
        self._clock, self._reported = clock, (self.cycles, self.misses, clock())

    def add(self, name: str, duration: float) -> None:
        """Add a duration [s]."""
        self._durations[name].add(duration)

    def measure(self) -> tuple[float, int]:
        """Return cycles per second and misses since the last call."""
        before, self._reported = self._reported, (self.cycles, self.misses, self._clock())
        cycles, misses, duration = (now - then for now, then in zip(self._reported, before, strict=True))
        return cycles / max(duration, 1e-6), int(misses)

    def milliseconds(self) -> dict[str, str]:
        """Return quantiles of all durations [ms] by key."""
        values = {}
        for name, ring in self._durations.items():
            for key, duration in ring.quantiles().items():
                values[f"{name}_{key}_ms"] = f"{1e3 * duration:.3f}"
        return values


class SimulatedTime:
    """The time on /clock of a node with use_sim_time, from a publisher whose time advances; another's is ignored.

    rclpy takes every message on /clock, and does not report who sent it.
    """

    def __init__(self, node: Node) -> None:
        self.is_used = bool(node.get_parameter(SIM_TIME).value)
        self._time, self._advanced, self._went_back = 0, time.monotonic(), NEVER  # [ns], [s, time.monotonic]
        for subscription in node.subscriptions:
            if subscription.topic_name == CLOCK.name:
                self._set_time = subscription.callback
                subscription.callback = self._take

    def _take(self, message: Clock) -> None:
        now, simulated = time.monotonic(), Time.from_msg(message.clock).nanoseconds
        is_next = 0 <= simulated - self._time <= MAX_STEP
        if is_next or now - self._advanced > RESTART_TIME or not self._time:
            if simulated < self._time:
                self._went_back = now
            if simulated != self._time:
                self._time, self._advanced = simulated, now
            self._set_time(message)

    def problem(self, must_advance: bool = True) -> str:
        """Return why the node's time cannot be used, empty if it can; must_advance: it may not have stopped or gone
        back lately. Any thread may ask.
        """
        if not self.is_used or (self._time and not must_advance):
            return ""
        if not self._time:
            return f"use_sim_time is set, but there is no {CLOCK.name}; {START_CLOCK}"
        now = time.monotonic()
        if now - self._went_back < RESTART_TIME:
            return f"the time on {CLOCK.name} went back; was its simulator restarted?"
        return f"the time on {CLOCK.name} stands still; {START_CLOCK}" if now - self._advanced > CLOCK_LAPSE else ""


class TopicWatch:
    """Reports the problems of a node's topics, in its executor."""

    def __init__(self, node: Node) -> None:
        self._node, self._health, self._time = node, HealthPublisher(node, "topics"), SimulatedTime(node)
        self._began = time.monotonic()
        self._published: dict[str, float] = {}  # when a publisher was last seen by the remedy [s, time.monotonic]
        self._said: set[str] = set()
        steady_timer(node, PERIOD, self._report)

    def _report(self) -> None:
        logger, now, topics = self._node.get_logger(), time.monotonic(), defaultdict[str, list[str]](list)
        clock = self._time.problem() if now - self._began > MISSING_TIME else ""
        found = [clock, conflicts(self._node)]
        for subscription in list(self._node.subscriptions):
            with suppress(InvalidHandle):  # destroyed in another thread
                name, remedy = subscription.topic_name, SUBSCRIBED.get(subscription, CLOCK).missing
                topics[remedy].append(name)  # the sources of commands have one remedy: one of them is enough
                for one in self._node.get_publishers_info_by_topic(name):
                    self._published[remedy] = now
                    found.append(_mismatch(subscription, name, one))
        problems = [problem for problem in found if problem]
        notes = [
            f"no one publishes {' or '.join(names)}; {remedy}"
            for remedy, names in topics.items()
            if remedy and now - self._published.setdefault(remedy, now) >= MISSING_TIME
        ]
        for sentence in {*problems, *notes} - self._said:
            if sentence in problems:  # rclpy allows one level per line of code
                logger.warning(sentence)
            else:
                logger.info(sentence)
        self._said.update(problems, notes)
        if self._said:
            level = ERROR if clock else WARN if problems else OK
            self._health.publish(level, "; ".join(problems + notes) or "all topics have their publisher", {})


def _mismatch(subscription: Subscription, topic: str, publisher: TopicEndpointInfo) -> str:
    kind: Any = subscription.msg_type
    quality, who = subscription.qos_profile, node_name(publisher)
    expected, found = f"{kind.__module__.split('.')[0]}/msg/{kind.__name__}", publisher.topic_type
    if found != expected:
        remedy = REMEDIES.get((expected, found), "publish that type")
        return f"{who} publishes {topic} as {found}, but {expected} is expected; {remedy}"
    if qos_check_compatible(publisher.qos_profile, quality)[0] == QoSCompatibility.ERROR:
        requested = f"{quality.reliability.name} and {quality.durability.name}".lower()
        return f"{who} publishes {topic} with a QoS that does not suit this node; publish as {requested}"
    return ""
