"""What there is to replay in a bag, and the parameters of the replay."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rclpy.node import Node

from fcnet_controller.parameters import policy_path
from fcnet_core import FcnetError
from fcnet_core.model_file import load_model
from fcnet_core.robot import load_robot
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.recording_notes import STYLE, RecordingNotes, read_notes

# What there is to replay in a bag, and where.

NEEDED = ("joint_states", "imu/data")
STEPS = "controller/policy_step"


class ReplayBagError(ValueError):
    """A bag cannot be replayed; the sentence says why, or what to add."""


@dataclass(frozen=True)
class ReplayBag:
    """namespace: of the robot, with a slash before and after; topics: relative names of what the bag has in it;
    has_steps: whether it tells every step of the policy.
    """

    path: Path
    namespace: str
    topics: frozenset[str]
    has_steps: bool
    notes: RecordingNotes

    def policy(self, robot: str) -> Path:
        """The recorded policy where its file still is the one; else the one that the suite ships for this robot."""
        recorded = Path(self.notes.model)
        try:
            if self.notes.model and load_model(recorded).fingerprint == self.notes.model_fingerprint:
                return recorded
        except FcnetError:
            pass
        return policy_path(robot, "")


def read_replay_bag(path: str, namespace: str = "") -> ReplayBag:
    """Look into the bag; an empty namespace stands for the only one in which states were recorded.

    Raises ReplayBagError or fcnet_replay's ReplayError.
    """
    bag = open_bag(path)
    for _ in bag.batches(frozenset()):
        pass
    present = bag.contents.topics
    space = f"/{namespace.strip('/')}/".replace("//", "/") if namespace else _namespace(path, present)
    topics = frozenset(topic.removeprefix(space) for topic in present if topic.startswith(space))
    if missing := [topic for topic in NEEDED if topic not in topics]:
        raise ReplayBagError(
            f"{path} holds no {space}{missing[0]}, without which nothing can be replayed; it has {_list(present)}"
        )
    has_steps = any(len(batch.size) for batch in bag.batches(frozenset({space + STEPS})))
    return ReplayBag(Path(path), space, topics, has_steps, read_notes(bag.custom))


def _namespace(path: str, topics: dict[str, str]) -> str:
    ending = f"/{NEEDED[0]}"
    found = sorted(topic.removesuffix(NEEDED[0]) for topic in topics if topic.endswith(ending))
    if len(found) > 1:
        raise ReplayBagError(f"{path} holds several robots; choose namespace:={' or namespace:='.join(found)}")
    if not found:
        raise ReplayBagError(
            f"{path} holds no joint_states, without which nothing can be replayed; it has {_list(topics)}"
        )
    return found[0]


def _list(topics: dict[str, str]) -> str:
    return ", ".join(sorted(topics)[:12]) or "no topics at all"


# The parameters of the replay.

class ReplaySettingsError(ValueError):
    """A parameter of the replay cannot be; the sentence says what to give."""


@dataclass(frozen=True)
class ReplaySettings:
    """bag: its folder; rate: recorded seconds per second; policy: a model file, empty for the recorded one; robot:
    empty for the recorded one; namespace: the robot's in the bag, empty for the only one; loop: begin again at the end;
    summary: JSON file to write the result to, or empty.
    """

    bag: str = ""
    rate: float = 1.0
    policy: str = ""
    robot: str = ""
    namespace: str = ""
    loop: bool = False
    summary: str = ""


def declare_settings(node: Node) -> ReplaySettings:
    """Declare the parameters and read them. Raises ReplaySettingsError."""
    names = [field.name for field in fields(ReplaySettings)]
    settings = ReplaySettings(
        **{name: node.declare_parameter(name, getattr(ReplaySettings, name)).value for name in names}
    )
    if not settings.bag:
        raise ReplaySettingsError("which bag shall be replayed? Give bag:=FOLDER")
    if not 0.0 < settings.rate < float("inf"):
        raise ReplaySettingsError(f"rate is {settings.rate:g}; it must be a positive number")
    return settings


def controller_parameters(bag: ReplayBag, settings: ReplaySettings) -> dict[str, Any]:
    """The controller's parameters as they were when the bag was recorded; the policy may be another.

    Raises ReplayBagError, or ValueError of another kind with one sentence.
    """
    notes = bag.notes
    robot = settings.robot or notes.robot or _ask_for_robot(bag)
    policy = settings.policy or str(bag.policy(load_robot(robot).name))
    return {
        "robot": robot,
        "policy": policy,
        "control_rate": notes.control_rate or load_model(policy).card.control_rate,
        "cmd_vel_timeout": notes.command_timeout,
        **dict(zip(STYLE, notes.style, strict=True)),
        "follows_targets": False,  # these are the targets' recorded consequences, or of another policy's
        "auto_start": False,
    }


def _ask_for_robot(bag: ReplayBag) -> str:
    raise ReplayBagError(f"the bag {bag.path} does not say which robot it is of; add robot:=aliengo, for example")
