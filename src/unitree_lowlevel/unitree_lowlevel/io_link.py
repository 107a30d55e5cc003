"""The I/O process as its bridge sees it: the messages of both, and the client that starts and watches the process.

Two local sockets preserve message boundaries (SEQPACKET). Requests: one at a time, each with its response, as
MessagePack. Data, also as MessagePack: targets in one direction; cycles, reports and the traceback of an error (a
string) in the other. Neither side waits to send: a message that does not fit into the socket's buffer is dropped,
because the next one replaces it.

The bridge also holds the socket to the robot. If the I/O process hangs, is stopped or dies, the bridge sends damping
through this socket. So neither process leaves the motors stiff when it dies.
"""

import select
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import msgspec
import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import FcnetError
from fcnet_core.observation import SensorReading
from fcnet_core.robot import load_robot
from unitree_lowlevel.codec import GENERATIONS, MOTORS, damping_command, encode_command
from unitree_lowlevel.network import resolve
from unitree_lowlevel.safety.monitor import RemoteLoss
from unitree_lowlevel.transport import Reception

LONGEST = 65536  # bytes of one message
# [s] without a cycle after which the bridge damps the motors itself. It exceeds max_cycle_gap (0.05), after which the
# I/O process damps: so that process never sends stiff commands after the bridge has started to damp.
SILENCE = 0.06
START_TIMEOUT = 20.0  # [s] for a process to import what it needs, on a busy computer
OPEN_TIMEOUT = 5.0  # [s] includes the time in which an I/O process without a bridge exits
RESPONSE_TIMEOUT = 1.0  # [s]
LEAVE_TIMEOUT = 2.0  # [s]
# The arrays of a state that a cycle carries, with their sizes.
_SENSORS = {**dict.fromkeys(("position", "velocity", "torque", "temperature"), MOTORS), "orientation": 4}
_SENSORS |= {"angular_velocity": 3, "linear_acceleration": 3}
_BOUNDS = [*pairwise(accumulate(_SENSORS.values(), initial=0))]


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


