"""Messages of the control loops, read from and written as the bytes in which DDS carries them (CDR).

rclpy builds a Python object for every field: 0.2 ms for a JointState, 0.17 ms for a JointTrajectory. Here fields are
read one by one within bounds, or written at their places in one buffer; the names of joints are compared as bytes with
those of the message before, and numbers are arrays. Fields and their order: the definitions in sensor_msgs,
trajectory_msgs and std_msgs. The layout is XCDR1: four bytes of encapsulation, of which the second is 0 for big and 1
for little endian, then the fields, each aligned to its own size from there.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import MessageError
from fcnet_core.names import SECOND

MAX_SIZE = 32_768  # [bytes] of a message; the suite's have 0.8 kB at most
MAX_NAMES = 64  # joints of a message, of which a robot uses 12
MAX_TEXT = 256  # [bytes] of a name
HEADER = 4  # [bytes] of encapsulation
BYTE_ORDERS = {b"\0\0": ">", b"\0\1": "<"}
IMU_NUMBERS = 37  # orientation 4, angular velocity 3, linear acceleration 3, and after each of them its covariance 9
ORIENTATION, ANGULAR_VELOCITY, LINEAR_ACCELERATION = slice(0, 4), slice(13, 16), slice(25, 28)


@dataclass(frozen=True)
class _Formats:
    stamp: struct.Struct
    count: struct.Struct
    double: np.dtype[np.float64]


_STAMP = struct.Struct("<iI")
_FORMATS = {
    code: _Formats(struct.Struct(f"{order}iI"), struct.Struct(f"{order}I"), np.dtype(f"{order}f8"))
    for code, order in BYTE_ORDERS.items()
}


class CdrReader:
    """Reads a message field by field. Every method raises MessageError where the message ends before the field does."""

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
        """Return so many numbers."""
        begin = self.at + (HEADER - self.at) % 8
        self.at = begin + 8 * count
        self._require(0)
        return np.frombuffer(self.content, self._formats.double, count, begin)

    def _require(self, size: int) -> None:
        if self.at + size > len(self.content):
            raise MessageError("a message that ends too early is ignored")


_NOTHING: Array = np.zeros(0)


def read_text(content: bytes, limit: int) -> bytes:
    """Return the text of a String message in UTF-8, up to so many bytes. Raises MessageError."""
    return CdrReader(content, limit + 16).text(limit)


def stamp_of(content: bytes) -> int:
    """Return the stamp [ns] of a serialised message that begins with a header. Raises MessageError."""
    return CdrReader(content, len(content)).stamp()


def seconds(stamp: int) -> float:
    """Return a stamp [ns] as a number [s]: the same as of its two fields."""
    second, nanosecond = divmod(stamp, SECOND)
    return second + 1e-9 * nanosecond


class CdrBuffer:
    """A message in little endian whose fields are added once; afterwards numbers may be written again, at their places.

    The methods that add numbers return where they begin.
    """

    def __init__(self) -> None:
        self._content = bytearray(b"\0\1\0\0")

    def __bytes__(self) -> bytes:
        return bytes(self._content)

    def add_integers(self, *values: int) -> int:
        """Add unsigned numbers of 32 bits: of stamps, lengths of sequences, sizes."""
        self._content += bytes(-len(self._content) % 4)
        begin = len(self._content)
        self._content += struct.pack(f"<{len(values)}I", *values)
        return begin

    def add_text(self, text: str) -> None:
        """Add a string."""
        encoded = text.encode() + b"\0"
        self.add_integers(len(encoded))
        self._content += encoded

    def add_texts(self, texts: Sequence[str]) -> None:
        """Add a sequence of strings."""
        self.add_integers(len(texts))
        for text in texts:
            self.add_text(text)

    def add_array(self, count: int) -> int:
        """Add so many numbers, which are zero."""
        self._content += bytes((HEADER - len(self._content)) % 8)
        begin = len(self._content)
        self._content += bytes(8 * count)
        return begin

    def add_doubles(self, count: int) -> int:
        """Add a sequence of so many numbers, which are zero."""
        self.add_integers(count)
        return self.add_array(count) if count else len(self._content)

    def add_header(self, frame: str = "") -> None:
        """Add a std_msgs/Header."""
        self.add_integers(0, 0)
        self.add_text(frame)

    def write_stamp(self, stamp: int) -> None:
        """Write the stamp [ns] of the header with which the message begins."""
        _STAMP.pack_into(self._content, HEADER, *divmod(stamp, SECOND))

    def write_array(self, begin: int, values: Array) -> None:
        """Write numbers where they were added."""
        self._content[begin : begin + 8 * len(values)] = values.astype("<f8", copy=False).tobytes()


class JointsMessage(NamedTuple):
    """A JointState. stamp [ns]; names: the same object as long as the names are the same."""

    stamp: int
    names: tuple[str, ...]
    position: Array
    velocity: Array
    effort: Array


class ImuMessage(NamedTuple):
    """An Imu without its covariances. stamp [ns]; orientation x, y, z, w."""

    stamp: int
    orientation: Array
    angular_velocity: Array
    linear_acceleration: Array


class TrajectoryMessage(NamedTuple):
    """A JointTrajectory of one point. stamp [ns]; names: the same object as long as the names are the same."""

    stamp: int
    names: tuple[str, ...]
    positions: Array
    velocities: Array
    efforts: Array


class NamesReader:
    """Reads the names of a message and remembers them as bytes."""

    def __init__(self) -> None:
        self._content: bytes | None = None
        self._names: tuple[str, ...] = ()

    def read(self, reader: CdrReader) -> tuple[str, ...]:
        """Return the names that follow."""
        reader.at += -reader.at % 4
        if self._content is not None and reader.content.startswith(self._content, reader.at):
            reader.at += len(self._content)
            return self._names
        begin = reader.at
        self._names = reader.names()
        self._content = reader.content[begin : reader.at]
        return self._names


class JointsReader:
    """Reads JointState messages."""

    def __init__(self) -> None:
        self._names = NamesReader()

    def read(self, content: bytes) -> JointsMessage:
        """Raises MessageError."""
        reader = CdrReader(content)
        stamp = reader.stamp()
        reader.text()
        names = self._names.read(reader)
        return JointsMessage(stamp, names, reader.doubles(), reader.doubles(), reader.doubles())


def read_imu(content: bytes) -> ImuMessage:
    """Read an Imu message. Raises MessageError."""
    reader = CdrReader(content)
    stamp = reader.stamp()
    reader.text()
    numbers = reader.array(IMU_NUMBERS)
    return ImuMessage(stamp, numbers[0:4], numbers[13:16], numbers[25:28])


class TrajectoryReader:
    """Reads JointTrajectory messages."""

    def __init__(self) -> None:
        self._names = NamesReader()

    def read(self, content: bytes) -> TrajectoryMessage:
        """Raises MessageError."""
        reader = CdrReader(content)
        stamp = reader.stamp()
        reader.text()
        names = self._names.read(reader)
        if (points := reader.count()) != 1:
            raise MessageError(f"a trajectory of {points} points is ignored; send exactly one")
        positions, velocities, _, efforts = (reader.doubles() for _ in range(4))
        return TrajectoryMessage(stamp, names, positions, velocities, efforts)


class JointsBuffer:
    """Writes JointState messages of the joints called `names`; of the same buffer, for one thread at a time."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._sizes: tuple[int, ...] = ()

    def write(self, stamp: int, *parts: Array) -> bytes:
        """Return a message of position, velocity and effort; each may be empty."""
        if (sizes := tuple(map(len, parts))) != self._sizes:
            self._sizes, self._buffer = sizes, CdrBuffer()
            self._buffer.add_header()
            self._buffer.add_texts(self._names)
            self._places = [self._buffer.add_doubles(size) for size in sizes]
        self._buffer.write_stamp(stamp)
        for place, values in zip(self._places, parts, strict=True):
            self._buffer.write_array(place, values)
        return bytes(self._buffer)


