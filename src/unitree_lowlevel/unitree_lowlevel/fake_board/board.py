"""A simulated motor board: speaks the real protocol over UDP, with physics and faults behind it."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from types import TracebackType

import numpy as np

from fcnet_core.control_clock import Pacer
from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.codec import GENERATIONS, Generation, WireError, decode_command, encode_state
from unitree_lowlevel.fake_board.command_log import CommandLog
from unitree_lowlevel.fake_board.faults import (
    NONE,
    BoardFaults,
    Channel,
    StateDistortion,
    foreign_state,
    with_dead_motor,
)
from unitree_lowlevel.fake_board.physics import BoardPhysics
from unitree_lowlevel.messages import LowCommand, LowState, encode_remote
from unitree_lowlevel.transport import Address
from unitree_lowlevel.udp_transport import LONGEST_DATAGRAM, bound_socket

PERIOD = 0.002  # [s]
MILLISECONDS = 1000.0  # ticks per second; whether real boards count milliseconds or microseconds is not known


class StateSender:
    """Sends states from the board's socket, over the line with its faults; foreign ones from a port of their own."""

    def __init__(self, endpoint: socket.socket, generation: Generation, seed: int) -> None:
        self.count = 0
        self._socket = endpoint
        self._generation = generation
        self._other = next(other for other in GENERATIONS.values() if other is not generation)
        self._rng = np.random.default_rng(seed)
        self._line: Channel[tuple[bytes, Address]] = Channel(seed + 1)
        self._foreign = bound_socket(0, endpoint.getsockname()[0])

    @property
    def next_due(self) -> float:
        """When the next state comes out of the line."""
        return self._line.next_due

    def send(self, state: LowState, client: Address, now: float, faults: BoardFaults) -> None:
        """Put a state on the line; it leaves with `deliver`."""
        if faults.silence:
            return
        datagram = bytearray(encode_state(self._other if faults.other_generation else self._generation, state))
        if faults.corruption and self._rng.random() < faults.corruption:
            datagram[self._rng.integers(len(datagram))] ^= 1 << int(self._rng.integers(8))
        self._line.put((bytes(datagram), client), now, faults)
        self.count += 1

    def send_foreign(self, state: LowState, client: Address) -> None:
        """Send a state that is not the board's own."""
        _send(self._foreign, encode_state(self._generation, state), client)

    def deliver(self, now: float) -> None:
        """Send the states that have come out of the line by `now`."""
        for datagram, client in self._line.take(now):
            _send(self._socket, datagram, client)

    def close(self) -> None:
        """Close the foreign port; the board's socket is the board's."""
        self._foreign.close()


