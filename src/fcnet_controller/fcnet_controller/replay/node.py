"""A recorded bag through ROS: its messages are played, and with them the targets of a policy over it; no robot moves.

The steps of the policy are those of `fcnet replay` (fcnet_replay/policy_replay.py), taken before the bag is played.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict, deque
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from rclpy.time import Time
from rosgraph_msgs.msg import Clock as ClockMessage

from fcnet_controller.parameters import ReplayParameters, policy_path
from fcnet_controller.replay.bag import MODES, ReplayBag, read_replay_bag, renamed_topics
from fcnet_core import counted
from fcnet_core.errors import ReplayError
from fcnet_core.files import write_whole
from fcnet_core.model_file import PolicyModel, check_robot, load_model
from fcnet_core.names import REPLAY, Mode
from fcnet_core.observation import PolicyStep
from fcnet_core.robot import Robot
from fcnet_replay.metrics import AGREEMENT
from fcnet_replay.policy_replay import PolicyReplay, extract_steps, replay_steps, walk_over_states
from fcnet_replay.recording_notes import robot_of
from fcnet_replay.run import Run, same
from fcnet_ros import topics
from fcnet_ros.health import OK, PERIOD, HealthPublisher
from fcnet_ros.parameters import declare_parameters, read_parameters
from fcnet_ros.program import Stop, refused, run_program, spin
from fcnet_ros.serialized import CdrReader
from fcnet_ros.targets import TargetPublisher
from fcnet_ros.topics import CLOCK, IMU, JOINT_STATES, JOINT_TRAJECTORY, LATCHED, MODE, POLICY_STEP, LatchedText

NAME = "replay"
DISCOVERY_TIME = 1.0  # [s] in which other nodes are discovered; later ones end the replay
MATCHING_TIMEOUT = 1.0  # [s] for all known subscriptions to be matched with what is going to be played
TICK = 0.005  # [s] between two looks at what is due
LONGEST_TICK = 0.05  # [s] of playing at a time; a busy computer plays the rest later
CLOCK_PERIOD = 0.025  # [s] between two messages on /clock
STREAMED = QoSProfile(depth=50_000)  # messages that are kept for a slow listener
LAST_MESSAGES = Duration(seconds=10)  # for the last ones to be received


def replay_run(run: Run, model: PolicyModel, robot: Robot) -> PolicyReplay:
    """Take the recorded steps of a run again; without any, walk over its states at the policy's own rate."""
    if len(run.steps.target_stamp):
        return replay_steps(run, extract_steps(run, model.command_shaper()), model, robot)
    return walk_over_states(run.without_targets(), model, robot)


@dataclass(frozen=True)
class ReplayResult:
    """Counts of a replay.

    steps: taken; lost: could not be taken; restarts: cold starts that the recorded policy did not have; compared: steps
    whose memory equalled the recorded policy's; largest_difference [rad]: their maximum from the sent targets.
    same_policy: whether the policy is the recorded one.
    """

    same_policy: bool
    steps: int
    lost: int
    restarts: int
    compared: int
    largest_difference: float

    @classmethod
    def of(cls, replay: PolicyReplay, same_policy: bool) -> ReplayResult:
        restarts = int((replay.cold & ~replay.record.cold).sum())
        difference = np.abs(replay.error[replay.comparable]).max(initial=0.0)
        steps = len(replay.time)
        return cls(same_policy, steps, replay.lost, restarts, int(replay.comparable.sum()), float(difference))

    @property
    def passed(self) -> bool:
        """Whether steps were taken and the recorded policy, if it was replayed, gave the same targets again."""
        return self.steps > 0 and not (self.same_policy and self.largest_difference > AGREEMENT)

    def sentence(self) -> str:
        if not self.steps:
            return f"no step replayed ({counted(self.lost, 'step')} lost): the bag has no steps, or not their states"
        starts, compared = counted(self.restarts, "cold start"), counted(self.compared, "step")
        counts = f"{counted(self.steps, 'step')} replayed, {self.lost} lost, {starts} not recorded"
        if not self.compared:
            return f"{counts}; none can be compared with the sent targets"
        found = f"maximum difference from the sent targets: {self.largest_difference:.2g} rad in {compared}"
        verdict = "as it should be" if self.passed else f"more than {AGREEMENT:g} rad"
        return f"{counts}; {found}, {verdict if self.same_policy else 'of another policy'}"


