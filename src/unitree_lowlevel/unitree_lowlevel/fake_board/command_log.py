"""The log of all commands that a fake board has received."""

from __future__ import annotations

import threading
from collections import Counter, deque

import numpy as np

from fcnet_core.arrays import Array
from unitree_lowlevel.codec import POSITION_STOP, SERVO, LowCommand

HISTORY = 60_000  # commands whose arrival is remembered, two minutes at 500 Hz
SHORTEST_INTERVAL = 0.002  # [s] between two commands; that they arrive in a bunch does not make their targets faster


class CommandLog:
    """Counts and extremes of the datagrams that reached the board's socket, before any fault of the line acts on them.

    Times are those of time.monotonic() [s]. A joint is stiff where it is asked to hold a position with some stiffness,
    a command where any of its joints is. It may be read while the board runs.
    """

    def __init__(self, keep: int = 5000) -> None:
        self._lock = threading.Lock()
        self._keep = keep
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        with self._lock:
            self.count = 0  # good commands
            self.bad: Counter[str] = Counter()  # refused datagrams by the kind of their WireError
            self.last: LowCommand | None = None
            self.largest_stiffness = self.largest_damping = self.largest_torque = 0.0
            self.lowest_position, self.highest_position = np.full(12, np.inf), np.full(12, -np.inf)  # of stiff joints
            self.largest_step = 0.0  # [rad] between successive positions of a stiff joint
            self.largest_rate = 0.0  # [rad/s] the same for the time between them
            self._history: deque[tuple[float, bool]] = deque(maxlen=HISTORY)  # arrival, stiff
            self._commands: deque[tuple[float, LowCommand]] = deque(maxlen=self._keep)
            self._last_position: Array = np.full(12, np.nan)  # of stiff joints

    def record(self, command: LowCommand, arrival: float) -> None:
        """Add a good command."""
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
                self.largest_step = max(self.largest_step, step)
                self.largest_rate = max(self.largest_rate, step / interval)
            self.count += 1
            self.last, self._last_position = command, position
            self._history.append((arrival, bool(stiff.any())))
            self._commands.append((arrival, command))

    def record_bad(self, kind: str) -> None:
        """Add a refused datagram."""
        with self._lock:
            self.bad[kind] += 1

    @property
    def non_finite(self) -> int:
        """Refused datagrams with a number that is not finite."""
        return self.bad["not_finite"]

    @property
    def last_arrival(self) -> float | None:
        """When the last good command came."""
        with self._lock:
            return self._history[-1][0] if self._history else None

    @property
    def arrivals(self) -> Array:
        """When the good commands came, oldest first; no more than HISTORY."""
        with self._lock:
            return np.array([arrival for arrival, _stiff in self._history])

    @property
    def intervals(self) -> Array:
        """Times between successive good commands [s]."""
        return np.diff(self.arrivals)

    @property
    def recent(self) -> list[tuple[float, LowCommand]]:
        """The last `keep` good commands with their arrivals, oldest first."""
        with self._lock:
            return list(self._commands)

    def first_soft_after(self, time: float) -> float | None:
        """When the first command without stiffness came after `time`, None where there was none."""
        with self._lock:
            return next((arrival for arrival, stiff in self._history if arrival > time and not stiff), None)

    def last_stiff(self) -> float | None:
        """When the last stiff command came, None where there was none."""
        with self._lock:
            return next((arrival for arrival, stiff in reversed(self._history) if stiff), None)
