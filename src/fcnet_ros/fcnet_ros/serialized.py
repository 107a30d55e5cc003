"""Messages of the control loops, read from and written as the bytes that DDS carries (CDR).

rclpy builds a Python object for every field: 0.2 ms for a JointState, 0.17 ms for a JointTrajectory. Here a message is
read field by field within bounds, or serialised once by rclpy and then rewritten at the places of its numbers. The
names of joints are compared as bytes with those of the previous message, and numbers are arrays. Fields and their
order: the definitions in sensor_msgs, trajectory_msgs and std_msgs. The layout is XCDR1: four bytes of encapsulation,
of which the second is 0 for big and 1 for little endian, then the fields, each aligned to its own size from there.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, MultiArrayLayout
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_core.arrays import Array
from fcnet_core.errors import MessageError
from fcnet_core.names import SECOND

MAX_SIZE = 32_768  # [bytes] of a message; the suite's have 0.8 kB at most
MAX_NAMES = 64  # joints of a message, of which a robot uses 12
MAX_TEXT = 256  # [bytes] of a name
HEADER = 4  # [bytes] of encapsulation
BYTE_ORDERS = {b"\0\0": ">", b"\0\1": "<"}
IMU_NUMBERS = 37  # orientation 4, angular velocity 3, linear acceleration 3, each followed by its covariance of 9
PLACEHOLDER = 1.2345e300  # multiples of it are found again in a serialised message
_STAMP = struct.Struct("=iI")


@dataclass(frozen=True)
class _Formats:
    stamp: struct.Struct
    count: struct.Struct
    double: np.dtype[np.float64]


_FORMATS = {
    code: _Formats(struct.Struct(f"{order}iI"), struct.Struct(f"{order}I"), np.dtype(f"{order}f8"))
    for code, order in BYTE_ORDERS.items()
}
_NOTHING: Array = np.zeros(0)


class CdrReader:
    """Reads a message field by field. Every method raises MessageError if the message ends before the field does."""

    def __init__(self, content: bytes, limit: int = MAX_SIZE) -> None:
        if len(content) > limit:
            raise MessageError(f"a message of {len(content)} bytes is ignored; the limit is {limit}")
        formats = _FORMATS.get(content[:2])
        if formats is None or len(content) < HEADER:
            raise MessageError("a message in another encoding than plain CDR is ignored")
        self.content, self.at = content, HEADER
        self._formats = formats

    def stamp(self) -> int:
        """Return a stamp [ns]."""
        self._require(8)
        second, nanosecond = self._formats.stamp.unpack_from(self.content, self.at)
        self.at += 8
        return int(second) * SECOND + int(nanosecond)

    def count(self, limit: int = 0xFFFFFFFF, what: str = "elements") -> int:
        """Return a number of elements up to `limit`."""
        self.at += -self.at % 4
        self._require(4)
        (count,) = self._formats.count.unpack_from(self.content, self.at)
        if count > limit:
            raise MessageError(f"a message with {count} {what} is ignored; the limit is {limit}")
        self.at += 4
        return int(count)

    def text(self, limit: int = MAX_TEXT) -> bytes:
        """Return a string in UTF-8."""
        length = self.count(limit + 1, "bytes of text")
        self._require(length)
        text = self.content[self.at : self.at + length]
        self.at += length
        return text.removesuffix(b"\0")

    def names(self) -> tuple[str, ...]:
        """Return a sequence of names."""
        return tuple(self.text().decode(errors="replace") for _ in range(self.count(MAX_NAMES, "names")))

    def doubles(self) -> Array:
        """Return a sequence of numbers."""
        count = self.count(MAX_NAMES, "numbers")
        return self.array(count) if count else _NOTHING

    def array(self, count: int) -> Array:
        """Return `count` numbers."""
        begin = self.at + (HEADER - self.at) % 8
        self.at = begin + 8 * count
        self._require(0)
        return np.frombuffer(self.content, self._formats.double, count, begin)

    def _require(self, size: int) -> None:
        if self.at + size > len(self.content):
            raise MessageError("a message that ends too early is ignored")


def read_text(content: bytes, limit: int) -> bytes:
    """Return the text of a String message in UTF-8, of at most `limit` bytes. Raises MessageError."""
    return CdrReader(content, limit + 16).text(limit)


def stamp_of(content: bytes) -> int:
    """Return the stamp [ns] of a serialised message that begins with a header. Raises MessageError."""
    return CdrReader(content, len(content)).stamp()


def seconds(stamp: int) -> float:
    """Return a stamp [ns] in seconds, rounded as the sum of its two fields."""
    second, nanosecond = divmod(stamp, SECOND)
    return second + 1e-9 * nanosecond


class JointsMessage(NamedTuple):
    """A JointState. stamp [ns]; names: the same object as long as the names are the same."""

    stamp: int
    names: tuple[str, ...]
    position: Array
    velocity: Array
    effort: Array


class TrajectoryMessage(NamedTuple):
    """A JointTrajectory of one point. stamp [ns]; names: the same object as long as the names are the same."""

    stamp: int
    names: tuple[str, ...]
    positions: Array
    velocities: Array
    efforts: Array


class ImuMessage(NamedTuple):
    """An Imu without its covariances. stamp [ns]; orientation x, y, z, w."""

    stamp: int
    orientation: Array
    angular_velocity: Array
    linear_acceleration: Array


class JointMessageReader:
    """Reads JointState or JointTrajectory messages of one topic. Names that are the same again are not decoded again.

    All methods raise MessageError.
    """

    def __init__(self) -> None:
        self._content: bytes | None = None
        self._names: tuple[str, ...] = ()

    def read_joints(self, content: bytes) -> JointsMessage:
        """Read a JointState."""
        reader, stamp, names = self._begin(content)
        return JointsMessage(stamp, names, reader.doubles(), reader.doubles(), reader.doubles())

    def read_trajectory(self, content: bytes) -> TrajectoryMessage:
        """Read a JointTrajectory, which must have exactly one point."""
        reader, stamp, names = self._begin(content)
        if (points := reader.count()) != 1:
            raise MessageError(f"a trajectory of {points} points is ignored; send exactly one")
        positions, velocities, _accelerations, efforts = (reader.doubles() for _ in range(4))
        return TrajectoryMessage(stamp, names, positions, velocities, efforts)

    def _begin(self, content: bytes) -> tuple[CdrReader, int, tuple[str, ...]]:
        """Return the reader behind header and names, the stamp [ns] and the names."""
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


def read_imu(content: bytes) -> ImuMessage:
    """Read an Imu message. Raises MessageError."""
    reader = CdrReader(content)
    stamp = reader.stamp()
    reader.text()
    numbers = reader.array(IMU_NUMBERS)
    return ImuMessage(stamp, numbers[0:4], numbers[13:16], numbers[25:28])


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
            _STAMP.pack_into(self._content, HEADER, *divmod(stamp, SECOND))
        for place, values in zip(self._places, arrays, strict=True):
            self._content[place] = values.astype(np.float64, copy=False).tobytes()
        return bytes(self._content)


def placeholders(*sizes: int) -> list[Array]:
    """Return an array of each size, whose numbers occur nowhere else in a message."""
    return np.split(PLACEHOLDER * np.arange(1.0, sum(sizes) + 1.0), np.cumsum(sizes)[:-1])


class JointsBuffer:
    """Writes JointState messages of the joints called `names`. For one thread at a time."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._sizes: tuple[int, ...] = ()

    def write(self, stamp: int, position: Array, velocity: Array, effort: Array) -> bytes:
        """Return a message; each array may be empty."""
        if (sizes := (len(position), len(velocity), len(effort))) != self._sizes:
            self._sizes, blocks = sizes, placeholders(*sizes)
            fields = dict(zip(("position", "velocity", "effort"), blocks, strict=True))
            self._buffer = MessageBuffer(JointState(name=self._names, **fields), blocks)
        return self._buffer.write(stamp, position, velocity, effort)