class ReplayNode(Node):
    """Plays a bag in its robot's namespace, with /clock, at `rate` recorded seconds per second, and publishes the
    policy's targets with the stamps of the recorded ones.

    result: of the policy's steps. Raises ValueError if the bag cannot be replayed.
    """

    def __init__(self, bag: ReplayBag, given: ReplayParameters) -> None:
        remap = ["--ros-args", "--remap", f"__ns:=/{bag.namespace}"]  # also against the launch's namespace
        super().__init__(NAME, cli_args=remap)
        declare_parameters(self, ReplayParameters, read_only=True)
        self._bag, self._given = bag, given
        notes = bag.run.notes
        robot = robot_of(bag.path, notes, given.robot)
        path = policy_path(robot.name, given.policy or (notes.model if notes.recorded_model() else ""))
        model = load_model(path)
        check_robot(model, robot)
        self._replay = replay_run(bag.run, model, robot)
        self.result = ReplayResult.of(self._replay, model.fingerprint == notes.model_fingerprint)
        which = "recorded" if self.result.same_policy else "other"
        self.get_logger().info(f"{which} policy {path} over {bag.path}")
        for problem in bag.run.problems:
            self.get_logger().warning(problem.sentence)
        if alone := self._replay.basis == "alone":
            self.get_logger().warning("the bag holds no steps of a policy: it walks at its own pace instead")
        self._answered = JOINT_STATES.name if alone else JOINT_TRAJECTORY.name  # the messages that the steps go with
        answered = bag.run.joints if alone else bag.run.targets
        self._times = answered.received[same(answered.stamp, self._replay.time)].tolist()  # of the steps, as received
        if self.result.restarts:
            self.get_logger().warning(f"steps are missing or lost: {counted(self.result.restarts, 'cold start')} more")
        targets = replace(JOINT_TRAJECTORY, name=f"~/{JOINT_TRAJECTORY.name}", offered=STREAMED)
        self._publisher = TargetPublisher(self, robot.joint_names, (targets, replace(POLICY_STEP, offered=STREAMED)))
        self._mode, self._health = LatchedText(self, MODE), HealthPublisher(self, REPLAY)
        self._played: dict[str, Publisher] = {}  # of the bag's messages by topic, from `start` on

    def run(self, stop: Stop) -> int:
        """Play the bag to its end, or until `stop`, and log the result; return 1 if the replay has not passed, else 0.

        Raises ReplayError if a robot is running or joins.
        """
        stop.wait(DISCOVERY_TIME)
        self._refuse_company()
        self.start()

        def is_finished() -> bool:
            self._refuse_company()
            return self._next is None

        spin(self, stop, is_finished)
        result = self.result
        (self.get_logger().info if result.passed else self.get_logger().error)(result.sentence())
        if self._given.summary:
            summary = json.dumps(asdict(result) | {"passed": result.passed}, indent=2)
            write_whole(Path(self._given.summary), summary.encode())
        self._publish_health()
        for publisher in (*self._publisher.publishers, self._mode.publisher, self._health.publisher):
            publisher.wait_for_all_acked(LAST_MESSAGES)
        return 0 if result.passed or stop.is_set() else 1

    def start(self) -> None:
        """Start to play the bag in the node's executor."""
        self._mode.publish(Mode.WALKING.value)
        renamed = renamed_topics()
        for topic, kind in self._bag.types.items():
            name, quality = self._bag.name(renamed.get(topic, topic)), LATCHED if topic == MODES else STREAMED
            self._played[topic] = self.create_publisher(kind, name, quality)
        self._ticks = CLOCK.publisher(self)
        end = time.monotonic() + MATCHING_TIMEOUT
        while time.monotonic() < end and any(
            publisher.get_subscription_count() < self.count_subscribers(publisher.topic_name)
            for publisher in self._played.values()
        ):
            time.sleep(TICK)
        self._rewind()
        topics.steady_timer(self, PERIOD, self._publish_health)
        topics.steady_timer(self, TICK, self._tick)

    def _refuse_company(self) -> None:
        """Raise ReplayError if a robot or controller is running: its states would mix with the recorded ones."""
        own = (self.get_name(), self.get_namespace())
        for topic in (JOINT_STATES, IMU, JOINT_TRAJECTORY, CLOCK):
            name = self._bag.name(topic.name)
            for info in self.get_publishers_info_by_topic(name):
                if (info.node_name, info.node_namespace) != own or not self._played:
                    found = f"{info.node_name} publishes {name}: a robot, a simulator or a controller is running"
                    raise ReplayError(f"{found}; end it first, or replay in another ROS_DOMAIN_ID")

    def _rewind(self) -> None:
        """Restart with the first message."""
        self._messages = self._bag.messages()
        self._next = next(self._messages, None)
        self._time = self._next[0] if self._next else 0.0  # of reception [s], up to which the bag has been played
        self._played_at, self._ticked_at = time.monotonic(), -math.inf
        self._due: dict[float, deque[int]] = defaultdict(deque)  # steps by the reception of the message they go with
        for step, received in enumerate(self._times):
            self._due[received].append(step)

    def _tick(self) -> None:
        """Publish the due messages. If they take longer than LONGEST_TICK, recorded time passes more slowly."""
        now = time.monotonic()
        due, end = self._time + (now - self._played_at) * self._given.rate, now + LONGEST_TICK
        while self._next is not None and self._next[0] <= due and time.monotonic() < end:
            self._time, topic, content = self._next
            self._played[topic].publish(content)
            if topic == self._answered:
                self._publish_step(content)
            self._next = next(self._messages, None)
        if self._next is not None and self._next[0] > due:
            self._time = due
        self._played_at = now
        if now >= self._ticked_at + CLOCK_PERIOD:
            self._ticks.publish(ClockMessage(clock=Time(nanoseconds=round(self._time * 1e9)).to_msg()))
            self._ticked_at = now
        if self._next is None and self._given.loop:
            self._rewind()

    def _publish_step(self, content: bytes) -> None:
        """Publish the policy's step that goes with a recorded target, or state, that has just been played."""
        stamp = CdrReader(content, len(content)).stamp()
        if due := self._due.get(self._time):
            step = due.popleft()
            self._publisher.publish(self._replay.action[step], stamp)
            recorded = PolicyStep(*(values[step] for values in vars(self._replay.record).values()))
            self._publisher.publish_step(replace(recorded, cold=bool(self._replay.cold[step])))

    def _publish_health(self) -> None:
        values = {key: str(value) for key, value in asdict(self.result).items()}
        self._health.publish(OK, self.result.sentence(), values)


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
        return node.run(stop)
    except (ValueError, OSError) as error:
        return refused(NAME, error)
