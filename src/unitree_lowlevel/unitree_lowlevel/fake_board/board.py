"""An emulated motor board: the real protocol over UDP, with simulated physics and faults."""

import contextlib
import select
import socket
import struct
import threading
import time
from collections import Counter, deque
from dataclasses import replace

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.control.timing import Pacer
from fcnet_core.errors import WireError
from unitree_lowlevel.codec import (
    GENERATIONS,
    JOINTS,
    LOW_LEVEL,
    MOTORS,
    OFF,
    PERIOD,
    POSITION_STOP,
    SERVO,
    VELOCITY_STOP,
    Generation,
    LowCommand,
    LowState,
    decode_command,
    encode_remote,
    encode_state,
)
from unitree_lowlevel.fake_board.faults import NONE, BoardFaults, Channel, StateDistortion
from unitree_lowlevel.fake_board.physics import BoardPhysics
from unitree_lowlevel.network import Address, bound_socket
from unitree_lowlevel.transport import LONGEST_DATAGRAM

MILLISECONDS = 1000.0  # ticks per second; the unit of real boards is unknown
REMOTE_CYCLES = 10  # between two frames of the remote
AMBIENT = 30.0  # [deg C] of motors and IMU
SO_TIMESTAMPNS = 35  # of Linux; Python does not name it
_KERNEL_TIME = struct.Struct("@qq")  # [s], [ns] of the day
_WITHOUT_TORQUE = LowCommand(np.full(MOTORS, OFF, dtype=np.uint8), *np.zeros((5, MOTORS)))


def motor_terms(command: LowCommand) -> tuple[Array, Array, Array, Array, Array]:
    """Return position, velocity, torque, stiffness and damping, each (12,), with zeros for the terms that the vendor's
    special values, or another mode than SERVO, switch off.
    """
    servo = command.mode == SERVO
    holds = servo & (np.abs(command.position) < POSITION_STOP)
    damps = servo & (np.abs(command.velocity) < VELOCITY_STOP)
    return (
        np.where(holds, command.position, 0.0),
        np.where(damps, command.velocity, 0.0),
        np.where(servo, command.torque, 0.0),
        np.where(holds, command.stiffness, 0.0),
        np.where(damps, command.damping, 0.0),
    )


class CommandLog:
    """Counts and history of the datagrams received by the board's socket, before faults of the line.

    Times are from time.monotonic() [s]. A command is stiff if it has a position and stiffness for any joint. Any thread
    may read the log. keep: number of commands in the history.
    """

    def __init__(self, keep: int = 10_000) -> None:
        self._history: deque[tuple[float, LowCommand]] = deque(maxlen=keep)
        self.reset()

    def reset(self) -> None:
        """Clear the log."""
        self.count = 0  # good commands
        self.bad: Counter[str] = Counter()  # rejected datagrams by the kind of their WireError
        self.last: LowCommand | None = None
        self._history.clear()

    def record(self, command: LowCommand, arrival: float) -> None:
        """Add a valid command."""
        self.count += 1
        self.last = command
        self._history.append((arrival, command))

    @property
    def recent(self) -> list[tuple[float, LowCommand]]:
        """The last `keep` valid commands with their arrivals, oldest first."""
        return list(self._history.copy())  # a copy is made at once, also while the board's thread adds commands

    def last_stiff(self) -> float | None:
        """Return the arrival of the last stiff command, None without any."""
        return next((arrival for arrival, command in reversed(self.recent) if motor_terms(command)[3].any()), None)


def _arrival(ancillary: list[tuple[int, int, bytes]]) -> float:
    """Return when the kernel received a datagram [s, time.monotonic]."""
    now = time.monotonic()
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            whole, nanoseconds = _KERNEL_TIME.unpack(data)
            return now - max(0.0, time.time() - whole - 1e-9 * nanoseconds)
    return now


