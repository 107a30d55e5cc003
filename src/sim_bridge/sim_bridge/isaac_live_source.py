"""Receives the states of a running simulation, one frame a datagram; see fcnet_core/recording/rollout_frames.py."""

from __future__ import annotations

import select
import socket
import time
from dataclasses import dataclass

from fcnet_core.recording import Recording, RecordingError, recording_from_columns
from fcnet_core.recording.rollout_file import columns_from_states
from fcnet_core.recording.rollout_frames import HEADER, FrameError, RolloutHeader, one_frame, parse_header, parse_state

LARGEST_DATAGRAM = 65536
SILENCE = 1.0  # [s] after which another sender is listened to


@dataclass
class LiveCounters:
    """What became of the datagrams received. bad: no frame, or one that says impossible things; early: states that
    came before their header; foreign: of a second sender; lost: states that never came, by their numbers.
    """

    states: int = 0
    bad: int = 0
    early: int = 0
    foreign: int = 0
    lost: int = 0


class LiveSource:
    """A UDP socket at `address` ("host:port"); used by one thread. Raises ValueError when it cannot be opened."""

    def __init__(self, address: str) -> None:
        self.counters = LiveCounters()
        self._sender: tuple[str, int] | None = None
        self._heard = float("-inf")
        self._header: RolloutHeader | None = None
        self._step: int | None = None
        host, _, port = address.rpartition(":")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((host, int(port)))
        except (OSError, ValueError, OverflowError) as error:
            self._socket.close()
            raise ValueError(
                f"nothing can be received at live:={address} ({error}); give a free port of this machine, "
                "such as 127.0.0.1:9870"
            ) from error
        self._socket.setblocking(False)

    @property
    def port(self) -> int:
        """The port in use, for an address that left the choice to the system."""
        return int(self._socket.getsockname()[1])

    def receive(self, patience: float) -> Recording | None:
        """The next state as a recording of one row, waiting at most `patience` seconds for it."""
        deadline = time.monotonic() + patience
        while True:
            remaining = max(deadline - time.monotonic(), 0.0)
            if not select.select([self._socket], [], [], remaining)[0]:
                return None
            try:
                datagram, sender = self._socket.recvfrom(LARGEST_DATAGRAM)
            except OSError:  # a datagram with a wrong checksum wakes select and is then not there
                continue
            if (state := self._take(datagram, sender)) is not None:
                return state

    def close(self) -> None:
        """Stop receiving."""
        self._socket.close()

    def _take(self, datagram: bytes, sender: tuple[str, int]) -> Recording | None:
        now = time.monotonic()
        if sender != self._sender and now - self._heard < SILENCE:
            self.counters.foreign += 1
            return None
        try:
            magic, payload = one_frame(datagram)
            if sender != self._sender:
                self._sender, self._header, self._step = sender, None, None
            self._heard = now
            if magic != HEADER:
                return self._state(payload)
            self._learn(payload)
        except (FrameError, RecordingError):
            self.counters.bad += 1
        return None

    def _learn(self, payload: bytes) -> None:
        header = parse_header(payload)
        if header != self._header:
            self._header, self._step = header, None

    def _state(self, payload: bytes) -> Recording | None:
        if self._header is None:
            self.counters.early += 1
            return None
        states = parse_state(payload, self._header)
        recording = recording_from_columns(columns_from_states(self._header, states), "a live state")
        step = int(states["step"][0])
        if self._step is not None and step > self._step + 1:
            self.counters.lost += step - self._step - 1
        self._step = step
        self.counters.states += 1
        return recording
