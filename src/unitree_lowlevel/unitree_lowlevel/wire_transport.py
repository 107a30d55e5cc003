"""The transport in pure Python: one UDP socket and the codec."""

from __future__ import annotations

import socket
import time

from unitree_lowlevel.command_codec import encode_command
from unitree_lowlevel.generation import Generation
from unitree_lowlevel.low_command import LowCommand
from unitree_lowlevel.network_check import Address, bound_socket, check_target
from unitree_lowlevel.state_codec import decode_state
from unitree_lowlevel.tick_order import Age, TickOrder
from unitree_lowlevel.transport import Reception, TransportCounters, TransportError
from unitree_lowlevel.wire_error import WireError

LOCAL_PORT = 8080  # where the vendor's programs listen
_LONGEST = 2048  # bytes; a longer datagram is cut here and refused for its size
_MOST_PER_CALL = 256  # more than a socket's buffer holds of states; a flood must not keep the caller


class WireTransport:
    """Sends commands to target and takes states from there only, from the very port that commands go to.

    target: host and port of the robot; local_port: where states arrive, 0 for any free port.
    """

    name = "wire"

    def __init__(self, generation: Generation, target: Address, local_port: int = LOCAL_PORT) -> None:
        self.counters = TransportCounters()
        self._generation = generation
        self._target = target
        self._local_port = local_port
        self._socket: socket.socket | None = None
        self._order = TickOrder()

    def open(self) -> None:
        self.close()
        self._target = check_target(self._target, self._local_port)
        self._socket = bound_socket(self._local_port)
        self._order = TickOrder()
        self.counters = TransportCounters()

    @property
    def local_port(self) -> int:
        """The UDP port at which states arrive."""
        return int(self._opened().getsockname()[1])

    def send(self, command: LowCommand) -> None:
        datagram, opened = encode_command(self._generation, command), self._opened()
        try:
            opened.sendto(datagram, self._target)
            self.counters.sent += 1
        except OSError:
            self.counters.send_errors += 1

    def receive(self) -> Reception | None:
        newest, opened = None, self._opened()
        for _ in range(_MOST_PER_CALL):
            try:
                datagram, source = opened.recvfrom(_LONGEST)
            except BlockingIOError:
                break
            except OSError:
                self.counters.receive_errors += 1
                continue
            newest = self._judged(datagram, source) or newest
        return newest

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _judged(self, datagram: bytes, source: Address) -> Reception | None:
        if source != self._target:
            self.counters.foreign += 1
            self.counters.last_foreign = source
            return None
        try:
            state = decode_state(self._generation, datagram)
        except WireError as error:
            self.counters.reject(error.kind, str(error))
            return None
        age = self._order.judge(state.tick)
        self.counters.count(age)
        return None if age is Age.OLD else Reception(state, time.monotonic())

    def _opened(self) -> socket.socket:
        if self._socket is None:
            raise TransportError("the transport is not open: open it first")
        return self._socket