class FakeBoard:
    """Listens on a UDP address, simulates its joints in real time, and sends their state at 500 Hz.

    free_running: send states at 500 Hz to the sender of the last valid command; else one state in response to each
    valid command. The last command is kept, the worst case. The behaviour of real boards is unknown in both respects.

    The constructor binds the socket; raises TransportError. `start` runs the board in its own thread, `run` in the
    caller's; `cycle` runs one cycle. faults: may be set at any time, apply from the next packet. commands: log of all
    received commands. states_sent: number of states sent, before any loss of the line. client: their destination.
    """

    def __init__(
        self,
        generation: Generation,
        physics: BoardPhysics,
        address: Address = ("127.0.0.1", 0),
        *,
        faults: BoardFaults = NONE,
        free_running: bool = True,
        seed: int = 0,
    ) -> None:
        self.generation = generation
        self.faults = faults
        self.commands = CommandLog()
        self.client: Address | None = None
        self.states_sent = 0
        self._physics = physics
        self._free_running = free_running
        self._other_generation = next(other for other in GENERATIONS.values() if other is not generation)
        self._cycles = 0
        self._blocked: str | None = None
        self._rng = np.random.default_rng(seed + 2)
        self._distortion = StateDistortion(physics.robot, seed)
        self._arriving: Channel[tuple[LowCommand, Address]] = Channel(seed + 1)
        self._departing: Channel[tuple[bytes, Address]] = Channel(seed + 3)
        self._socket = bound_socket(address[1], address[0])
        # The time of arrival in the kernel does not depend on when this process reads a datagram.
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._foreign = bound_socket(0, address[0])  # the source of another program's datagrams
        self._pacer: Pacer | None = None  # time starts with the first cycle
        self._stopping = False  # no lock: a signal handler sets it
        self._thread: threading.Thread | None = None
        self._restart = False
        self._drive(_WITHOUT_TORQUE)

    @property
    def address(self) -> Address:
        host, port = self._socket.getsockname()
        return host, port

    @property
    def time_lost(self) -> float:
        """Time [s] in which the board was stopped because this machine was overloaded."""
        return 0.0 if self._pacer is None else self._pacer.lost

    def real_time_factor(self) -> float:
        """Return simulated seconds per second since the last call."""
        return 0.0 if self._pacer is None else self._pacer.measured_rate() * PERIOD

    def restart(self) -> None:
        """Restart as after a power cycle: time at 0, no command, no client."""
        self._restart = True

    def start(self) -> None:
        """Run in its own thread until `stop`."""
        self._thread = threading.Thread(target=self.run, name="fake_board", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread of `start` and close the sockets."""
        self.request_stop()
        if self._thread is not None:
            self._thread.join()
        self._foreign.close()
        self._socket.close()

    def request_stop(self) -> None:
        """Make `run` return after its cycle; may be called from a signal handler."""
        self._stopping = True

    def run(self) -> None:
        """Run in the caller's thread until `request_stop`."""
        while not self._stopping:
            self.cycle()

    def cycle(self) -> None:
        """Wait for the next 2 ms period, applying the commands received in it, then simulate it and send a state."""
        if self._pacer is None:
            self._pacer = Pacer(PERIOD, sleep=self._listen)
        self._pacer.wait()
        self._receive(time.monotonic())
        if self._restart:
            self._restart, self._cycles, self.client = False, 0, None
            self._drive(_WITHOUT_TORQUE)
        if (blocked := self.faults.blocked_joint) != self._blocked:
            self._blocked = blocked
            self._physics.block(None if blocked is None else JOINTS.index(blocked))
        self._physics.advance(PERIOD)
        self._cycles += 1
        now = time.monotonic()
        if self._free_running:
            self._send_state(now)
        self._deliver(now)

    def __enter__(self) -> "FakeBoard":
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _listen(self, duration: float) -> None:
        """Receive and deliver packets for `duration` [s]."""
        end = time.monotonic() + duration
        while (now := time.monotonic()) < end:
            due = min(end, self._arriving.next_due, self._departing.next_due)
            if select.select([self._socket], [], [], max(0.0, due - now))[0] or now >= due:
                self._receive(time.monotonic())
                self._deliver(time.monotonic())

    def _receive(self, now: float) -> None:
        while True:
            try:
                datagram, ancillary, _flags, client = self._socket.recvmsg(
                    LONGEST_DATAGRAM, socket.CMSG_SPACE(_KERNEL_TIME.size)
                )
            except BlockingIOError:
                break
            except ConnectionError:  # a client has closed its port
                continue
            try:
                command = decode_command(self.generation, datagram)
            except WireError as error:
                self.commands.bad[error.kind] += 1
                continue
            self.commands.record(command, _arrival(ancillary))
            self._arriving.put((command, client), now, self.faults)
        for command, client in self._arriving.take(now):
            self._drive(command)
            self.client = client
            if not self._free_running:
                self._send_state(now)

    def _drive(self, command: LowCommand) -> None:
        if dead := self.faults.dead_motor:
            command = replace(command, mode=command.mode.copy())
            command.mode[JOINTS.index(dead)] = OFF
        self._mode = command.mode
        self._physics.drive(*motor_terms(command))

    def _state(self) -> LowState:
        """Return the state before faults, with a frame number in undocumented bytes of the remote: they change while
        the remote is on.
        """
        return LowState(
            mode=self._mode,
            temperature=np.full(MOTORS, AMBIENT),
            imu_temperature=AMBIENT,
            tick=int(self._cycles * PERIOD * MILLISECONDS) % 2**32,
            remote=encode_remote(self.faults.remote)[:-4] + (self._cycles // REMOTE_CYCLES).to_bytes(4, "little"),
            identity=(0, 0),
            level=LOW_LEVEL,
            **self._physics.sense(),
        )

    def _send_state(self, now: float) -> None:
        """Put a state into the line, which `_deliver` empties, and send a foreign one if that fault is set."""
        if self.client is None:
            return
        faults, state = self.faults, self._state()
        if faults.foreign_source:  # plausible: other joint positions, and later than the board's own
            foreign = replace(state, position=state.position + 0.1, tick=(state.tick + 1000) % 2**32)
            _send(self._foreign, encode_state(self.generation, foreign), self.client)
        distorted = self._distortion.distort(state, faults)
        if faults.silence:
            return
        generation = self._other_generation if faults.other_generation else self.generation
        datagram = bytearray(encode_state(generation, distorted))
        if faults.corruption and self._rng.random() < faults.corruption:
            datagram[self._rng.integers(len(datagram))] ^= 1 << int(self._rng.integers(8))
        self._departing.put((bytes(datagram), self.client), now, faults)
        self.states_sent += 1

    def _deliver(self, now: float) -> None:
        for datagram, client in self._departing.take(now):
            _send(self._socket, datagram, client)


def _send(endpoint: socket.socket, datagram: bytes, client: Address) -> None:
    with contextlib.suppress(OSError):  # the client has gone
        endpoint.sendto(datagram, client)
