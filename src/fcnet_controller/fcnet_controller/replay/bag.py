"""A bag to replay: the robot, its run, its messages, and the topic names under which they are played."""

import importlib
import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from operator import itemgetter
from pathlib import Path

import numpy as np

from fcnet_core.errors import ReplayError
from fcnet_core.names import CONTROLLER, full_name
from fcnet_core.remote import load_remote_map
from fcnet_core.robot import load_robot
from fcnet_replay.bags.bag import Bag, open_bag
from fcnet_replay.read_run import read_run
from fcnet_replay.run import Run
from fcnet_ros.topics import IMU, JOINT_STATES, JOINT_TRAJECTORY, MODE, ODOM, POLICY_STEP

MODES = MODE.of(CONTROLLER).name
STEPS = POLICY_STEP.of(CONTROLLER).name
UNCHANGED = (JOINT_STATES.name, IMU.name, ODOM.name, MODES)  # played under their own names: no robot follows them
DISORDER = 5.0  # [s] how late a message may stand in the bag, after messages that were received later


@dataclass(frozen=True)
class ReplayBag:
    """namespace: without slashes at its ends; types: message classes of the played topics by relative name."""

    path: Path
    namespace: str
    types: dict[str, type]
    run: Run

    def name(self, topic: str) -> str:
        """Return the absolute name of a topic of the robot."""
        return full_name(topic, self.namespace)

    def messages(self) -> Iterator[tuple[float, str, bytes]]:
        """Yield time of reception [s] by a continuous clock, relative topic name and content of each played message, in
        that order.
        """
        topics = {self.name(topic): topic for topic in self.types}
        late = DISORDER if self.run.reception.in_order else math.inf
        waiting: list[tuple[float, str, bytes]] = []
        for batch in open_bag(self.path).batches(frozenset(topics)):
            received = self.run.reception.at(batch.received.astype(np.float64) * 1e-9, batch.place).tolist()
            waiting += zip(received, repeat(topics[batch.topic]), batch.messages(), strict=False)
            waiting.sort(key=itemgetter(0))
            due = bisect_left(waiting, max(received) - late, key=itemgetter(0))
            yield from waiting[:due]
            del waiting[:due]
        yield from waiting


def renamed_topics() -> dict[str, str]:
    """Return by relative topic name the relative name under which it is played, for topics that a robot follows."""
    commands = [topic for source in load_remote_map().sources for topic in (source.velocity, source.pose)]
    return {topic: f"recorded/{topic}" for topic in (JOINT_TRAJECTORY.name, STEPS, *commands)}


def _message_type(kind: str) -> type:
    """Return the class of a type such as sensor_msgs/msg/Imu."""
    package, _, name = kind.partition("/msg/")
    try:
        found: type = getattr(importlib.import_module(f"{package}.msg"), name)
    except (ImportError, AttributeError) as error:
        raise ReplayError(f"the bag holds messages of type {kind}, which is not installed here") from error
    return found


def read_replay_bag(path: str, namespace: str = "", robot: str = "") -> ReplayBag:
    """Read a bag; an empty namespace is the only one with recorded states, an empty robot the recorded one.

    Raises FcnetError.
    """
    if not path:
        raise ReplayError("no bag to replay; give bag:=FOLDER")
    bag = open_bag(path)
    namespace, kinds = namespace_in(bag, namespace), bag.contents.topics
    for topic in (JOINT_STATES, IMU):
        name, kind = full_name(topic.name, namespace), f"sensor_msgs/msg/{topic.kind.__name__}"
        if kinds.get(name, kind) != kind:
            raise ReplayError(f"{path} holds {name} as {kinds[name]}; a controller takes {kind}")
    joints = load_robot(robot).joint_names if robot else ()
    names = {topic: full_name(topic, namespace) for topic in (*UNCHANGED, *renamed_topics())}
    types = {topic: _message_type(kinds[name]) for topic, name in names.items() if name in kinds}
    return ReplayBag(Path(path), namespace, types, read_run(open_bag(path), namespace, joint_names=joints))


def namespace_in(bag: Bag, given: str = "") -> str:
    """Return the robot's namespace, without slashes at its ends: the given one, else the only one with joint states,
    empty if there is none. Reads the whole bag for its topics. Raises ReplayError if there are several.
    """
    for _ in bag.batches(frozenset()):
        pass
    states = JOINT_STATES.name
    found = sorted(topic.removesuffix(states) for topic in bag.contents.topics if topic.endswith(f"/{states}"))
    if len(found) > 1 and not given:
        raise ReplayError(f"{bag.path} holds several robots; choose namespace:={' or namespace:='.join(found)}")
    return (given or (found[0] if found else "")).strip("/")
