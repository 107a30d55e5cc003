"""The unreliable line to a fake board, and the states that it sends over it."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import socket
from typing import Generic, TypeVar

import numpy as np

from unitree_lowlevel.codec import GENERATIONS, Generation, encode_state
from unitree_lowlevel.fake_board.faults import BoardFaults
from unitree_lowlevel.messages import LowState

Packet = TypeVar("Packet")

OVERTAKEN = 0.005  # [s] by which a packet is held back for later ones to overtake it


class Channel(Generic[Packet]):
    """Loses, doubles, delays and reorders what is put into it, by chance but the same for the same seed.

    A packet is late by `delay` and a random share of `jitter`: packets closer together than the jitter change places.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._order = itertools.count()
        self._waiting: list[tuple[float, int, Packet]] = []

    @property
    def next_due(self) -> float:
        """When the next packet comes out, infinity where there is none."""
        return self._waiting[0][0] if self._waiting else math.inf

    def put(self, packet: Packet, now: float, faults: BoardFaults) -> None:
        """Send `packet` at the time `now` [s]."""
        if faults.line_is_good:
            self._hold(packet, now)
            return
        lost, doubled, overtaken = self._rng.random(3) < (faults.loss, faults.duplicates, faults.reordering)
        if lost:
            return
        for _ in range(2 if doubled else 1):
            late = faults.delay + faults.jitter * self._rng.random() + (OVERTAKEN if overtaken else 0.0)
            self._hold(packet, now + late)

    def take(self, now: float) -> list[Packet]:
        """What has arrived by the time `now`, in the order of arrival."""
        arrived = []
        while self._waiting and self._waiting[0][0] <= now:
            arrived.append(heapq.heappop(self._waiting)[2])
        return arrived

    def _hold(self, packet: Packet, due: float) -> None:
        heapq.heappush(self._waiting, (due, next(self._order), packet))


Address = tuple[str, int]


class StateSender:
    """Encodes states and sends them from the board's socket; foreign ones from a port of their own."""

    def __init__(self, endpoint: socket.socket, generation: Generation, seed: int) -> None:
        self.count = 0
        self._socket = endpoint
        self._generation = generation
        self._rng = np.random.default_rng(seed)
        self._line: Channel[tuple[bytes, Address]] = Channel(seed + 1)
        self._foreign = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._foreign.setblocking(False)
        self._foreign.bind((endpoint.getsockname()[0], 0))

    @property
    def next_due(self) -> float:
        """When the next state comes out of the line."""
        return self._line.next_due

    def send(self, state: LowState, client: Address, now: float, faults: BoardFaults) -> None:
        """Put a state on the line; it leaves with `deliver`."""
        if faults.silence:
            return
        generation = _other(self._generation) if faults.other_generation else self._generation
        datagram = encode_state(generation, state)
        if faults.corruption and self._rng.random() < faults.corruption:
            datagram = self._corrupted(datagram)
        self._line.put((datagram, client), now, faults)
        self.count += 1

    def send_foreign(self, state: LowState, client: Address) -> None:
        """Send a state that is not the board's own."""
        _send(self._foreign, encode_state(self._generation, state), client)

    def deliver(self, now: float) -> None:
        """Send what has come out of the line by `now`."""
        for datagram, client in self._line.take(now):
            _send(self._socket, datagram, client)

    def close(self) -> None:
        """Close the foreign port; the board's socket is the board's."""
        self._foreign.close()

    def _corrupted(self, datagram: bytes) -> bytes:
        damaged = bytearray(datagram)
        damaged[self._rng.integers(len(damaged))] ^= 1 << int(self._rng.integers(8))
        return bytes(damaged)


def _other(generation: Generation) -> Generation:
    return next(other for other in GENERATIONS.values() if other is not generation)


def _send(endpoint: socket.socket, datagram: bytes, client: Address) -> None:
    with contextlib.suppress(OSError):  # a client that has gone is no matter of the board's
        endpoint.sendto(datagram, client)
