"""Messages between a bridge and its I/O process, over two local sockets that preserve message boundaries (SEQPACKET).

Requests: one at a time, each with its response, as MessagePack. Data: targets in one direction; cycles, reports and the
traceback of an error in the other. Targets and cycles have a fixed size. Neither side waits to send one: a message that
does not fit into the socket's buffer is dropped, because the next one replaces it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.observation import SensorReading
from unitree_lowlevel.codec import MOTORS, REMOTE_BYTES, LowState
from unitree_lowlevel.safety.monitor import RemoteLoss

LONGEST = 65536  # bytes of one message
SOURCE_BYTES = 128  # of the name of a publisher
CYCLE, REPORT, ERROR = b"C", b"R", b"E"  # the first byte of data from the I/O process
_TARGETS = struct.Struct(f"<?d{SOURCE_BYTES}s{MOTORS}d")
_CYCLE = struct.Struct("<cqddqd")  # kind, number, period, work, misses, received
_STATE = 4 * MOTORS + 4 + 3 + 3 + 1  # doubles


class IoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Connection and loop of the I/O process; unitree_bridge/parameters.py describes each value."""

    robot: str  # name, or path of a robot file
    transport: str
    generation: str
    host: str
    port: int
    local_port: int
    period: float  # [s]
    interpolation_time: float
    stop_chords: tuple[frozenset[str], ...]
    remote_lost: RemoteLoss
    allow_recovery: bool
    realtime_priority: int
    lock_memory: bool
    cpu: int


class Request(msgspec.Struct, frozen=True):
    """A call of a method of the I/O process; the number matches it with its response."""

    number: int
    name: str
    arguments: tuple[Any, ...] = ()


class Response(msgspec.Struct, frozen=True):
    """The returned value, or the error message."""

    number: int
    value: Any = None
    refusal: str | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Status of the driver, see MotorDriver. trip: text of the finding, or ""; refusal: why the latest rejected command
    was rejected; events: (level of `logging`, text) since the last report; link: the transport's counters by name.
    """

    mode: str
    trip: str
    warnings: tuple[str, ...]
    target_refusal: str
    owner: str
    refused: int
    refusal: str
    packet_loss: float | None
    last_rejection: str
    link: dict[str, str]
    events: list[tuple[int, str]]


@dataclass(frozen=True)
class Targets:
    """Joint targets (12,) [rad], or None for "damp", of the publisher `source`, received at [s, time.monotonic]."""

    position: Array | None
    received: float
    source: str

    def encode(self) -> bytes:
        """Return the message, of fixed size."""
        position = (0.0,) * MOTORS if self.position is None else self.position
        source = self.source.encode("utf-8", "replace")[:SOURCE_BYTES]
        return _TARGETS.pack(self.position is None, self.received, source, *position)

    @classmethod
    def decode(cls, message: bytes) -> Targets:
        """Read a message."""
        damps, received, source, *position = _TARGETS.unpack(message)
        name = source.rstrip(b"\0").decode("utf-8", "ignore")
        return cls(None if damps else np.array(position), received, name)


@dataclass(frozen=True)
class BoardReading(SensorReading):
    """The part of a LowState that a bridge publishes. received: [s, time.monotonic]."""

    temperature: Array
    imu_temperature: float
    remote: bytes
    received: float


@dataclass(frozen=True)
class Cycle:
    """One cycle of the I/O loop: its number, time [s] since the previous exchange with the board, time [s] from wake-up
    to its end, number of skipped cycles so far, and the new state, if any.
    """

    number: int
    period: float
    work: float
    misses: int
    reading: BoardReading | None


def encode_cycle(
    number: int, period: float, work: float, misses: int, state: LowState | None, received: float
) -> bytes:
    """Return the message of a cycle; see Cycle."""
    head = _CYCLE.pack(CYCLE, number, period, work, misses, received)
    if state is None:
        return head
    joints = (state.position, state.velocity, state.torque, state.temperature)
    imu = (state.orientation, state.angular_velocity, state.linear_acceleration, (state.imu_temperature,))
    return head + np.concatenate((*joints, *imu)).tobytes() + state.remote


def decode_cycle(message: bytes) -> Cycle:
    """Read the message of a cycle."""
    _, number, period, work, misses, received = _CYCLE.unpack_from(message)
    if len(message) == _CYCLE.size:
        return Cycle(number, period, work, misses, None)
    values = np.frombuffer(message, dtype=np.float64, count=_STATE, offset=_CYCLE.size)
    position, velocity, torque, temperature = values[: 4 * MOTORS].reshape(4, MOTORS)
    orientation, angular_velocity, acceleration, (imu_temperature,) = np.split(values[4 * MOTORS :], (4, 7, 10))
    reading = BoardReading(
        position=position,
        velocity=velocity,
        torque=torque,
        orientation=orientation,
        angular_velocity=angular_velocity,
        linear_acceleration=acceleration,
        temperature=temperature,
        imu_temperature=float(imu_temperature),
        remote=message[-REMOTE_BYTES:],
        received=received,
    )
    return Cycle(number, period, work, misses, reading)
