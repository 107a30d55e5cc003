"""Whether the robot says something, and something new."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unitree_lowlevel.low_state import LowState
from unitree_lowlevel.safety.trip import Finding, Severity
from unitree_lowlevel.transport import Reception

STALE = "stale_state"
FROZEN = "frozen_state"
INVALID = "invalid_state"
PATIENCE = 5  # looks in vain before a state counts as old: after our own pause the robot gets time to answer
_NEVER = float("-inf")


class StateWatch:
    """Keeps the newest valid state and judges how fresh it is: `timeout` [s] for the arrival of a state with a new
    tick, `frozen_time` [s] for any sensor to change, which noise alone does all the time. `live_repeats` counts states
    with an old tick and new values: no copies made on the way, but a clock coarser than the states.
    """

    def __init__(self, timeout: float, frozen_time: float) -> None:
        self.state: LowState | None = None
        self.live_repeats = 0
        self._timeout = timeout
        self._frozen_time = frozen_time
        self._fresh = _NEVER
        self._looks = 0
        self._repeated = _NEVER
        self._changed = _NEVER
        self._invalid = _NEVER
        self._problem = ""
        self._sensors = b""

    def see(self, reception: Reception | None) -> bool:
        """Take in what has arrived, once per cycle; True for a new valid state."""
        self._looks += 1
        if reception is None:
            return False
        state, now = reception.state, reception.received
        sensors = _sensors(state)
        if problem := _problem(state, sensors):
            self._invalid, self._problem = now, problem
            return False
        values = sensors.tobytes()
        if self.state is not None and state.tick == self.state.tick:
            self._repeated = now
            self.live_repeats += values != self._sensors
            return False
        self.state, self._fresh, self._looks = state, now, 0
        if values != self._sensors:
            self._sensors, self._changed = values, now
        return True

    def missing(self, now: float) -> bool:
        """Whether there is no state, or none that is new enough at time `now` [s]."""
        return self.state is None or (now - self._fresh > self._timeout and self._looks > PATIENCE)

    def check(self, now: float, rejection: str | None = None) -> Finding | None:
        """What is wrong with the states at time `now` [s]; rejection: why packets have been refused lately."""
        if now - self._invalid <= self._timeout:
            return Finding(INVALID, self._problem, Severity.NO_FOLLOWING)
        if self.state is None:
            advice = rejection or "switch the robot on, check cable and address"
            return Finding(STALE, f"no state has arrived; {advice}", _STOPS)
        if self.missing(now):
            if now - self._repeated <= self._timeout:
                return Finding(FROZEN, f"the robot's tick stands at {self.state.tick}; restart the robot", _STOPS)
            advice = rejection or "check the cable and that the robot is on"
            return Finding(STALE, f"no state for {now - self._fresh:.2f} s; {advice}", _STOPS)
        if now - self._changed > self._frozen_time:
            still = now - self._changed
            return Finding(FROZEN, f"all sensors have said the same for {still:.2f} s; restart the robot", _STOPS)
        return None


_STOPS = Severity.NO_FOLLOWING


def _sensors(state: LowState) -> npt.NDArray[np.float64]:
    return np.concatenate(
        (
            state.orientation,
            state.position,
            state.velocity,
            state.torque,
            state.temperature,
            state.angular_velocity,
            state.linear_acceleration,
        )
    )


def _problem(state: LowState, sensors: npt.NDArray[np.float64]) -> str | None:
    if not np.isfinite(sensors).all():
        return "a sensor value is not a finite number; restart the robot"
    if not 0.9 < float(state.orientation @ state.orientation) < 1.1:
        return "the orientation is no unit quaternion; wait until the IMU has started, or restart the robot"
    return None
