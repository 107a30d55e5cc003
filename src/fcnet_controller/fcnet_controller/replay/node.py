"""The controller over a bag: plays its states, and its policy takes the recorded steps; no robot moves."""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from rclpy.time import Time
from rosgraph_msgs.msg import Clock as ClockMessage

from fcnet_controller.controller_node import ControllerNode
from fcnet_controller.parameters import ReplayParameters
from fcnet_controller.replay.bag import MODES, ReplayBag, read_replay_bag
from fcnet_controller.replay.core import RecordingController, ReplayedStep, StepReplay
from fcnet_core.control.controller import Controller
from fcnet_core.errors import ReplayError
from fcnet_core.files import write_whole
from fcnet_ros.parameters import declare_parameters, read_parameters
from fcnet_ros.program import FAILURE, REFUSED, SUCCESS, Stop, refused, run_program, spin
from fcnet_ros.targets import TargetPublisher
from fcnet_ros.topics import CLOCK, IMU, JOINT_STATES, JOINT_TRAJECTORY, LATCHED, POLICY_STEP

NAME = "replay"
DISCOVERY_TIME = 1.0  # [s] in which other nodes are discovered; later ones end the replay
MATCHING_TIMEOUT = 1.0  # [s] for all known subscriptions to be matched with what is going to be played
COMPANY_PERIOD = 0.5  # [s] between two looks for a robot that is running
TICK = 0.005  # [s] between two looks at what is due
LONGEST_TICK = 0.05  # [s] of playing at a time; a busy computer plays the rest later
CLOCK_PERIOD = 0.025  # [s] between two messages on /clock
STREAMED = QoSProfile(depth=50_000)  # messages that are kept for a slow listener
LAST_MESSAGES = Duration(seconds=10)  # for the last ones to be received
REPORTED = 20  # cold starts that are logged one by one


