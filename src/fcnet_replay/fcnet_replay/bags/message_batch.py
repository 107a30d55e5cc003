"""Messages as they lie in a bag, many at a time, and why a bag cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

# Why a bag cannot be read, or not to its end.

class BagError(ValueError):
    """A bag cannot be used at all; one sentence that names the file and says what to do."""


class DamagedBagError(BagError):
    """A file is damaged at `offset` [bytes], None where its storage does not tell; what lies before is good."""

    def __init__(self, path: Path, offset: int | None, what: str) -> None:
        where = "" if offset is None else f" at byte {offset}"
        super().__init__(f"{path} is damaged{where}: {what}")
        self.path = path
        self.offset = offset


# Messages as they lie in a bag, many at a time.

@dataclass(frozen=True)
class MessageBatch:
    """N messages of one topic. kind: their ROS type, such as sensor_msgs/msg/Imu; received (N,) [ns]; size (N,)
    [bytes]; content: their CDR bytes, one message after the other without gaps.
    """

    topic: str
    kind: str
    received: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    content: npt.NDArray[np.uint8]

    def messages(self) -> list[bytes]:
        """Every message by itself."""
        whole, ends = self.content.tobytes(), np.cumsum(self.size)
        return [whole[end - size : end] for end, size in zip(ends.tolist(), self.size.tolist(), strict=True)]


def batch_of(topic: str, kind: str, received: list[int], messages: list[bytes]) -> MessageBatch:
    """A batch of messages that are given one by one."""
    size = np.array([len(message) for message in messages], dtype=np.int64)
    content = np.frombuffer(b"".join(messages), dtype=np.uint8)
    return MessageBatch(topic, kind, np.array(received, dtype=np.int64), size, content)