class ImuBuffer:
    """Writes Imu messages; of the same buffer, for one thread at a time."""

    def __init__(self, frame: str) -> None:
        self._buffer = CdrBuffer()
        self._buffer.add_header(frame)
        self._numbers: Array = np.zeros(IMU_NUMBERS)
        self._place = self._buffer.add_array(IMU_NUMBERS)

    def write(self, stamp: int, orientation: Array, angular_velocity: Array, linear_acceleration: Array) -> bytes:
        """Return a message."""
        numbers = self._numbers
        numbers[ORIENTATION] = orientation
        numbers[ANGULAR_VELOCITY] = angular_velocity
        numbers[LINEAR_ACCELERATION] = linear_acceleration
        self._buffer.write_stamp(stamp)
        self._buffer.write_array(self._place, numbers)
        return bytes(self._buffer)


class TrajectoryBuffer:
    """Writes JointTrajectory messages of one point, of the joints called `names`: positions, or velocities of zero.

    For one thread at a time.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._positions, self._place = self._make(names, len(names), 0)
        self._at_rest, _ = self._make(names, 0, len(names))

    @staticmethod
    def _make(names: Sequence[str], positions: int, velocities: int) -> tuple[CdrBuffer, int]:
        buffer = CdrBuffer()
        buffer.add_header()
        buffer.add_texts(names)
        buffer.add_integers(1)
        place = buffer.add_doubles(positions)
        for size in (velocities, 0, 0):
            buffer.add_doubles(size)
        buffer.add_integers(0, 0)  # time_from_start
        return buffer, place

    def write(self, stamp: int, target: Array | None) -> bytes:
        """Return a message of positions, or where None of velocities of zero."""
        buffer = self._at_rest if target is None else self._positions
        if target is not None:
            buffer.write_array(self._place, target)
        buffer.write_stamp(stamp)
        return bytes(buffer)


class NumbersBuffer:
    """Writes Float64MultiArray messages of so many numbers in one dimension; for one thread at a time."""

    def __init__(self, label: str, size: int) -> None:
        self._buffer = CdrBuffer()
        self._buffer.add_integers(1)
        self._buffer.add_text(label)
        self._buffer.add_integers(size, size, 0)  # size, stride, data_offset
        self._place = self._buffer.add_doubles(size)

    def write(self, values: Array) -> bytes:
        """Return a message."""
        self._buffer.write_array(self._place, values)
        return bytes(self._buffer)
