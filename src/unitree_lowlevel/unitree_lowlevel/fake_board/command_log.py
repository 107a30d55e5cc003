"""The log of all commands that a fake board has received."""

from __future__ import annotations

import threading
from collections import Counter, deque

import numpy as np

from fcnet_core.arrays import Array
from unitree_lowlevel.codec import MOTORS, POSITION_STOP, SERVO, LowCommand

HISTORY = 60_000  # stored arrivals, two minutes at 500 Hz
SHORTEST_INTERVAL = 0.002  # [s] assumed between two commands: a burst of packets does not make targets faster


class CommandLog:
    """Counts and extremes of the datagrams received by the board's socket, before faults of the line.

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
            self.largest_stiffness = self.largest_damping = self.largest_torque = 0.0
            self.lowest_position = np.full(MOTORS, np.inf)  # of stiff joints
            self.highest_position = -self.lowest_position
            self.largest_rate = 0.0  # [rad/s] between successive positions of a stiff joint
            self._history: deque[tuple[float, bool]] = deque(maxlen=HISTORY)  # arrival, stiff
            self._commands: deque[tuple[float, LowCommand]] = deque(maxlen=self._keep)
            self._last_position: Array = np.full(MOTORS, np.nan)  # of stiff joints

    def record(self, command: LowCommand, arrival: float) -> None:
        """Add a valid command."""
        stiff = (command.mode == SERVO) & (command.stiffness > 0.0) & (np.abs(command.position) < POSITION_STOP)
        position = np.where(stiff, command.position, np.nan)
        with self._lock:
            self.largest_stiffness = max(self.largest_stiffness, float(command.stiffness.max()))
            self.largest_damping = max(self.largest_damping, float(command.damping.max()))
            self.largest_torque = max(self.largest_torque, float(np.abs(command.torque).max()))
            self.lowest_position = np.fmin(self.lowest_position, position)
            self.highest_position = np.fmax(self.highest_position, position)
            if self._history:
                interval = max(SHORTEST_INTERVAL, arrival - self._history[-1][0])
                step = float(np.fmax.reduce(np.abs(position - self._last_position), initial=0.0))
                self.largest_rate = max(self.largest_rate, step / interval)
            self.count += 1
            self.last, self._last_position = command, position
            self._history.append((arrival, bool(stiff.any())))
            self._commands.append((arrival, command))

    def record_bad(self, kind: str) -> None:
        """Add a rejected datagram."""
        with self._lock:
            self.bad[kind] += 1

    @property
    def non_finite(self) -> int:
        """Number of rejected datagrams with non-finite values."""
        return self.bad["not_finite"]

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