class FakeBoard:
    """Listens on a UDP address, moves its joints in real time, and sends their state at 500 Hz.

    free_running: states go, 500 times a second, to the sender of the last good command; else one state answers each
    good command. Which of both real boards do is not known. command_timeout [s]: commands older than this take the
    torque from the motors; None, the worst case, holds the last command for ever. What real boards do is not known.

    The socket is bound at once, or TransportError raised. `start` runs the board in a thread of its own, `run` in the
    caller's, `cycle` is one cycle of it. `faults` may be set at any time and act from the next packet on; `commands` is
    the log of everything that has arrived.
    """

    def __init__(
        self,
        generation: Generation,
        physics: BoardPhysics,
        address: Address = ("127.0.0.1", 0),
        *,
        faults: BoardFaults = NONE,
        free_running: bool = True,
        command_timeout: float | None = None,
        ticks_per_second: float = MILLISECONDS,
        identity: tuple[int, int] = (0, 0),
        seed: int = 0,
    ) -> None:
        self.generation = generation
        self.faults = faults
        self.commands = CommandLog()
        self.client: Address | None = None
        self._physics = physics
        self._free_running = free_running
        self._command_timeout = command_timeout
        self._ticks_per_second = ticks_per_second
        self._identity = identity
        self._cycles = 0
        self._command_time = 0.0
        self._blocked: str | None = None
        self._distortion = StateDistortion(physics.robot, seed)
        self._arriving: Channel[tuple[LowCommand, Address]] = Channel(seed + 1)
        self._socket = bound_socket(address[1], address[0])
        self._sender = StateSender(self._socket, generation, seed + 2)
        self._pacer: Pacer | None = None  # time begins with the first cycle
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._restart = False

    @property
    def address(self) -> Address:
        """Where it listens."""
        host, port = self._socket.getsockname()
        return host, port

    @property
    def states_sent(self) -> int:
        """States that left the board, before the line lost any."""
        return self._sender.count

    @property
    def tick(self) -> int:
        """The board's own time."""
        return int(self._cycles * PERIOD * self._ticks_per_second) % 2**32

    @property
    def time_lost(self) -> float:
        """Seconds in which the board stood still because this machine was busy elsewhere."""
        return 0.0 if self._pacer is None else self._pacer.lost

    def real_time_factor(self) -> float:
        """Seconds of the board's time per second of the wall's since the last call."""
        return 0.0 if self._pacer is None else self._pacer.measured_rate() * PERIOD

    def restart(self) -> None:
        """Begin again as after a loss of power: time at 0, no command, no client."""
        self._restart = True

    def start(self) -> None:
        """Run in a thread of its own until `stop`."""
        self._thread = threading.Thread(target=self._run_keeping_failure, name="fake_board", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread that `start` has begun, close the sockets, and raise what went wrong in that thread."""
        self.request_stop()
        if self._thread is not None:
            self._thread.join()
        self._sender.close()
        self._socket.close()
        if self._failure is not None:
            raise self._failure

    def request_stop(self) -> None:
        """Let `run` return after its cycle; may be called from a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        """Run in the caller's thread until `request_stop` is called from elsewhere."""
        while not self._stopping.is_set():
            self.cycle()

    def cycle(self) -> None:
        """Wait for the next 2 ms to pass, applying the commands that arrive meanwhile, then move and send a state."""
        if self._pacer is None:
            self._pacer = Pacer(PERIOD, sleep=self._listen)
        self._pacer.wait()
        self._receive(time.monotonic())
        if self._restart:
            self._restart, self._cycles, self.client = False, 0, None
            self._physics.apply(None)
        self._apply_faults()
        self._physics.advance(PERIOD)
        self._cycles += 1
        now = time.monotonic()
        if self._free_running:
            self._send_state(now)
        self._sender.deliver(now)

    def __enter__(self) -> FakeBoard:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run_keeping_failure(self) -> None:
        try:
            self.run()
        except BaseException as failure:  # noqa: BLE001 raised again by stop()
            self._failure = failure

    def _listen(self, duration: float) -> None:
        """Sleep for `duration` [s], receiving and delivering whatever is due meanwhile."""
        end = time.monotonic() + duration
        while (now := time.monotonic()) < end:
            due = min(end, self._arriving.next_due, self._sender.next_due)
            if select.select([self._socket], [], [], max(0.0, due - now))[0] or now >= due:
                self._receive(time.monotonic())
                self._sender.deliver(time.monotonic())

    def _receive(self, now: float) -> None:
        """Take what has arrived at the socket through the line to the motors."""
        while True:
            try:
                datagram, client = self._socket.recvfrom(LONGEST_DATAGRAM)
            except BlockingIOError:
                break
            except ConnectionError:  # a client to which states went has gone
                continue
            try:
                command = decode_command(self.generation, datagram)
            except WireError as error:
                self.commands.record_bad(error.kind)
                continue
            self.commands.record(command, now)
            self._arriving.put((command, client), now, self.faults)
        for command, client in self._arriving.take(now):
            self._physics.apply(with_dead_motor(command, self.faults.dead_motor))
            self.client, self._command_time = client, now
            if not self._free_running:
                self._send_state(now)

    def _apply_faults(self) -> None:
        faults = self.faults
        if faults.blocked_joint != self._blocked:
            self._blocked = faults.blocked_joint
            self._physics.block(None if self._blocked is None else JOINT_NAMES.index(self._blocked))
        timeout = self._command_timeout
        if timeout is not None and time.monotonic() - self._command_time > timeout:
            self._physics.apply(None)

    def _send_state(self, now: float) -> None:
        if self.client is None:
            return
        faults = self.faults
        true = self._physics.state(self.tick, encode_remote(faults.remote), self._identity)
        self._sender.send(self._distortion.distort(true, faults), self.client, now, faults)
        if faults.foreign_source:
            self._sender.send_foreign(foreign_state(true), self.client)


def _send(endpoint: socket.socket, datagram: bytes, client: Address) -> None:
    with contextlib.suppress(OSError):  # the client has gone
        endpoint.sendto(datagram, client)
