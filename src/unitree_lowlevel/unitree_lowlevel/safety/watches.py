"""The checks that remember: fresh states, a healthy link, one robot, motors in servo mode."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.messages import SERVO, LowState
from unitree_lowlevel.safety.checks import Finding, Severity
from unitree_lowlevel.transport import Reception, TransportCounters


class Sustained:
    """Adds up the time with a reason and takes away the time without, so that shaking above and below a threshold
    counts too. A reason passes after more than `duration` [s].
    """

    def __init__(self, duration: float, period: float) -> None:
        self._longest = round(duration / period)
        self._count = 0

    def reset(self) -> None:
        """Forget the past."""
        self._count = 0

    def check(self, reason: str | None) -> str | None:
        """The reason found in one more period, once there has been one for long enough."""
        if reason is None:
            self._count = max(self._count - 1, 0)
            return None
        self._count += 1
        return reason if self._count > self._longest else None


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


NOT_FINITE = "not_finite"
FOREIGN = "foreign_packets"
REJECTED = "rejected_packets"
UNSENT = "unsent_commands"


class LinkWatch:
    """Tells of an event for `memory` [s] after it has happened."""

    def __init__(self, memory: float = 1.0) -> None:
        self._memory = memory
        self._counts: dict[str, int] = {}
        self._times: dict[str, float] = {}

    def see(self, now: float, counters: TransportCounters) -> None:
        """Compare the transport's counters at time `now` [s] with those before."""
        for event, count in counters.rejected.items():
            self._count(now, event, count)
        self._count(now, FOREIGN, counters.foreign)
        self._count(now, UNSENT, counters.send_errors)

    def rejection(self, now: float, counters: TransportCounters) -> str | None:
        """Why packets of the robot were no good states, when there have been such lately."""
        lately = any(now - time <= self._memory for event, time in self._times.items() if event in counters.rejected)
        return counters.last_rejection if lately else None

    def check(self, now: float, counters: TransportCounters) -> list[Finding]:
        """What has happened lately. Values that are not finite the codec refuses; they are no reason to go on."""
        found = {
            _name(event): _finding(event, counters) for event, time in self._times.items() if now - time <= self._memory
        }
        return list(found.values())

    def _count(self, now: float, event: str, count: int) -> None:
        if count > self._counts.get(event, 0):
            self._times[event] = now
        self._counts[event] = count


def _name(event: str) -> str:
    return event if event in (NOT_FINITE, FOREIGN, UNSENT) else REJECTED


def _finding(event: str, counters: TransportCounters) -> Finding:
    if event == NOT_FINITE:
        sentence = "the robot sends values that are not finite numbers; restart the robot"
        return Finding(NOT_FINITE, sentence, Severity.NO_FOLLOWING)
    if event == FOREIGN:
        sender = "somebody" if counters.last_foreign is None else "{}:{}".format(*counters.last_foreign)
        return Finding(FOREIGN, f"packets of {sender} are ignored; is another bridge running?", Severity.WARNING)
    if event == UNSENT:
        return Finding(UNSENT, "commands cannot be sent; check the cable and the route", Severity.WARNING)
    return Finding(REJECTED, counters.last_rejection, Severity.WARNING)


IDENTITY = "identity"


class IdentityWatch:
    """Remembers who answered first."""

    def __init__(self) -> None:
        self._known: tuple[int, ...] | None = None

    def reset(self) -> None:
        """Accept whoever answers next."""
        self._known = None

    def check(self, identity: tuple[int, ...]) -> Finding | None:
        """A trip for the header of a state that comes from another robot."""
        if self._known is None:
            self._known = identity
        if identity == self._known:
            return None
        return Finding(
            IDENTITY,
            f"a robot that calls itself {identity} answers instead of {self._known}; "
            "leave one robot on this network, then reset",
            Severity.ALWAYS,
        )


SERVO_LOST = "servo_lost"


class ServoWatch:
    """Remembers which motors have said that they are in servo mode.

    What real boards say there has been seen on no robot: motors that never say it are not judged.
    """

    def __init__(self) -> None:
        self._served = np.zeros(len(JOINT_NAMES), dtype=bool)

    def reset(self) -> None:
        """Forget what was said: another robot answers."""
        self._served[:] = False

    def check(self, mode: npt.NDArray[np.uint8]) -> str | None:
        """A reason when a motor that has said SERVO while commanded so says another of the modes (12,)."""
        serves = mode == SERVO
        self._served |= serves
        lost = np.flatnonzero(self._served & ~serves)
        if not len(lost):
            return None
        others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        return (
            f"the motor of {JOINT_NAMES[lost[0]]}{others} has left its servo mode ({SERVO}) and says {mode[lost[0]]}; "
            "let it cool, look at its plugs, switch the robot off and on"
        )
