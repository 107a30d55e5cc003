"""Lockstep of a simulation with its controller: simulated time does not go on without the targets for its states.

The controller stamps its targets with the state that they answer (fcnet_controller/control_loop.py, SimulatedPace). In
lockstep a state that is a control period newer than the last answered one is the last until it is answered, too: each
period has its cycle, and a computer that is too slow for real time makes simulated time slow and nothing else.
"""

from __future__ import annotations

import time

from fcnet_core.names import SECOND

MODES = ("never", "auto", "always")  # no word that YAML takes for a truth value
TOLERANCE = 1000  # [ns] of simulated times
LATE_PERIODS = 2  # control periods that simulated time may be ahead of the answers while real time is reached
FIRST_REPEAT, REPEAT = 0.1, 1.0  # [s] of real time until a state is sent again: before the first answer, and later


class Lockstep:
    """Whether simulated time may go on.

    mode: never, always, or auto: always from `engage` on, until then simulated time waits for late answers alone.
    period: of control [s]. timeout: longest real time [s] to wait for an answer.
    """

    def __init__(self, mode: str, period: float, timeout: float) -> None:
        self._mode, self._timeout = mode, timeout
        self._period = round(period * SECOND)
        self._answered: int | None = None  # stamp [ns] of the newest targets
        self._waits_since = self._repeated = time.monotonic()
        self._waits = mode != "never"

    @property
    def is_on(self) -> bool:
        """Whether every control period waits for its answer."""
        return self._mode == "always"

    @property
    def is_never(self) -> bool:
        """Whether time never waits."""
        return self._mode == "never"

    @property
    def has_begun(self) -> bool:
        """Whether time goes on by itself, or the first answer has come."""
        return self._mode == "never" or self._answered is not None

    def engage(self) -> bool:
        """Wait for every answer from now on, where the mode is auto; return whether that is new."""
        engages = self._mode == "auto"
        if engages:
            self._mode = "always"
        return engages

    def answer(self, stamp: int) -> None:
        """Take the stamp [ns] of targets."""
        self._answered = stamp

    def waits(self, now: int) -> bool:
        """Whether simulated time, `now` [ns], has to wait for an answer."""
        waits = self._mode != "never" and (self._answered is None or now - self._answered >= self._allowed - TOLERANCE)
        if waits and not self._waits:
            self._waits_since = self._repeated = time.monotonic()
        self._waits = waits
        return waits

    def repeats(self) -> bool:
        """Whether the state that waits for an answer is due to be sent again: a message may have been lost."""
        interval = FIRST_REPEAT if self._answered is None else REPEAT
        if time.monotonic() - self._repeated < interval:
            return False
        self._repeated = time.monotonic()
        return True

    def problem(self, now: int) -> str:
        """Return why waiting for an answer at simulated time `now` [ns] is over, in words; empty while it is not."""
        if not self._waits or time.monotonic() - self._waits_since < self._timeout:
            return ""
        return (
            f"no joint_trajectory has answered the state of {now / SECOND:.3f} s for {self._timeout:g} s; start a "
            "controller with simulated_time and the same control_rate, or this simulation without lockstep"
        )

    @property
    def _allowed(self) -> int:
        return self._period if self._mode == "always" else LATE_PERIODS * self._period
