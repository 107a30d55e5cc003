"""What there is to replay in a bag: the robot, its run, its messages, and the names under which they are played."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

from fcnet_controller.parameters import ReplayParameters, policy_path
from fcnet_core.errors import ReplayError
from fcnet_core.model_file import load_model
from fcnet_core.names import CONTROLLER, STYLE_PARAMETERS, full_name
from fcnet_core.remote import load_remote_map
from fcnet_replay.bags.bag import Bag, open_bag
from fcnet_replay.read_run import read_run
from fcnet_replay.recording_notes import robot_of
from fcnet_replay.run import Run
from fcnet_ros.topics import IMU, JOINT_STATES, JOINT_TRAJECTORY, MODE, ODOM, POLICY_STEP

MODES = MODE.of(CONTROLLER).name
STEPS = POLICY_STEP.of(CONTROLLER).name
UNCHANGED = (JOINT_STATES.name, IMU.name, ODOM.name, MODES)  # played under their own names: none of them moves a robot
DISORDER = 5_000_000_000  # [ns] by which a message may be in the bag after one that was received later


@dataclass(frozen=True)
class ReplayBag:
    """namespace: of the robot, without slashes at its ends; kinds: the types of all topics by their names."""

    path: Path
    namespace: str
    kinds: dict[str, str]
    run: Run

    def name(self, topic: str) -> str:
        """The absolute name of a topic of the robot."""
        return full_name(topic, self.namespace)

    def settings(self, given: ReplayParameters) -> dict[str, Any]:
        """The controller's parameters as they were when the bag was recorded, but for the robot and policy given.

        Raises ReplayError, FcnetError.
        """
        notes = self.run.notes
        robot = robot_of(self.path, notes, given.robot)
        recorded = notes.model if notes.recorded_model() else ""
        policy = policy_path(robot.name, given.policy or recorded)
        recorded_rate = notes.control_rate if len(self.run.steps.target_stamp) else None
        return {
            "robot": given.robot or robot.name,
            "policy": str(policy),
            "control_rate": recorded_rate or load_model(policy).card.control_rate,
            "cmd_vel_timeout": notes.command_timeout,
            **dict(zip(STYLE_PARAMETERS.values(), notes.style, strict=True)),
            "follows_targets": False,  # these are the targets' recorded consequences, or of another policy's
            "auto_start": False,
        }

    def played(self) -> dict[str, str]:
        """Of what is played of the bag, the relative name in it and the relative name under which it is played."""
        commands = [topic for source in load_remote_map().sources for topic in (source.velocity, source.pose)]
        topics = (*UNCHANGED, JOINT_TRAJECTORY.name, STEPS, *commands)
        return {topic: played_name(topic) for topic in topics if self.name(topic) in self.kinds}

    def messages(self) -> Iterator[tuple[float, str, bytes]]:
        """When each message that is played was received [s], its relative name and its content, in that order."""
        topics = {self.name(topic): topic for topic in self.played()}
        waiting: list[tuple[int, int, str, bytes]] = []
        numbers = count()
        for batch in open_bag(self.path).batches(frozenset(topics)):
            for received, message in zip(batch.received.tolist(), batch.messages(), strict=True):
                heappush(waiting, (received, next(numbers), topics[batch.topic], message))
            while waiting and waiting[0][0] < batch.received.max() - DISORDER:
                yield _timed(heappop(waiting))
        while waiting:
            yield _timed(heappop(waiting))


def _timed(message: tuple[int, int, str, bytes]) -> tuple[float, str, bytes]:
    received, _, topic, content = message
    return received * 1e-9, topic, content


def played_name(topic: str) -> str:
    """The relative name under which a recorded topic is played."""
    return topic if topic in UNCHANGED else f"recorded/{topic}"


def read_replay_bag(path: str, namespace: str = "") -> ReplayBag:
    """Read a bag; an empty namespace stands for the only one in which states were recorded.

    Raises ReplayError with one sentence.
    """
    if not path:
        raise ReplayError("which bag shall be replayed? Give bag:=FOLDER")
    bag = open_bag(path)
    namespace, kinds = namespace_in(bag, namespace), bag.contents.topics
    for topic in (JOINT_STATES, IMU):
        name, kind = full_name(topic.name, namespace), f"sensor_msgs/msg/{topic.kind.__name__}"
        if kinds.get(name, kind) != kind:
            raise ReplayError(f"{path} holds {name} as {kinds[name]}; a controller takes {kind}")
    return ReplayBag(Path(path), namespace, kinds, read_run(open_bag(path), namespace))


def namespace_in(bag: Bag, given: str = "") -> str:
    """The robot's namespace, without slashes at its ends: the given one, else the only one with joint states; empty
    where there is none. The bag is read through for its topics. Raises ReplayError where there are several.
    """
    for _ in bag.batches(frozenset()):
        pass
    states = JOINT_STATES.name
    found = sorted(topic.removesuffix(states) for topic in bag.contents.topics if topic.endswith(f"/{states}"))
    if len(found) > 1 and not given:
        raise ReplayError(f"{bag.path} holds several robots; choose namespace:={' or namespace:='.join(found)}")
    return (given or (found[0] if found else "")).strip("/")
