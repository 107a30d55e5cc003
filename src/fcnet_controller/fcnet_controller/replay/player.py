"""Plays a bag for the replay and brings what is played to the node."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import yaml
from geometry_msgs.msg import Pose, Twist
from rclpy.node import Node
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from fcnet_controller.replay.bag import NEEDED, STEPS, ReplayBag
from fcnet_controller.replay.core import QUEUE, ReplaySubscription
from fcnet_controller.replay.steps import ReplaySteps, ReplayWalk
from fcnet_core.command import CommandSource
from fcnet_core.observation import SCALARS, SIZE, PolicyStep
from fcnet_core.remote import load_remote_map

# Plays a bag for the replay: `ros2 bag play` with /clock, and nothing under a name that could move a robot.

RECORDED = "recorded"  # what targets and commands are played under
REPLAYED = "replay"  # what the replay publishes its own targets under
TARGETS = "joint_trajectory"
MODE = "controller/mode"
TO_LOOK_AT = ("odom", MODE)
DELAY = 4.0  # [s] in which the player is discovered: Fast DDS repeats a lost announcement after 3 s
LAST_WORDS = 10_000  # [ms] for the last messages to be received
END = 5.0  # [s] for the player to end when it is told to
PR_SET_PDEATHSIG = 1  # of Linux, see man 2 prctl
LIBC = ctypes.CDLL(None)


def recorded(topic: str) -> str:
    """The relative name under which a recorded topic is played."""
    return topic if topic in (*NEEDED, *TO_LOOK_AT) else f"{RECORDED}/{topic}"


def played_topics(bag: ReplayBag) -> list[str]:
    """The relative names, in the bag, of what is played of it."""
    commands = [topic for source in load_remote_map().sources for topic in (source.velocity, source.pose)]
    return [topic for topic in (*NEEDED, *TO_LOOK_AT, TARGETS, STEPS, *commands) if topic in bag.topics]


class ReplayPlayer:
    """A process that plays the bag; messages wait for slow listeners. It ends with this one, however that ends."""

    def __init__(self, bag: ReplayBag, rate: float, loop: bool) -> None:
        topics = played_topics(bag)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False, encoding="utf-8") as file:
            profile = {"reliability": "reliable", "history": "keep_last", "depth": QUEUE}
            streams = [topic for topic in topics if topic != MODE]  # the mode is latched, and stays so
            yaml.safe_dump({bag.namespace + topic: dict(profile) for topic in streams}, file)
        self._profiles = Path(file.name)
        names = [(bag.namespace + topic, bag.namespace + recorded(topic)) for topic in topics]
        command = ["ros2", "bag", "play", str(bag.path), "--rate", str(rate), "--clock", "--delay", str(DELAY)]
        command += ["--disable-keyboard-controls", "--wait-for-all-acked", str(LAST_WORDS)]
        command += ["--loop"] if loop else []
        command += ["--qos-profile-overrides-path", str(self._profiles), "--topics", *(name for name, _ in names)]
        command += ["--remap", *(f"{name}:={other}" for name, other in names if name != other)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_end_with_parent)

    @property
    def exit_code(self) -> int | None:
        """None while it plays."""
        return self._process.poll()

    def stop(self) -> None:
        """End it, if it still plays."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._profiles.unlink(missing_ok=True)


def _end_with_parent() -> None:
    """Let the kernel end this process when the one that started it has ended, be it by kill -9."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


# Brings what is played of a bag to the replay: topics in the namespace of the node.

class StepsFeed:
    """For a bag that tells the steps of a policy."""

    def __init__(self, node: Node, replay: ReplaySteps, tell: Callable[[str], None]) -> None:
        self.replay = replay
        self._tell = tell
        self._steps = ReplaySubscription(node, Float64MultiArray, recorded(STEPS))
        self._parts = (
            (ReplaySubscription(node, JointTrajectory, recorded(TARGETS)), replay.targets),
            (ReplaySubscription(node, Imu, "imu/data"), replay.imu),
            (ReplaySubscription(node, JointState, "joint_states"), replay.joints),
        )

    def take(self) -> int:
        """Take what has come; the number of messages. Steps first: what they saw has been sent before them."""
        steps, now = self._steps.take(), time.monotonic()
        for step in filter(None, map(self._read, steps)):
            self.replay.add(step, now)
        count = len(steps)
        for subscription, messages in self._parts:
            contents = subscription.take()
            count += len(contents)
            for content in contents:
                messages.add(content)
        return count

    def _read(self, content: bytes) -> PolicyStep | None:
        numbers = np.array(deserialize_message(content, Float64MultiArray).data)
        if len(numbers) != SIZE or not np.isfinite(numbers).all():
            self._tell(f"a {STEPS} does not have {SIZE} finite numbers and is left out")
            return None
        target, previous, joints, imu, cold = numbers[: len(SCALARS)].tolist()
        return PolicyStep(target, previous, joints, imu, cold > 0.5, numbers[len(SCALARS) :])


class WalkFeed:
    """For a bag of states and commands alone."""

    def __init__(self, node: Node, replay: ReplayWalk, tell: Callable[[str], None]) -> None:
        self.replay = replay
        self._tell = tell
        self._commands = [
            (ReplaySubscription(node, kind, recorded(topic)), kind, source)
            for topics in load_remote_map().sources
            for source in [replay.commands.add_source(topics.name)]
            for kind, topic in ((Twist, topics.velocity), (Pose, topics.pose))
        ]
        self._imu = ReplaySubscription(node, Imu, "imu/data")
        self._joints = ReplaySubscription(node, JointState, "joint_states")

    def take(self) -> int:
        """Take what has come; the number of messages."""
        count = 0
        for content in (joints := self._joints.take()):
            self.replay.add_joints(content, time.monotonic())
        for content in (imu := self._imu.take()):
            self.replay.imu.add(content)
        for subscription, kind, source in self._commands:
            contents = subscription.take()
            count += len(contents)
            for content in contents:
                self._command(source, deserialize_message(content, kind))
        return count + len(joints) + len(imu)

    def _command(self, source: CommandSource, message: Twist | Pose) -> None:
        if isinstance(message, Twist):
            velocity = (message.linear.x, message.linear.y, message.angular.z)
            problem = source.set_velocity(*velocity, self.replay.time)
        else:
            turn = message.orientation
            problem = source.set_pose(message.position.z, (turn.x, turn.y, turn.z, turn.w), self.replay.time)
        if problem:
            self._tell(problem)
