"""The controller over a bag that is played through ROS: its targets go where no robot listens."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rclpy.clock import Clock, ClockType
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.node import Node
from rclpy.parameter import Parameter

from fcnet_controller.control_core import ControlCore
from fcnet_controller.controller_node import FAILURE, SUCCESS, ControllerNode
from fcnet_controller.parameters import load_core
from fcnet_controller.replay.bag import (
    NEEDED,
    ReplayBag,
    ReplayBagError,
    ReplaySettings,
    controller_parameters,
    declare_settings,
    read_replay_bag,
)
from fcnet_controller.replay.core import QUEUE, ReplayCore
from fcnet_controller.replay.player import TARGETS, ReplayPlayer, StepsFeed, WalkFeed
from fcnet_controller.replay.steps import ReplayedStep, ReplaySteps, ReplayWalk
from fcnet_controller.topics import TargetPublisher
from fcnet_core.files import write_whole
from fcnet_core.model_file import load_model
from fcnet_replay.metrics import AGREEMENT
from fcnet_ros.program import REFUSED, refused, run_program

# What has come out of a replay.

@dataclass
class ReplayResult:
    """steps: that were taken; lost: that could not be; faults: lost ones with which the controller was in fault;
    restarts: cold starts that the recorded policy did not have; compared: steps whose memory held what the recorded
    policy's did; largest_difference [rad] among those. same_policy: whether the policy is the recorded one.
    """

    same_policy: bool
    steps: int = 0
    lost: int = 0
    faults: int = 0
    restarts: int = 0
    compared: int = 0
    largest_difference: float = 0.0

    def add(self, step: ReplayedStep) -> None:
        """Count a step."""
        self.steps += 1
        if step.comparable:
            self.compared += 1
            self.largest_difference = max(self.largest_difference, step.difference)

    @property
    def passed(self) -> bool:
        """Whether steps were taken, and the recorded policy, if it was replayed, said the same again."""
        return self.steps > 0 and not (self.same_policy and self.largest_difference > AGREEMENT)

    def sentence(self) -> str:
        """For people."""
        lost = f"{self.lost} lost, {self.faults} of them by a fault" if self.faults else f"{self.lost} lost"
        counts = f"{self.steps} steps replayed, {lost}, {self.restarts} cold starts that were not recorded"
        if not self.steps:
            return (
                f"nothing replayed ({self.lost} steps lost): the bag holds no steps of a policy, or not what they saw"
            )
        if not self.compared:
            return f"{counts}; none can be compared with what was sent"
        found = f"largest difference from what was sent: {self.largest_difference:.2g} rad in {self.compared} steps"
        if not self.same_policy:
            return f"{counts}; {found}, of another policy"
        return f"{counts}; {found}, {'as it should be' if self.passed else f'more than {AGREEMENT:g} rad'}"

    def as_json(self) -> str:
        """For programs."""
        return json.dumps(asdict(self) | {"passed": self.passed}, indent=2)


# What takes the place of the control loop in a replay: cycles come as the recorded steps do, not by the clock.

TURN = 0.005  # [s] between two looks at what has come
QUIET = 0.5  # [s] without a message, after which none will come


class ReplayLoop:
    """Takes every step that can be taken, from `start` to `stop`, in the executor of the node."""

    is_running = True  # an error does not end it unseen: the executor raises it

    def __init__(
        self,
        node: Node,
        core: ReplayCore,
        feed: StepsFeed | WalkFeed,
        publisher: TargetPublisher,
        result: ReplayResult,
        on_change: Callable[[], None],
    ) -> None:
        self._node = node
        self._core = core
        self._feed = feed
        self._publisher = publisher
        self._result = result
        self._on_change = on_change
        self._told = (core.mode, core.fault)

    def start(self) -> None:
        """Begin to take steps."""
        self._timer = self._node.create_timer(TURN, self._turn, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def stop(self) -> None:
        """Take no more."""
        self._node.destroy_timer(self._timer)

    def finish(self) -> None:
        """Wait for the last messages; what has not come by then is lost."""
        last = time.monotonic()
        while time.monotonic() - last < QUIET:
            if self._turn():
                last = time.monotonic()
            time.sleep(TURN)
        self._advance(math.inf)

    def _turn(self) -> int:
        """The number of messages that have come."""
        taken = self._feed.take()
        self._advance(time.monotonic())
        return taken

    def _advance(self, now: float) -> None:
        for step in self._feed.replay.advance(now):
            self._core.statistics.cycles += 1
            self._result.add(step)
            self._publisher.publish(step.targets, step.stamp)
            if self._core.policy_step is not None:
                self._publisher.tell_step(self._core.policy_step)
        self._result.lost, self._result.faults = self._feed.replay.lost, self._feed.replay.faults
        if (self._core.mode, self._core.fault) != self._told:
            self._told = (self._core.mode, self._core.fault)
            self._on_change()


# The controller over a bag that is played through ROS: its targets go where no robot listens.
#
# In the namespace of the recorded robot it hears joint_states and imu/data, as recorded, and recorded/..., the
# recorded targets, steps and commands; replay/joint_trajectory is what it says now, with the stamps of the recorded
# targets.

NAME = "replay"
LOOK_AROUND = 4.0  # [s] until other nodes are discovered: Fast DDS repeats a lost announcement after 3 s
TOLD = 20  # cold starts that are told one by one


class ReplayNode(ControllerNode):
    """The controller of a bag's robot, whose cycles are the recorded ones while `run` plays the bag.

    Raises ValueError (or a kind of it) with one sentence when the bag cannot be replayed.
    """

    def __init__(self, bag: ReplayBag, settings: ReplaySettings) -> None:
        self._bag = bag
        self._replay = settings
        parameters = controller_parameters(bag, settings)
        super().__init__(
            NAME,
            cli_args=["--ros-args", "--remap", f"__ns:=/{bag.namespace.strip('/')}"],  # whatever the launch says
            parameter_overrides=[Parameter(name, value=value) for name, value in parameters.items()],
        )
        policy, log = parameters["policy"], self.get_logger()
        same_policy = load_model(policy).fingerprint == bag.notes.model_fingerprint
        self.result = ReplayResult(same_policy)
        log.info(f"{'recorded' if same_policy else 'other'} policy {policy} over {bag.path}")
        if not bag.has_steps:
            log.warning("the bag does not tell the steps of a policy: it walks at its own pace instead")

    def run(self, stop: threading.Event) -> int:
        """Play the bag to its end, or until `stop`, and tell the result; the exit code is 1 when it is not as it
        should be.
        """
        self._refuse_company()
        executor = SingleThreadedExecutor()
        executor.add_node(self)
        player = ReplayPlayer(self._bag, self._replay.rate, self._replay.loop)
        try:
            while not stop.is_set() and player.exit_code is None:
                executor.spin_once(timeout_sec=0.1)
            failed = player.exit_code not in (None, 0) and not stop.is_set()
            player.stop()
            self._finish()
        finally:
            player.stop()
            executor.shutdown()
        return 1 if failed or not (self.result.passed or stop.is_set()) else 0

    def _refuse_company(self) -> None:
        """States of a living robot among recorded ones would be nonsense, and two who send targets a danger."""
        for topic in (*NEEDED, TARGETS):
            for info in self.get_publishers_info_by_topic(self._bag.namespace + topic):
                raise ReplayBagError(
                    f"{info.node_name} publishes {self._bag.namespace}{topic}: a robot, a simulator or a controller is "
                    "running; end it first, or replay in another ROS_DOMAIN_ID"
                )

    def _finish(self) -> None:
        if isinstance(self._loop, ReplayLoop):
            self._loop.finish()
        self.stop_commanding()
        log = self.get_logger().info if self.result.passed else self.get_logger().error
        log(self.result.sentence())
        if self._replay.summary:
            write_whole(Path(self._replay.summary), self.result.as_json().encode())

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Refuse: robot and policy are those of the bag."""
        return FAILURE

    @property
    def _rate(self) -> float:
        """None is wanted: cycles come as they are played."""
        return 0.0

    def _load(self) -> ControlCore:
        self._replay_core = load_core(self._settings, ReplayCore)
        return self._replay_core

    def _connect(self, core: ControlCore) -> None:
        self._feed = self._make_feed(self._replay_core, self._settings.control_rate)
        self._publisher = TargetPublisher(self, f"~/{TARGETS}", QUEUE)

    def _make_feed(self, core: ReplayCore, rate: float) -> StepsFeed | WalkFeed:
        warn = self.get_logger().warning
        if not self._bag.has_steps:
            return WalkFeed(self, ReplayWalk(core, rate, self._tell_cold_start), warn)
        cycles = round(rate / core.card.control_rate)
        return StepsFeed(self, ReplaySteps(core, cycles, self._tell_cold_start), warn)

    def _make_loop(self, core: ControlCore) -> ReplayLoop:
        return ReplayLoop(self, self._replay_core, self._feed, self._publisher, self.result, self._changed.trigger)

    def _tell_cold_start(self, reason: str) -> None:
        self.result.restarts += 1
        if self.result.restarts <= TOLD:
            self.get_logger().warning(f"{reason}; the policy starts cold")
        if self.result.restarts == TOLD:
            self.get_logger().warning("further cold starts are counted only")


def main() -> int:
    """Replay a bag; the exit code is 0 after a signal, and when the recorded policy has said the same again."""
    return run_program(NAME, _make_node, _run)


def _make_node() -> ReplayNode:
    settings = _read_settings()
    return ReplayNode(read_replay_bag(settings.bag, settings.namespace), settings)


def _run(node: ReplayNode, stop: threading.Event) -> int:
    began = time.monotonic()
    try:
        if node.trigger_configure() != SUCCESS or node.trigger_activate() != SUCCESS:
            return REFUSED
        stop.wait(max(0.0, began + LOOK_AROUND - time.monotonic()))
        return node.run(stop)
    except (ValueError, OSError) as error:
        return refused(NAME, error)
    finally:
        node.stop_commanding()


def _read_settings() -> ReplaySettings:
    """They say in which bag there is a robot, and so in which namespace the node will be."""
    node = Node(NAME)
    try:
        return declare_settings(node)
    finally:
        node.destroy_node()


if __name__ == "__main__":
    sys.exit(main())
