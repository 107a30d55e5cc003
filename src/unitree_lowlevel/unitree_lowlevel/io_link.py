"""What a bridge and its I/O process say to each other, over two local sockets that keep messages whole (SEQPACKET).

Requests: one at a time, each with its response, as MessagePack. Data: targets in one direction; cycles, reports and the
traceback of an error in the other. Targets and cycles have a fixed size, and neither side ever waits to send one: what
does not fit into the socket's buffer is dropped, for the next one is better.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.observation import SensorReading
from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.codec import REMOTE_BYTES, LowState
from unitree_lowlevel.safety.monitor import RemoteLoss

JOINTS = len(JOINT_NAMES)
LONGEST = 65536  # bytes of one message
SOURCE_BYTES = 128  # of the text that names a publisher
CYCLE, REPORT, ERROR = b"C", b"R", b"E"  # the first byte of data from the I/O process
_TARGETS = struct.Struct(f"<?d{SOURCE_BYTES}s{JOINTS}d")
_CYCLE = struct.Struct("<cqddqd")  # kind, number, period, work, misses, received
_STATE = 4 * JOINTS + 4 + 3 + 3 + 1  # doubles


class IoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the I/O process connects to, and how its loop runs; the parameters of the bridge say what each is."""

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
    """A call of one of the I/O process's methods; the number tells its response from that of an earlier one."""

    number: int
    name: str
    arguments: tuple[Any, ...] = ()


class Response(msgspec.Struct, frozen=True):
    """What the method returned, or the sentence with which it refused."""

    number: int
    value: Any = None
    refusal: str | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How the driver is, beside the state itself. trip: the finding that has latched damping, or nothing; events:
    levels (as `logging` has them) and sentences since the last report; link: the transport's counters by name.
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
    """Joint targets (12,) [rad] for the driver, or None for "damp", from the publisher named `source`, that arrived at
    time `received` [s, time.monotonic].
    """

    position: Array | None
    received: float
    source: str

    def encode(self) -> bytes:
        """The message of fixed size."""
        position = (0.0,) * JOINTS if self.position is None else self.position
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
    """A state of the robot as far as a bridge publishes it; see LowState. received: [s, time.monotonic]."""

    temperature: Array
    imu_temperature: float
    remote: bytes
    received: float


@dataclass(frozen=True)
class Cycle:
    """One cycle of the I/O loop: its number, the time [s] since the exchange with the board before it, from awakening
    to its end, how many cycles have been left out so far, and the state that came, if one did.
    """

    number: int
    period: float
    work: float
    misses: int
    reading: BoardReading | None


def encode_cycle(
    number: int, period: float, work: float, misses: int, state: LowState | None, received: float
) -> bytes:
    """The message of a cycle; see Cycle."""
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
    position, velocity, torque, temperature = values[: 4 * JOINTS].reshape(4, JOINTS)
    orientation, angular_velocity, acceleration, (imu_temperature,) = np.split(values[4 * JOINTS :], (4, 7, 10))
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
