"""What there is to replay in a bag, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fcnet_controller.core_loading import policy_path
from fcnet_core.bags.bag import open_bag
from fcnet_core.model_file import ModelFileError, load_model
from fcnet_core.replay.recording_notes import RecordingNotes, read_notes

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
        except ModelFileError:
            pass
        return policy_path(robot, "")


def read_replay_bag(path: str, namespace: str = "") -> ReplayBag:
    """Look into the bag; an empty namespace stands for the only one in which states were recorded.

    Raises ReplayBagError or fcnet_core's BagError.
    """
    bag = open_bag(path)
    for _ in bag.batches(frozenset()):
        pass
    space = f"/{namespace.strip('/')}/".replace("//", "/") if namespace else _namespace(path, bag.seen)
    topics = frozenset(topic.removeprefix(space) for topic in bag.seen if topic.startswith(space))
    if missing := [topic for topic in NEEDED if topic not in topics]:
        raise ReplayBagError(
            f"{path} holds no {space}{missing[0]}, without which nothing can be replayed; it has {_list(bag.seen)}"
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
