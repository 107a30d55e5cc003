"""One publisher of a topic is followed; what does not suit a node's subscriptions is reported."""

from __future__ import annotations

import time

import pytest
from geometry_msgs.msg import Twist, TwistStamped
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from ros_harness import TIMEOUT, wait_until
from rosgraph_msgs.msg import Clock
from std_msgs.msg import String

from fcnet_core.control.timing import NEVER
from fcnet_core.errors import RobotInUseError
from fcnet_ros.health import ERROR, OK, WARN, SimulatedTime, TopicWatch
from fcnet_ros.one_publisher import Company, OnePublisher, _Gid, conflicts, follow
from fcnet_ros.program import GuardedExecutor
from fcnet_ros.topics import CLOCK, CMD_VEL, DIAGNOSTICS, LATCHED, NEWEST, Topic

WORDS = Topic("words", String, QoSProfile(depth=1), NEWEST, missing="say something")
BEST_EFFORT = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


@pytest.fixture
def node(make_node):
    return make_node("listener")


@pytest.fixture
def first(make_node):
    return WORDS.publisher(make_node("first"))


@pytest.fixture
def second(make_node):
    return WORDS.publisher(make_node("second"))


class Words(OnePublisher):
    """The words of one publisher, as they are taken."""

    def __init__(self, node, lapse, on_switch=None):
        self.taken = []
        super().__init__(
            node, WORDS, lambda message, _received: self.taken.append(message.data), lapse, False, on_switch
        )

    def until(self, publisher, word):
        """Publish a word until it is taken."""

        def is_taken():
            publisher.publish(String(data=word))
            time.sleep(0.002)
            self.store(NEVER)
            return word in self.taken

        wait_until(is_taken, f"{word!r}")


def test_of_two_publishers_the_first_is_followed_however_many_messages_the_second_sends(node, first, second):
    words = Words(node, TIMEOUT)
    words.until(first, "ours")
    assert conflicts(node) == ""
    words.taken.clear()
    wait_until(second.get_subscription_count, "a subscription")

    def is_reported():
        first.publish(String(data="ours"))
        for _ in range(5):
            second.publish(String(data="theirs"))
        time.sleep(0.002)
        words.store(NEVER)
        return len(words.taken) > 50 and "/first" in conflicts(node) and "/second" in conflicts(node)

    wait_until(is_reported, "a conflict of both names")
    assert set(words.taken) == {"ours"}
    assert conflicts(node, CMD_VEL) == ""


def test_after_the_first_has_been_silent_the_second_is_followed_and_that_is_reported(node, first, second):
    switches = []
    words = Words(node, 0.2, switches.append)
    words.until(first, "ours")
    assert not switches
    words.until(second, "theirs")
    assert len(switches) == 1
    assert "/second" in switches[0]


def test_a_latched_text_is_that_of_one_publisher_until_it_has_ended_or_its_node_starts_again(node, make_node):
    text = Topic("text", String, LATCHED, LATCHED)
    ours, theirs, restarted = (make_node(name) for name in ("first", "stranger", "first"))
    first, stranger, successor = (text.publisher(node) for node in (ours, theirs, restarted))
    first.publish(String(data="ours"))
    taken, executor = [], GuardedExecutor(node)
    follow(node, text, lambda message: taken.append(message.data))

    def until(word):
        wait_until(lambda: executor.spin_once(timeout_sec=0.1) or taken[-1:] == [word], word)

    until("ours")  # of before the subscription
    stranger.publish(String(data="theirs"))
    wait_until(lambda: executor.spin_once(timeout_sec=0.1) or "/stranger" in conflicts(node), "a conflict")
    first.publish(String(data="ours again"))
    until("ours again")
    successor.publish(String(data="of the successor"))  # while the first is still in the graph, as after a kill
    until("of the successor")
    assert "theirs" not in taken
    ours.destroy_publisher(first)
    restarted.destroy_publisher(successor)
    until("theirs")
    executor.shutdown()


def test_publishers_without_an_identity_are_a_conflict_that_names_both(node, first, second, monkeypatch):
    monkeypatch.setattr(_Gid, "known", lambda _gid: b"")
    words = Words(node, TIMEOUT)
    words.until(second, "theirs")
    words.until(first, "ours")
    wait_until(lambda: "/first" in conflicts(node) and "/second" in conflicts(node), "both names")


def test_a_program_does_not_publish_what_another_one_publishes_already(node, first):
    Company(node, WORDS).refuse()  # a silent publisher, as of a program that was killed
    company = Company(node, WORDS)
    wait_until(first.get_subscription_count, "a subscription")

    def is_refused():
        first.publish(String(data="ours"))
        time.sleep(0.02)
        try:
            company.check(time.monotonic())
        except RobotInUseError as refusal:
            return "/first" in str(refusal) and "namespace:=" in str(refusal)
        return False

    wait_until(is_refused, "a refusal")
    company.close()


