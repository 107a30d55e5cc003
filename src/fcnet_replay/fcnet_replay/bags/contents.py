"""Contents of a bag: messages in batches, topics and types, and the problems met in reading."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from fcnet_core.arrays import Bytes, Rows

Kind = Literal[
    "damaged", "left_out", "no_stamp", "gap", "unknown", "mixed", "no_metadata", "order",
    "clock", "clock_drift", "clock_unknown",
]  # fmt: skip
Message = tuple[tuple[str, str], int, int, bytes]  # topic and type, time of reception [ns], place, content
AT_ONCE = 1000  # messages in batches


@dataclass(frozen=True)
class Problem:
    """A problem of a recording. kind: "damaged" for damaged files and messages, "left_out" for unused messages, joints
    or commands, "no_stamp" for messages without a stamp, "gap" for missing times, "unknown" for quantities that were
    not measured, "mixed" for a topic that two programs published, "no_metadata" for a bag without its metadata.yaml,
    "order" for messages that are not in order or repeated, "clock" for times that were corrected or left out,
    "clock_drift" for another rate of the robot's clock, "clock_unknown" for stamps whose clock cannot be found;
    sentence: for people.
    """

    kind: Kind
    sentence: str


def damage(path: Path, offset: int | None, what: str) -> Problem:
    """Return the problem of a file that is damaged at `offset` [bytes], or at an unknown place (None)."""
    return Problem("damaged", f"{path} is damaged{'' if offset is None else f' at byte {offset}'}: {what}")


def unpacking_failed(path: Path, folder: Path, error: OSError) -> str:
    """Return why no readable copy of a file can be made in a temporary folder."""
    if isinstance(error, PermissionError):
        return f"{error.filename or path} cannot be read: {error.strerror}; give the path of a file that you may read"
    return f"{path} cannot be unpacked into {folder.parent} ({error.strerror}); set TMPDIR to a folder with more room"


@dataclass(frozen=True)
class MessageBatch:
    """N messages of one topic in CDR. kind: their ROS type, such as sensor_msgs/msg/Imu; received (N,) [ns]; place
    (N,): their numbers among the messages of all topics, in the order of recording; size (N,) [bytes]; content: the
    messages, concatenated without gaps.
    """

    topic: str
    kind: str
    received: Rows
    place: Rows
    size: Rows
    content: Bytes

    def messages(self) -> list[bytes]:
        """Return the messages one by one."""
        whole, ends = self.content.tobytes(), np.cumsum(self.size)
        return [whole[end - size : end] for end, size in zip(ends.tolist(), self.size.tolist(), strict=True)]


def batches_of(messages: Iterator[Message]) -> Iterator[MessageBatch]:
    """Gather single messages."""
    while some := list(islice(messages, AT_ONCE)):
        for topic in dict.fromkeys(message[0] for message in some):
            _, received, place, contents = zip(*(message for message in some if message[0] == topic), strict=True)
            size = np.array([len(content) for content in contents], dtype=np.int64)
            joined = np.frombuffer(b"".join(contents), dtype=np.uint8)
            yield MessageBatch(*topic, np.array(received, np.int64), np.array(place, np.int64), size, joined)


@dataclass
class Contents:
    """Filled while the files of a bag are read. topics: type by topic, of messages that can be read; encodings: of the
    other topics; definitions: encoding and text by type, of types that the bag defines.
    """

    problems: list[Problem] = field(default_factory=list)
    topics: dict[str, str] = field(default_factory=dict)
    encodings: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add_topic(self, written: str, kind: str, encoding: str = "cdr") -> str:
        """Return the absolute name of a topic, which foreign recorders write as joint_states or //joint_states too;
        empty if its messages are not to be read.
        """
        name = "/" + "/".join(filter(None, written.split("/")))
        if encoding != "cdr":
            self.encodings[name] = encoding
            return ""
        self.topics[name] = kind
        return name
