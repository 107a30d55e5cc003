"""JointState, Imu, JointTrajectory and Float64MultiArray, read from and written as serialised bytes.

rclpy builds a Python object for every field: 0.2 ms for a JointState, 0.17 ms for a JointTrajectory. Here the names of
joints are compared as bytes with those of the message before, and numbers are arrays. Fields and their order: the
definitions in sensor_msgs, trajectory_msgs and std_msgs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fcnet_core.arrays import Array
from fcnet_ros.cdr import CdrBuffer, CdrReader, MessageError

IMU_NUMBERS = 37  # orientation 4, angular velocity 3, linear acceleration 3, and after each of them its covariance 9
ORIENTATION, ANGULAR_VELOCITY, LINEAR_ACCELERATION = slice(0, 4), slice(13, 16), slice(25, 28)


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
    frame: bytes
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
        stamp, frame = reader.stamp(), reader.text()
        names = self._names.read(reader)
        if (points := reader.count()) != 1:
            raise MessageError(f"a trajectory of {points} points is ignored; send exactly one")
        positions, velocities, _, efforts = (reader.doubles() for _ in range(4))
        return TrajectoryMessage(stamp, frame, names, positions, velocities, efforts)


class JointsBuffer:
    """Writes JointState messages of the joints called `names`; of the same buffer, for one thread at a time."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._sizes: tuple[int, ...] = ()

    def write(self, stamp: int, *parts: Array) -> bytes:
        """Return a message of position, velocity and effort; each may be empty."""
        if (sizes := tuple(map(len, parts))) != self._sizes:
            self._sizes, self._buffer = sizes, CdrBuffer()
            self._buffer.add_header("")
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

    frame: a text of the length that all texts of `frame_id` will have. For one thread at a time.
    """

    def __init__(self, names: Sequence[str], frame: str = "") -> None:
        self._positions, self._frame, self._place = self._make(names, frame, len(names), 0)
        self._at_rest, _, _ = self._make(names, frame, 0, len(names))

    @staticmethod
    def _make(names: Sequence[str], frame: str, positions: int, velocities: int) -> tuple[CdrBuffer, int, int]:
        buffer = CdrBuffer()
        frame_place = buffer.add_header(frame)
        buffer.add_texts(names)
        buffer.add_integers(1)
        place = buffer.add_doubles(positions)
        for size in (velocities, 0, 0):
            buffer.add_doubles(size)
        buffer.add_integers(0, 0)  # time_from_start
        return buffer, frame_place, place

    def write(self, stamp: int, target: Array | None, frame: bytes = b"") -> bytes:
        """Return a message of positions, or where None of velocities of zero."""
        buffer = self._at_rest if target is None else self._positions
        if target is not None:
            buffer.write_array(self._place, target)
        buffer.write_stamp(stamp)
        buffer.write_text(self._frame, frame)
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
