"""The policy of the controller over a bag that is played through ROS: it publishes targets that no robot listens to.

Its topics are joint_states and imu/data, as recorded; recorded/..., the recorded targets, steps and commands; and
replay/joint_trajectory, what the policy says now, with the stamps of the recorded targets.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from array import array
from pathlib import Path
from types import FrameType

import rclpy
from rclpy.exceptions import InvalidParameterTypeException
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_controller.replay_bag import NEEDED, ReplayBag, ReplayBagError, read_replay_bag
from fcnet_controller.replay_feed import StepsFeed, WalkFeed
from fcnet_controller.replay_player import REPLAYED, TARGETS, ReplayPlayer
from fcnet_controller.replay_result import ReplayResult
from fcnet_controller.replay_settings import ReplaySettings, declare_settings
from fcnet_controller.replay_steps import ReplayedStep, ReplaySteps
from fcnet_controller.replay_subscription import QUEUE
from fcnet_controller.replay_walk import ReplayWalk
from fcnet_core.atomic_file import write_whole
from fcnet_core.model_file import check_robot, load_model
from fcnet_core.robot import JOINT_NAMES, load_robot
from fcnet_core.runtime import load_policy

TURN = 0.005  # [s] between two looks at what has come
LOOK_AROUND = 4.0  # [s] until other nodes have been found: who missed the first greetings hears the next after 3 s
QUIET = 0.5  # [s] without a message, after which none will come
TOLD = 20  # cold starts that are told one by one


class ReplayNode(Node):
    """Loads a bag's robot and policy and steps the policy while `run` plays the bag.

    Raises ValueError (or a kind of it) with one sentence when the bag cannot be replayed.
    """

    def __init__(self) -> None:
        super().__init__("replay")
        self.settings: ReplaySettings = declare_settings(self)
        self._bag = read_replay_bag(self.settings.bag, self.settings.namespace)
        self._targets = self.create_publisher(
            JointTrajectory, f"{self._bag.namespace}{REPLAYED}/{TARGETS}", QoSProfile(depth=QUEUE)
        )
        self._feed = self._make_feed()

    def _make_feed(self) -> StepsFeed | WalkFeed:
        bag, settings = self._bag, self.settings
        robot = load_robot(settings.robot or bag.notes.robot or _ask_for_robot(bag))
        path = Path(settings.policy) if settings.policy else bag.policy(robot.name)
        model = load_model(path)
        check_robot(model, robot)
        policy, rate = load_policy(model), bag.notes.control_rate or model.card.control_rate
        self.result = ReplayResult(same_policy=model.fingerprint == bag.notes.model_fingerprint)
        self.get_logger().info(f"{'recorded' if self.result.same_policy else 'other'} policy {path} over {bag.path}")
        if bag.has_steps:
            cycles = round(rate / model.card.control_rate)
            steps = ReplaySteps(robot, policy, cycles, rate, self._tell_cold_start)
            return StepsFeed(self, bag.namespace, steps, self.get_logger().warning)
        self.get_logger().warning("the bag does not tell the steps of a policy: it walks at its own pace instead")
        walk = ReplayWalk(robot, model, policy, rate, self._tell_cold_start)
        return WalkFeed(self, bag.namespace, walk, self.get_logger().warning)

    def run(self, stop: threading.Event) -> int:
        """Play the bag to its end, or until `stop`, and tell the result; the exit code is 1 when it is not as it
        should be.
        """
        self._refuse_company()
        executor = SingleThreadedExecutor()
        executor.add_node(self)
        player = ReplayPlayer(self._bag, self.settings.rate, self.settings.loop)
        try:
            while not stop.is_set() and player.exit_code is None:
                self._turn()
                executor.spin_once(timeout_sec=TURN)
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

    def _turn(self, at_end: bool = False) -> int:
        taken = self._feed.take()
        for step in self._feed.advance(at_end):
            self._publish(step)
            self.result.add(step)
        self.result.lost = self._feed.lost
        return taken

    def _finish(self) -> None:
        """Wait for the last messages."""
        last = time.monotonic()
        while time.monotonic() - last < QUIET:
            if self._turn():
                last = time.monotonic()
            time.sleep(TURN)
        self._turn(at_end=True)
        log = self.get_logger().info if self.result.passed else self.get_logger().error
        log(self.result.sentence())
        if self.settings.summary:
            write_whole(Path(self.settings.summary), self.result.as_json().encode())

    def _publish(self, step: ReplayedStep) -> None:
        point = JointTrajectoryPoint(positions=array("d", step.targets.tobytes()))
        message = JointTrajectory(joint_names=list(JOINT_NAMES), points=[point])
        message.header.stamp = step.stamp
        self._targets.publish(message)

    def _tell_cold_start(self, reason: str) -> None:
        self.result.restarts += 1
        if self.result.restarts <= TOLD:
            self.get_logger().warning(f"{reason}; the policy starts cold")
        if self.result.restarts == TOLD:
            self.get_logger().warning("further cold starts are counted only")


def _ask_for_robot(bag: ReplayBag) -> str:
    raise ReplayBagError(f"the bag {bag.path} does not say which robot it is of; add robot:=aliengo, for example")


def main() -> int:
    """Replay a bag; the exit code is 0 after a signal, and when the recorded policy has said the same again."""
    stop = threading.Event()

    def stop_on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop_on_signal)
    rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
    began = time.monotonic()
    try:
        node = ReplayNode()
        stop.wait(max(0.0, began + LOOK_AROUND - time.monotonic()))
        return node.run(stop)
    except (ValueError, OSError, InvalidParameterTypeException) as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    sys.exit(main())
