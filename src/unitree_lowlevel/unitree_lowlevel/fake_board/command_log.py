"""The log of all commands that a fake board has received."""

from __future__ import annotations

import threading
from collections import Counter, deque

import numpy as np

from fcnet_core.arrays import Array
from unitree_lowlevel.codec import POSITION_STOP, SERVO, LowCommand

HISTORY = 60_000  # stored arrivals, two minutes at 500 Hz


class CommandLog:
    """Counts and history of the datagrams received by the board's socket, before faults of the line.

    Times are from time.monotonic() [s]. A joint is stiff if its command has a position and stiffness; a command is
    stiff if any joint is. Any thread may read the log.
    """

    def __init__(self, keep: int = 5000) -> None:
        self._lock = threading.Lock()
        self._keep = keep
        self.reset()

    def reset(self) -> None:
        """Clear the log."""
        with self._lock:
            self.count = 0  # good commands
            self.bad: Counter[str] = Counter()  # rejected datagrams by the kind of their WireError
            self.last: LowCommand | None = None
            self._history: deque[tuple[float, bool]] = deque(maxlen=HISTORY)  # arrival, stiff
            self._commands: deque[tuple[float, LowCommand]] = deque(maxlen=self._keep)

    def record(self, command: LowCommand, arrival: float) -> None:
        """Add a valid command."""
        stiff = (command.mode == SERVO) & (command.stiffness > 0.0) & (np.abs(command.position) < POSITION_STOP)
        with self._lock:
            self.count += 1
            self.last = command
            self._history.append((arrival, bool(stiff.any())))
            self._commands.append((arrival, command))

    def record_bad(self, kind: str) -> None:
        """Add a rejected datagram."""
        with self._lock:
            self.bad[kind] += 1

    @property
    def last_arrival(self) -> float | None:
        """Arrival of the last valid command, None without any."""
        with self._lock:
            return self._history[-1][0] if self._history else None

    @property
    def arrivals(self) -> Array:
        """Arrivals of the last HISTORY valid commands, oldest first."""
        with self._lock:
            return np.array([arrival for arrival, _stiff in self._history])

    @property
    def intervals(self) -> Array:
        """Intervals between successive valid commands [s]."""
        return np.diff(self.arrivals)

    @property
    def recent(self) -> list[tuple[float, LowCommand]]:
        """The last `keep` valid commands with their arrivals, oldest first."""
        with self._lock:
            return list(self._commands)

    def last_stiff(self) -> float | None:
        """Return the arrival of the last stiff command, None without any."""
        with self._lock:
            return next((arrival for arrival, stiff in reversed(self._history) if stiff), None)