class Report(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Status of the driver, see MotorDriver. trip: text of the finding, or ""; refusal: why the latest rejected command
    was rejected; events: (level of `logging`, text) since the last report; link: the transport's counters by name.
    """

    mode: str = "waiting"
    trip: str = ""
    warnings: tuple[str, ...] = ()
    target_refusal: str = ""
    owner: str = ""
    refused: int = 0
    refusal: str = ""
    packet_loss: float | None = None
    link: dict[str, str] = {}
    events: list[tuple[int, str]] = []


class Targets(msgspec.Struct, frozen=True):
    """Joint targets (12,) [rad], or None for "damp", of the publisher `source`, received at [s, time.monotonic]."""

    position: list[float] | None
    received: float
    source: str


@dataclass(frozen=True)
class BoardReading(SensorReading):
    """The part of a LowState that a bridge publishes. received: [s, time.monotonic]."""

    temperature: Array
    imu_temperature: float
    remote: bytes
    received: float


class Cycle(msgspec.Struct, frozen=True, tag=True):
    """One cycle of the I/O loop: its number, time [s] since the previous exchange with the board, time [s] from wake-up
    to its end, number of skipped cycles so far; and the new state, if any, see `reading`.
    """

    number: int
    period: float
    work: float
    misses: int
    received: float = 0.0
    sensors: bytes = b""
    imu_temperature: float = 0.0
    remote: bytes = b""

    @property
    def reading(self) -> BoardReading | None:
        """The new state."""
        if not self.sensors:
            return None
        values = np.frombuffer(self.sensors)
        arrays = {name: values[first:last] for name, (first, last) in zip(_SENSORS, _BOUNDS, strict=True)}
        return BoardReading(**arrays, imu_temperature=self.imu_temperature, remote=self.remote, received=self.received)


def encode_cycle(number: int, period: float, work: float, misses: int, reception: Reception | None) -> bytes:
    """Return the message of a Cycle."""
    cycle = Cycle(number, period, work, misses)
    if reception is not None:
        state = reception.state
        sensors = np.concatenate([getattr(state, name) for name in _SENSORS]).tobytes()
        cycle = Cycle(number, period, work, misses, reception.received, sensors, state.imu_temperature, state.remote)
    return msgspec.msgpack.encode(cycle)


_DATA = msgspec.msgpack.Decoder(Cycle | Report | str)


class IoClient:
    """One I/O process, started by the constructor: then `wait_for_start`, `open`, `begin`, `close`.

    One thread calls `wait`, `exchange`, `send` and `damp`; any thread may call the others.
    report: the newest. is_silent: whether the process hangs, so the bridge damps. ended: why the
    process has exited, "" while it runs. error: the traceback of the error that has ended it.
    """

    def __init__(self, settings: IoSettings) -> None:
        self.report = Report()
        self.ended = self.error = ""
        self.is_silent = False
        self._address = resolve(settings.host), settings.port
        damping = damping_command(load_robot(settings.robot).damping)
        self._damping = encode_command(GENERATIONS[settings.generation], damping)
        self._events: deque[tuple[int, str]] = deque(maxlen=100)
        self._robot: socket.socket | None = None
        self._newest = time.monotonic()  # arrival of the last cycle
        self._lock = threading.Lock()  # of requests
        self._number = 0  # of the last one
        (self._requests, requests), (self._data, data) = (
            socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)
        )
        with requests, data:
            ends = (requests.fileno(), data.fileno())
            command = [sys.executable, "-m", "unitree_lowlevel.io_process", *map(str, ends)]
            self._process = subprocess.Popen(command, pass_fds=ends, stdin=subprocess.DEVNULL)
        self._requests.send(msgspec.msgpack.encode(settings))
        self._data.setblocking(False)

    def wait_for_start(self) -> None:
        """Wait until the process has finished its imports and responds to requests."""
        self._call("wait", timeout=START_TIMEOUT)

    def open(self) -> None:
        """Connect the process to the robot. Before `begin` it sends nothing; after a takeover from an I/O process
        without a bridge it sends damping.

        Raises FcnetError if the robot cannot be reached or another bridge has it.
        """
        _, endpoints = self._call("open", timeout=OPEN_TIMEOUT)
        self._robot = socket.socket(fileno=endpoints[0]) if endpoints else None

    def begin(self) -> None:
        """Start its cycles, which drive the motors."""
        self.request("begin")
        self._newest = time.monotonic()

    def request(self, name: str, *arguments: Any) -> Any:
        """Call a method of the process and return its value; raises FcnetError with its error message."""
        return self._call(name, *arguments)[0]

    def send(self, targets: Targets) -> None:
        """Send targets to the driver; they are dropped if the process does not receive them."""
        with suppress(OSError):  # the process hangs or has exited, which `exchange` detects
            self._data.send(msgspec.msgpack.encode(targets))

    def wait(self, timeout: float) -> None:
        """Wait until a message has arrived, at most `timeout` [s]."""
        if self.ended:
            time.sleep(timeout)
        else:
            select.select([self._data], [], [], timeout)

    def exchange(self) -> list[Cycle]:
        """Return the new cycles; damp the motors if none has arrived for SILENCE."""
        cycles: list[Cycle] = []
        while not self.ended and (message := self._receive()) is not None:
            data = _DATA.decode(message)
            if isinstance(data, Cycle):
                cycles.append(data)
            elif isinstance(data, Report):
                self.report = data
                self._events.extend(data.events)
            else:
                self.error = data
        now = time.monotonic()
        if cycles:
            self._newest = now
        self.is_silent = now - self._newest > SILENCE
        if self.is_silent or self.ended:
            self.damp()
        return cycles

    def damp(self) -> None:
        """Send one damping command directly to the robot."""
        if self._robot is not None:
            with suppress(OSError):  # one of many, as the commands of the process are
                self._robot.sendto(self._damping, self._address)

    def take_events(self) -> list[tuple[int, str]]:
        """Return the driver's events since the last call."""
        return [self._events.popleft() for _ in range(len(self._events))]

    def close(self) -> None:
        """Stop the process, which leaves the motors damped; kill it if it does not exit. May be called twice."""
        if self._requests.fileno() < 0:
            return
        with suppress(FcnetError):  # it has exited, or hangs
            self.request("close")
        try:
            self._process.wait(LEAVE_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self.damp()
        self.ended = self.ended or "the I/O process was closed"
        for endpoint in (self._requests, self._data, self._robot):
            if endpoint is not None:
                endpoint.close()
        self._robot = None

    def _receive(self) -> bytes | None:
        try:
            message = self._data.recv(LONGEST)
        except BlockingIOError:
            return None
        except OSError:
            message = b""
        if not message:
            self.damp()
            code = self._process.wait(LEAVE_TIMEOUT)
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            self.ended = f"the I/O process has exited {how}"
            return None
        return message

    def _call(self, name: str, *arguments: Any, timeout: float = RESPONSE_TIMEOUT) -> tuple[Any, list[int]]:
        """Call a method of the process; return its value and the file descriptors that it has sent."""
        with self._lock:
            self._number += 1
            self._requests.settimeout(timeout)
            try:
                self._requests.send(msgspec.msgpack.encode(Request(self._number, name, arguments)))
                while True:  # skips late responses to earlier requests
                    message, endpoints, _, _ = socket.recv_fds(self._requests, LONGEST, 1)
                    if not message:
                        raise ConnectionError
                    response = msgspec.msgpack.decode(message, type=Response)
                    if response.number == self._number:
                        break
            except TimeoutError:
                raise FcnetError(f"the bridge's I/O process has not responded within {timeout:g} s") from None
            except OSError as error:
                raise FcnetError("the bridge's I/O process has exited; start the bridge again") from error
        if response.refusal is not None:
            raise FcnetError(response.refusal)
        return response.value, endpoints