class ReplayLoop:
    """Replaces the control loop: plays the bag, with /clock, at `rate` recorded seconds per second, and takes its steps
    as they become due, in the executor of the node. publish: is called with the steps taken.
    """

    is_running = True

    def __init__(
        self,
        node: Node,
        bag: ReplayBag,
        steps: StepReplay,
        rate: float,
        repeats: bool,
        publish: Callable[[Iterator[ReplayedStep]], None],
    ) -> None:
        self.finished = False
        self._node, self._bag, self._steps = node, bag, steps
        self._rate, self._repeats, self._publish = rate, repeats, publish
        self._publishers = {
            topic: node.create_publisher(
                _message_type(bag.kinds[bag.name(topic)]), bag.name(name), LATCHED if topic == MODES else STREAMED
            )
            for topic, name in bag.played().items()
        }
        self._clock = CLOCK.publisher(node)
        self._is_matched = False
        self._matching_ends = time.monotonic() + MATCHING_TIMEOUT
        self._rewind()

    def start(self) -> None:
        """Start to play, once every known subscription is matched."""
        self._timer = self._node.create_timer(TICK, self._tick, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def stop(self) -> None:
        self._node.destroy_timer(self._timer)
        for publisher in (*self._publishers.values(), self._clock):
            self._node.destroy_publisher(publisher)

    def _rewind(self) -> None:
        """Restart with the first message."""
        self._messages = self._bag.messages()
        self._next = next(self._messages, None)
        self._time = self._next[0] if self._next else 0.0  # of reception [s], up to which the bag has been played
        self._played_at = time.monotonic()
        self._clock_at = -math.inf
        self._steps.rewind()

    def _tick(self) -> None:
        if self.finished or not self._matched():
            return
        self._play()
        self._publish(self._steps.advance(math.inf if self._next is None else self._time))
        if self._next is None:
            self.finished = not self._repeats
            if self._repeats:
                self._rewind()

    def _matched(self) -> bool:
        """Return whether the listeners are matched, or MATCHING_TIMEOUT is over; recorded time starts then."""
        if not self._is_matched:
            self._is_matched = time.monotonic() > self._matching_ends or all(
                publisher.get_subscription_count() >= self._node.count_subscribers(publisher.topic_name)
                for publisher in self._publishers.values()
            )
            self._played_at = time.monotonic()
        return self._is_matched

    def _play(self) -> None:
        """Publish the due messages. If they take longer than LONGEST_TICK, recorded time passes more slowly."""
        now = time.monotonic()
        due, end = self._time + (now - self._played_at) * self._rate, now + LONGEST_TICK
        while self._next is not None and self._next[0] <= due and time.monotonic() < end:
            self._time, topic, content = self._next
            self._publishers[topic].publish(content)
            self._steps.receive(*self._next)
            self._next = next(self._messages, None)
        if self._next is not None and self._next[0] > due:
            self._time = due
        self._played_at = now
        if now >= self._clock_at + CLOCK_PERIOD:
            self._clock.publish(ClockMessage(clock=Time(nanoseconds=round(self._time * 1e9)).to_msg()))
            self._clock_at = now


def _message_type(kind: str) -> type:
    """Return the class of a type such as sensor_msgs/msg/Imu."""
    package, _, name = kind.partition("/msg/")
    try:
        found: type = getattr(importlib.import_module(f"{package}.msg"), name)
    except (ImportError, AttributeError) as error:
        raise ReplayError(f"the bag holds messages of type {kind}, which is not installed here") from error
    return found


class ReplayNode(ControllerNode):
    """The controller of a bag's robot, in the robot's namespace, whose cycles are the recorded ones.

    It publishes joint_states, imu/data, odom and controller/mode as recorded; recorded targets, steps and commands as
    recorded/...; and its own targets as ~/joint_trajectory, with the stamps of the recorded ones. Raises ValueError if
    the bag cannot be replayed.
    """

    parameters, controller_type = ReplayParameters, RecordingController

    def __init__(self, bag: ReplayBag, given: ReplayParameters) -> None:
        self._bag = bag
        self._given = given
        settings = bag.settings(given)
        super().__init__(
            NAME,
            cli_args=["--ros-args", "--remap", f"__ns:=/{bag.namespace}"],  # also against the launch's
            parameter_overrides=[Parameter(name, value=value) for name, value in settings.items()],
        )

    def refuse_company(self) -> None:
        """Raise ReplayError if a robot or controller is running: its states would mix with the recorded ones."""
        own = (self.get_name(), self.get_namespace())
        for topic in (JOINT_STATES, IMU, JOINT_TRAJECTORY):
            name = self._bag.name(topic.name)
            for info in self.get_publishers_info_by_topic(name):
                if (info.node_name, info.node_namespace) == own and self._loop is not None:
                    continue
                raise ReplayError(
                    f"{info.node_name} publishes {name}: a robot, a simulator or a controller is "
                    "running; end it first, or replay in another ROS_DOMAIN_ID"
                )

    def run(self, stop: Stop) -> int:
        """Play the bag to its end, or until `stop`, and log the result; return 1 if the replay has not passed, else 0.

        Raises ReplayError when a robot joins.
        """
        looked = time.monotonic()

        def is_finished() -> bool:
            nonlocal looked
            if time.monotonic() - looked > COMPANY_PERIOD:
                looked = time.monotonic()
                self.refuse_company()
            return isinstance(self._loop, ReplayLoop) and self._loop.finished

        spin(self, stop, is_finished)
        result = self._steps.result
        log = self.get_logger().info if result.passed else self.get_logger().error
        log(result.sentence())
        if self._given.summary:
            write_whole(Path(self._given.summary), result.as_json().encode())
        if self._loop is not None:
            self._publish_health()
        for publisher in (*self._publisher.publishers, self._mode.publisher, self._health.publisher):
            publisher.wait_for_all_acked(LAST_MESSAGES)
        return 0 if result.passed or stop.is_set() else 1

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Refuse: robot and policy are those of the bag."""
        return FAILURE

    @property
    def _rate(self) -> float:
        """No rate is expected: cycles come as they are played."""
        return 0.0

    def _connect(self, controller: Controller) -> None:
        targets = replace(JOINT_TRAJECTORY, name=f"~/{JOINT_TRAJECTORY.name}", offered=STREAMED)
        joints, steps = self._model.card.interface.joints, replace(POLICY_STEP, offered=STREAMED)
        self._publisher = TargetPublisher(self, joints, targets, steps)

    def _make_loop(self, controller: Controller) -> ReplayLoop:
        self._steps = StepReplay(controller, self._state, self._model, self._bag.run, self._log_cold_start)
        which = "recorded" if self._steps.result.same_policy else "other"
        self.get_logger().info(f"{which} policy {self._settings.policy} over {self._bag.path}")
        if not len(self._bag.run.steps.target_stamp):
            self.get_logger().warning("the bag holds no steps of a policy: it walks at its own pace instead")
        return ReplayLoop(self, self._bag, self._steps, self._given.rate, self._given.loop, self._publish_steps)

    def _publish_steps(self, steps: Iterator[ReplayedStep]) -> None:
        for step in steps:
            self._statistics.cycles += 1
            self._publisher.publish(step.targets, step.stamp)
            if self._controller and self._controller.policy_step is not None:
                self._publisher.publish_step(self._controller.policy_step)
        self._publish_mode()

    def _log_cold_start(self, reason: str) -> None:
        if self._steps.result.restarts <= REPORTED:
            self.get_logger().warning(f"{reason}; the policy starts cold")
        if self._steps.result.restarts == REPORTED:
            self.get_logger().warning("further cold starts are counted only")


def main() -> int:
    """Replay a bag; return 0 after a signal, and if the recorded policy gives the same targets again."""
    return run_program(NAME, _make_node, _run)


def _make_node() -> ReplayNode:
    """Return the node; a first node reads the parameter that names the bag, which has the robot's namespace."""
    node = Node(NAME)
    try:
        declare_parameters(node, ReplayParameters)
        given = read_parameters(node, ReplayParameters)
    finally:
        node.destroy_node()
    return ReplayNode(read_replay_bag(given.bag, given.namespace, given.robot), given)


def _run(node: ReplayNode, stop: Stop) -> int:
    try:
        if node.trigger_configure() != SUCCESS:
            return REFUSED
        stop.wait(DISCOVERY_TIME)
        node.refuse_company()
        return node.run(stop) if node.trigger_activate() == SUCCESS else REFUSED
    except (ValueError, OSError) as error:
        return refused(NAME, error)
    finally:
        node.stop_commanding()


if __name__ == "__main__":
    sys.exit(main())
