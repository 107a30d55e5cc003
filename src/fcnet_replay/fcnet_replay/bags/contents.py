"""What a bag holds: messages as they lie in it, many at a time, its topics and types, and where it is damaged."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fcnet_core.arrays import Bytes, Rows
from fcnet_replay.problem import Problem


@dataclass(frozen=True)
class MessageBatch:
    """N messages of one topic. kind: their ROS type, such as sensor_msgs/msg/Imu; received (N,) [ns]; size (N,)
    [bytes]; content: their bytes, one message after the other without gaps; encoding: "cdr" (ROS 2) or "ros1".
    """

    topic: str
    kind: str
    received: Rows
    size: Rows
    content: Bytes
    encoding: str = "cdr"

    def messages(self) -> list[bytes]:
        """Every message by itself."""
        whole, ends = self.content.tobytes(), np.cumsum(self.size)
        return [whole[end - size : end] for end, size in zip(ends.tolist(), self.size.tolist(), strict=True)]


def batch_of(topic: str, kind: str, received: list[int], messages: list[bytes], encoding: str = "cdr") -> MessageBatch:
    """A batch of messages that are given one by one."""
    size = np.array([len(message) for message in messages], dtype=np.int64)
    content = np.frombuffer(b"".join(messages), dtype=np.uint8)
    return MessageBatch(topic, kind, np.array(received, dtype=np.int64), size, content, encoding)


@dataclass
class Contents:
    """Fills while the files of a bag are read. problems: what could not be read; topics: every topic
    and its type; definitions: encoding and text of the types that the bag defines.
    """

    problems: list[Problem] = field(default_factory=list)
    topics: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, tuple[str, str]] = field(default_factory=dict)
