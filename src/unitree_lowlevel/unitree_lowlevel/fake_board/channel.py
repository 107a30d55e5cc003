"""One direction of an unreliable line."""

from __future__ import annotations

import heapq
import itertools
import math
from typing import Generic, TypeVar

import numpy as np

from unitree_lowlevel.fake_board.board_faults import BoardFaults

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