def imu_buffer(frame: str) -> MessageBuffer:
    """Return the buffer of Imu messages: orientation x, y, z, w, angular velocity and linear acceleration."""
    message, blocks = Imu(), placeholders(4, 3, 3)
    message.header.frame_id = frame
    for part, block in zip(
        (message.orientation, message.angular_velocity, message.linear_acceleration), blocks, strict=True
    ):
        for name, value in zip("xyzw", block.tolist(), strict=False):
            setattr(part, name, value)
    return MessageBuffer(message, blocks)


def numbers_buffer(label: str, size: int) -> MessageBuffer:
    """Return the buffer of Float64MultiArray messages of `size` numbers in one dimension, which have no stamp."""
    layout = MultiArrayLayout(dim=[MultiArrayDimension(label=label, size=size, stride=size)])
    blocks = placeholders(size)
    return MessageBuffer(Float64MultiArray(layout=layout, data=blocks[0]), blocks)


class TrajectoryBuffer:
    """Writes JointTrajectory messages of one point, of the joints called `names`. For one thread at a time."""

    def __init__(self, names: Sequence[str]) -> None:
        blocks = placeholders(len(names))
        targets, damping = (
            JointTrajectoryPoint(positions=blocks[0]),
            JointTrajectoryPoint(velocities=[0.0] * len(names)),
        )
        self._targets = MessageBuffer(JointTrajectory(joint_names=names, points=[targets]), blocks)
        self._damping = MessageBuffer(JointTrajectory(joint_names=names, points=[damping]), ())

    def write(self, stamp: int, target: Array | None) -> bytes:
        """Return a message of positions; None: of velocities of zero alone, which mean damping."""
        return self._damping.write(stamp) if target is None else self._targets.write(stamp, target)