@pytest.fixture
def report(make_node):
    """Execute a node until its newest status of topics has a level and words; return its message."""

    def report(node, level, *words):
        statuses, executor = [], GuardedExecutor(node)
        DIAGNOSTICS.subscribe(node, lambda message: statuses.extend(message.status))

        def is_reported():
            executor.spin_once(timeout_sec=0.1)
            return any(one.level == level and all(word in one.message for word in words) for one in statuses)

        wait_until(is_reported, lambda: f"{words} in {[one.message for one in statuses]}")
        executor.shutdown()

    return report


@pytest.mark.parametrize(
    ("level", "kind", "quality", "words"),
    [
        (OK, Twist, QoSProfile(depth=1), ()),
        (WARN, TwistStamped, QoSProfile(depth=1), ("/planner", "TwistStamped", "use_stamped_cmd_vel")),
        (WARN, String, QoSProfile(depth=1), ("/planner", "std_msgs/msg/String", "geometry_msgs/msg/Twist")),
        (WARN, Twist, BEST_EFFORT, ("/planner", "reliable")),
    ],
)
def test_a_publisher_of_another_type_or_quality_of_service_is_reported_as_is_a_topic_without_any(
    node, make_node, report, monkeypatch, level, kind, quality, words
):
    monkeypatch.setattr("fcnet_ros.health.MISSING_TIME", 0.5)
    watch = TopicWatch(node)
    for topic in (WORDS, CMD_VEL, CMD_VEL.named("other/cmd_vel")):
        topic.subscribe(node, lambda _message: None)
    make_node("planner").create_publisher(kind, CMD_VEL.name, quality)
    report(node, level, *words, WORDS.missing)
    assert not [said for said in watch._said if CMD_VEL.missing in said]  # one of several sources is enough


@pytest.fixture
def clock(make_node):
    node = make_node("clock")
    return CLOCK.publisher(node)


@pytest.fixture
def simulated(make_node):
    """A node with use_sim_time, and a function that publishes times [s] of a clock until a condition holds."""
    node = make_node("simulated", parameter_overrides=[Parameter("use_sim_time", value=True)])
    executor, given = GuardedExecutor(node), SimulatedTime(node)

    def until(condition, what, *ticks):
        """ticks: pairs of a clock and its next times [s]."""

        def ticked():
            for publisher, times in ticks:
                message = Clock()
                seconds = next(times)
                message.clock.sec, message.clock.nanosec = int(seconds), int(seconds % 1.0 * 1e9)
                publisher.publish(message)
                executor.spin_once(timeout_sec=0.01)
            executor.spin_once(timeout_sec=0.01)
            return condition()

        wait_until(ticked, what)

    yield node, given, until
    executor.shutdown()


def count_from(seconds):
    """Times of a clock that advances in each tick."""
    while True:
        yield seconds
        seconds += 0.01


def test_simulated_time_without_a_clock_is_a_problem_as_is_one_that_stands_still_or_goes_back(simulated, clock):
    _node, given, until = simulated
    assert "/clock" in given.problem(False)
    until(lambda: not given.problem(), "a clock", (clock, count_from(100.0)))
    until(lambda: "stands still" in given.problem(), "a clock that has stopped")
    assert given.problem(False) == ""
    until(lambda: "back" in given.problem(), "a restarted simulator", (clock, count_from(1.0)))
    until(lambda: not given.problem(), "the new time", (clock, count_from(20.0)))


def test_the_time_of_a_second_clock_is_ignored(simulated, clock, make_node):
    node, given, until = simulated
    stranger = CLOCK.publisher(make_node("stranger"))
    ours = clock, count_from(100.0)
    until(lambda: not given.problem(), "a clock", ours)
    end = time.monotonic() + 1.0
    both = ours, (stranger, count_from(5.0)), (stranger, count_from(5e6))
    times = []
    until(lambda: times.append(node.get_clock().now().nanoseconds * 1e-9) or time.monotonic() > end, "a second", *both)
    assert times[0] > 99.0
    assert times == sorted(times)
    assert times[-1] < 1000.0


def test_a_node_without_a_clock_reports_an_error(make_node, report, monkeypatch):
    monkeypatch.setattr("fcnet_ros.health.MISSING_TIME", 0.5)
    node = make_node("simulated", parameter_overrides=[Parameter("use_sim_time", value=True)])
    TopicWatch(node)
    report(node, ERROR, "/clock")
