"""Reading and writing of the bytes that DDS carries (CDR), for the messages of the control loops.

rclpy builds a Python object for every field: 0.2 ms for a JointState, 0.17 ms for a JointTrajectory. Here a message is
read field by field within bounds, or serialised once by rclpy and then rewritten at the places of its numbers. The
names of joints are compared as bytes with those of the previous message, and numbers are arrays. Fields and their
order: the definitions in sensor_msgs, trajectory_msgs and std_msgs. The layout is XCDR1: four bytes of encapsulation,
of which the second is 1 for little endian, then the fields, each aligned to its own size from there.
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from rclpy.serialization import serialize_message

from fcnet_core.arrays import Array
from fcnet_core.errors import MessageError
from fcnet_core.names import SECOND

MAX_SIZE = 32_768  # [bytes] of a message; the suite's have 0.8 kB at most
MAX_NAMES = 64  # joints of a message
MAX_TEXT = 256  # [bytes] of a name
HEADER = 4  # [bytes] of encapsulation
PLAIN_CDR = b"\0\1"  # little endian, as every computer of the suite writes
PLACEHOLDER = 1.2345e300  # multiples of it are found again in a serialised message
STAMP, COUNT, DOUBLE = struct.Struct("<iI"), struct.Struct("<I"), np.dtype("<f8")
_NOTHING: Array = np.zeros(0)


class CdrReader:
    """Reads a message field by field. Every method raises MessageError if the message ends before the field does."""

    def __init__(self, content: bytes, limit: int = MAX_SIZE) -> None:
        if len(content) > limit:
            raise MessageError(f"a message of {len(content)} bytes is ignored; the limit is {limit}")
        if not content.startswith(PLAIN_CDR) or len(content) < HEADER:
            raise MessageError("a message in another encoding than plain CDR, little endian, is ignored")
        self.content, self.at = content, HEADER

    def stamp(self) -> int:
        """Return a stamp [ns]."""
        second, nanosecond = STAMP.unpack_from(self.content, self._take(8, 4))
        return int(second * SECOND + nanosecond)

    def count(self, limit: int = 0xFFFFFFFF, what: str = "elements") -> int:
        """Return a number of elements up to `limit`."""
        count: int = COUNT.unpack_from(self.content, self._take(4, 4))[0]
        if count > limit:
            raise MessageError(f"a message with {count} {what} is ignored; the limit is {limit}")
        return count

    def text(self, limit: int = MAX_TEXT) -> bytes:
        """Return a string in UTF-8."""
        begin = self._take(self.count(limit + 1, "bytes of text"))
        return self.content[begin : self.at].removesuffix(b"\0")

    def names(self) -> tuple[str, ...]:
        """Return a sequence of names."""
        return tuple(self.text().decode(errors="replace") for _ in range(self.count(MAX_NAMES, "names")))

    def doubles(self) -> Array:
        """Return a sequence of numbers."""
        count = self.count(MAX_NAMES, "numbers")
        return self.array(count) if count else _NOTHING

    def array(self, count: int) -> Array:
        """Return `count` numbers."""
        return np.frombuffer(self.content, DOUBLE, count, self._take(8 * count, 8))

    def _take(self, size: int, alignment: int = 1) -> int:
        """Return the place of the next `size` bytes, and continue behind them."""
        begin = self.at + (HEADER - self.at) % alignment
        self.at = begin + size
        if self.at > len(self.content):
            raise MessageError("a message that ends too early is ignored")
        return begin


def seconds(stamp: int) -> float:
    """Return a stamp [ns] in seconds, rounded as the sum of its two fields."""
    second, nanosecond = divmod(stamp, SECOND)
    return second + 1e-9 * nanosecond


class NamesReader:
    """Reads the header and the joint names of the messages of one topic. Same names again are not decoded again."""

    def __init__(self) -> None:
        self._content: bytes | None = None
        self._names: tuple[str, ...] = ()

    def read(self, content: bytes) -> tuple[CdrReader, int, tuple[str, ...]]:
        """Return the reader behind the names, the stamp [ns] and the names, the same object while they are the same.

        Raises MessageError.
        """
        reader = CdrReader(content)
        stamp = reader.stamp()
        reader.text()
        reader.at += -reader.at % 4
        if self._content is not None and content.startswith(self._content, reader.at):
            reader.at += len(self._content)
        else:
            begin = reader.at
            self._names = reader.names()
            self._content = content[begin : reader.at]
        return reader, stamp, self._names


class MessageBuffer:
    """A message that rclpy has serialised once, in which stamp and numbers are then replaced. For one thread at a time.

    blocks: the numbers in `message` that are replaced, each array as `placeholders` returns it.
    """

    def __init__(self, message: Any, blocks: Sequence[Array]) -> None:
        self._content = bytearray(serialize_message(message))
        places = [self._content.index(block.tobytes()) for block in blocks]
        self._places = [slice(place, place + block.nbytes) for place, block in zip(places, blocks, strict=True)]

    def write(self, stamp: int | None, *arrays: Array) -> bytes:
        """Return the message with these numbers, an array for each block; stamp [ns]: None without a header."""
        if stamp is not None:
            STAMP.pack_into(self._content, HEADER, *divmod(stamp, SECOND))
        for place, values in zip(self._places, arrays, strict=True):
            self._content[place] = values.astype(np.float64, copy=False).tobytes()
        return bytes(self._content)


def placeholders(*sizes: int) -> list[Array]:
    """Return an array of each size, whose numbers occur nowhere else in a message."""
    return np.split(PLACEHOLDER * np.arange(1.0, sum(sizes) + 1.0), np.cumsum(sizes)[:-1])
