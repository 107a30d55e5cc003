"""Lockstep of a simulation with its controller: simulated time waits for the targets that answer its states.

The controller stamps its targets with the state that they answer (fcnet_controller/control_loop.py, SimulatedPace). In
lockstep a state that is a control period newer than the last answered one is the last until it is answered as well:
each period has its cycle, and a slow computer only slows down simulated time.
"""

import time

from fcnet_core.names import SECOND

MODES = ("never", "auto", "always")  # no word that YAML takes for a truth value
TOLERANCE = 1000  # [ns] of simulated times
LATE_PERIODS = 2  # control periods that simulated time may be ahead of the answers while real time is reached
FIRST_REPEAT, REPEAT = 0.1, 1.0  # [s] of real time until a state is sent again: before the first answer, and later


class Lockstep:
    """Whether simulated time has to wait.

    mode: never, always, or auto: only for late answers. answered: stamp [ns] of the newest targets. period: of control
    [s]. timeout: maximum real time [s] to wait for an answer.
    """

    def __init__(self, mode: str, period: float, timeout: float) -> None:
        self.mode, self._timeout = mode, timeout
        self._period = round(period * SECOND)
        self.answered: int | None = None
        self._waits_since = self._repeated = time.monotonic()
        self._waits = mode != "never"

    def waits(self, now: int) -> bool:
        """Return whether simulated time, `now` [ns], has to wait for an answer."""
        allowed = self._period if self.mode == "always" else LATE_PERIODS * self._period
        waits = self.mode != "never" and (self.answered is None or now - self.answered >= allowed - TOLERANCE)
        if waits and not self._waits:
            self._waits_since = self._repeated = time.monotonic()
        self._waits = waits
        return waits

    def repeats(self) -> bool:
        """Return whether the state that waits for an answer has to be sent again, in case a message was lost."""
        interval = FIRST_REPEAT if self.answered is None else REPEAT
        if time.monotonic() - self._repeated < interval:
            return False
        self._repeated = time.monotonic()
        return True

    def problem(self, now: int) -> str:
        """Return why waiting for an answer at simulated time `now` [ns] has timed out; empty if it has not."""
        if not self._waits or time.monotonic() - self._waits_since < self._timeout:
            return ""
        remedy = "start a controller with simulated_time and this control_rate, or this simulation without lockstep"
        return f"no joint_trajectory has answered the state of {now / SECOND:.3f} s for {self._timeout:g} s; {remedy}"
