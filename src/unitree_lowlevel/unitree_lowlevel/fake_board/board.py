"""A motor board for the desk: speaks the real protocol over UDP, with physics and faults behind it."""

from __future__ import annotations

import select
import socket
import threading
import time
from types import TracebackType

from fcnet_core.control_clock import Pacer
from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.codec import Generation, WireError, decode_command
from unitree_lowlevel.fake_board.command_log import CommandLog
from unitree_lowlevel.fake_board.faults import NONE, BoardFaults, StateDistortion, foreign_state
from unitree_lowlevel.fake_board.line import Channel, StateSender
from unitree_lowlevel.fake_board.physics import BoardPhysics, with_dead_motor
from unitree_lowlevel.messages import LowCommand, encode_remote

Address = tuple[str, int]

PERIOD = 0.002  # [s]
MILLISECONDS = 1000.0  # ticks per second; whether real boards count milliseconds or microseconds is not known
LARGEST_DATAGRAM = 2048


class BoardError(OSError):
    """A board cannot listen where it was asked to; one sentence says why."""


class FakeBoard:
    """Listens on a UDP address, moves its joints in real time, and says at 500 Hz how they are.

    free_running: states go, 500 times a second, to whoever sent the last good command; else one state answers each
    good command. Which of both real boards do is not known. command_timeout [s]: commands older than this take the
    torque from the motors; None, the worst case, holds the last command for ever. What real boards do is not known.

    The socket is bound at once. `start` runs the board in a thread of its own, `run` in the caller's, `turn` is one
    turn of it. `faults` may be set at any time and act from the next packet on; `commands` is the log of everything
    that has arrived.
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
        self._turns = 0
        self._obeyed_at = 0.0
        self._blocked: str | None = None
        self._distortion = StateDistortion(physics.robot, seed)
        self._arriving: Channel[tuple[LowCommand, Address]] = Channel(seed + 1)
        self._socket = _bound(address)
        self._sender = StateSender(self._socket, generation, seed + 2)
        self._pacer: Pacer | None = None  # time begins with the first turn
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
        return int(self._turns * PERIOD * self._ticks_per_second) % 2**32

    @property
    def time_lost(self) -> float:
        """Seconds in which the board stood still because this machine was busy elsewhere."""
        return 0.0 if self._pacer is None else self._pacer.lost

    def real_time_factor(self) -> float:
        """Seconds of the board's time per second of the wall's since this was last asked."""
        return 0.0 if self._pacer is None else self._pacer.measured_rate() * PERIOD

    def restart(self) -> None:
        """Begin again as after a loss of power: time at 0, no command, nobody to send states to."""
        self._restart = True

    def start(self) -> None:
        """Run in a thread of its own until `stop`."""
        self._thread = threading.Thread(target=self._run_keeping_failure, name="fake_board", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread that `start` has begun, close the sockets, and raise what went wrong in that thread."""
        self.end()
        if self._thread is not None:
            self._thread.join()
        self._sender.close()
        self._socket.close()
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """Let `run` return after its turn; may be called from a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        """Run in the caller's thread until `end` is called from elsewhere."""
        while not self._stopping.is_set():
            self.turn()

    def turn(self) -> None:
        """Wait for the next 2 ms to pass, obeying the commands that arrive meanwhile, then move and send a state."""
        if self._pacer is None:
            self._pacer = Pacer(PERIOD, sleep=self._listen)
        self._pacer.wait()
        self._receive(time.monotonic())
        if self._restart:
            self._begin_again()
        self._obey_faults()
        self._physics.advance(PERIOD)
        self._turns += 1
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
                datagram, client = self._socket.recvfrom(LARGEST_DATAGRAM)
            except BlockingIOError:
                break
            except ConnectionError:  # somebody to whom we sent has gone
                continue
            self._judge(datagram, client, now)
        for command, client in self._arriving.take(now):
            self._obey(command, client, now)

    def _judge(self, datagram: bytes, client: Address, now: float) -> None:
        try:
            command = decode_command(self.generation, datagram)
        except WireError as error:
            self.commands.record_bad(error.kind)
            return
        self.commands.record(command, now)
        self._arriving.put((command, client), now, self.faults)

    def _obey(self, command: LowCommand, client: Address, now: float) -> None:
        self._physics.apply(with_dead_motor(command, self.faults.dead_motor))
        self.client, self._obeyed_at = client, now
        if not self._free_running:
            self._send_state(now)

    def _obey_faults(self) -> None:
        faults = self.faults
        if faults.blocked_joint != self._blocked:
            self._blocked = faults.blocked_joint
            self._physics.block(None if self._blocked is None else JOINT_NAMES.index(self._blocked))
        timeout = self._command_timeout
        if timeout is not None and time.monotonic() - self._obeyed_at > timeout:
            self._physics.apply(None)

    def _send_state(self, now: float) -> None:
        if self.client is None:
            return
        faults = self.faults
        true = self._physics.state(self.tick, encode_remote(faults.remote), self._identity)
        state = self._distortion.distort(true, faults)
        self._sender.send(state, self.client, now, faults)
        if faults.foreign_source:
            self._sender.send_foreign(foreign_state(true), self.client)

    def _begin_again(self) -> None:
        self._restart = False
        self._turns, self.client = 0, None
        self._physics.apply(None)


def _bound(address: Address) -> socket.socket:
    endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    endpoint.setblocking(False)
    try:
        endpoint.bind(address)
    except OSError as error:
        endpoint.close()
        raise BoardError(
            f"the board cannot listen at {address[0]}:{address[1]} ({error.strerror}); "
            "end the program that does, or choose another address or port"
        ) from error
    return endpoint
