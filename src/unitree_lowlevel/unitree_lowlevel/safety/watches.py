"""The checks with a memory: the age of states, packets of others, the robot's identity, motors in servo mode."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.messages import SERVO, Array, LowState
from unitree_lowlevel.safety.checks import Finding, Severity
from unitree_lowlevel.transport import Reception, TransportCounters

STALE = "stale_state"
FROZEN = "frozen_state"
INVALID = "invalid_state"
NOT_FINITE = "not_finite"
FOREIGN = "foreign_packets"
REJECTED = "rejected_packets"
UNSENT = "unsent_commands"
IDENTITY = "identity"
SERVO_LOST = "servo_lost"
GRACE_CYCLES = 5  # before an age counts: after a pause of this program the other side gets time to send
_NEVER = float("-inf")


class Sustained:
    """Passes a finding only after more than `duration` [s] of it: impacts pass, faults stay.

    The time with a finding is added up and the time without taken away, so that shaking above and below a threshold
    counts too.
    """

    def __init__(self, duration: float, period: float) -> None:
        self._longest = round(duration / period)
        self._count = 0

    def reset(self) -> None:
        """Forget the past."""
        self._count = 0

    def check(self, finding: Finding | None) -> Finding | None:
        """The finding of one more period, once there has been one for long enough."""
        self._count = max(self._count - 1, 0) if finding is None else self._count + 1
        return finding if self._count > self._longest else None


class StateWatch:
    """Keeps the newest valid state and checks its age: `timeout` [s] for the arrival of a state with a new tick,
    `frozen_time` [s] for any sensor to change, which noise alone does all the time. `coarse_ticks` counts states with
    an old tick and new values: no copies made on the way, but a clock coarser than the states.
    """

    def __init__(self, timeout: float, frozen_time: float) -> None:
        self.state: LowState | None = None
        self.coarse_ticks = 0
        self._timeout = timeout
        self._frozen_time = frozen_time
        self._cycles = 0  # since the newest state
        self._received = self._repeated = self._changed = self._rejected = _NEVER  # times
        self._invalid = ""
        self._sensors = b""

    def update(self, reception: Reception | None) -> bool:
        """Take in what has arrived, once per cycle; True for a new valid state."""
        self._cycles += 1
        if reception is None:
            return False
        state, now = reception.state, reception.received
        sensors = _sensors(state)
        if problem := _problem(state, sensors):
            self._rejected, self._invalid = now, problem
            return False
        values = sensors.tobytes()
        if self.state is not None and state.tick == self.state.tick:
            self._repeated = now
            self.coarse_ticks += values != self._sensors
            return False
        self.state, self._received, self._cycles = state, now, 0
        if values != self._sensors:
            self._sensors, self._changed = values, now
        return True

    def is_stale(self, now: float) -> bool:
        """Whether there is no state, or none that is new enough at time `now` [s]."""
        return self.state is None or (now - self._received > self._timeout and self._cycles > GRACE_CYCLES)

    def check(self, now: float, rejection: str | None = None) -> Finding | None:
        """What is wrong with the states at time `now` [s]; rejection: why packets have been refused lately."""
        if now - self._rejected <= self._timeout:
            return Finding(INVALID, self._invalid)
        if self.state is None:
            return Finding(
                STALE, f"no state has arrived; {rejection or 'switch the robot on, check cable and address'}"
            )
        if self.is_stale(now):
            if now - self._repeated <= self._timeout:
                return Finding(FROZEN, f"the robot's tick stands at {self.state.tick}; restart the robot")
            advice = rejection or "check the cable and that the robot is on"
            return Finding(STALE, f"no state for {now - self._received:.2f} s; {advice}")
        if (still := now - self._changed) > self._frozen_time:
            return Finding(FROZEN, f"all sensors have said the same for {still:.2f} s; restart the robot")
        return None


class LinkWatch:
    """Reports what else arrives over the network, and what cannot be sent, for `memory` [s] after it has happened."""

    def __init__(self, memory: float = 1.0) -> None:
        self._memory = memory
        self._counts: dict[str, int] = {}
        self._times: dict[str, float] = {}

    def update(self, now: float, counters: TransportCounters) -> None:
        """Compare the transport's counters at time `now` [s] with those before."""
        counts = {**counters.rejected, FOREIGN: counters.foreign, UNSENT: counters.send_errors}
        for event, count in counts.items():
            if count > self._counts.get(event, 0):
                self._times[event] = now
        self._counts = counts

    def rejection(self, now: float, counters: TransportCounters) -> str | None:
        """Why packets of the robot were no good states, when there have been such lately."""
        return counters.last_rejection if counters.rejected.keys() & self._recent(now) else None

    def check(self, now: float, counters: TransportCounters) -> list[Finding]:
        """What has happened lately; values that are not finite, which the codec refuses, are no reason to go on."""
        recent = self._recent(now)
        if not recent:
            return []
        sender = "another computer" if counters.last_foreign is None else "{}:{}".format(*counters.last_foreign)
        reasons = {
            NOT_FINITE: "the robot sends values that are not finite numbers; restart the robot",
            REJECTED: counters.last_rejection,
            FOREIGN: f"packets of {sender} are ignored; is another bridge running?",
            UNSENT: "commands cannot be sent; check the cable and the route",
        }
        if recent - {NOT_FINITE, FOREIGN, UNSENT}:
            recent.add(REJECTED)
        return [
            Finding(name, reason) if name == NOT_FINITE else Finding(name, reason, Severity.WARNING)
            for name, reason in reasons.items()
            if name in recent
        ]

    def _recent(self, now: float) -> set[str]:
        return {event for event, time in self._times.items() if now - time <= self._memory} if self._times else set()


class IdentityWatch:
    """Checks that the states come from the robot that sent the first one."""

    def __init__(self) -> None:
        self._known: tuple[int, ...] | None = None

    def reset(self) -> None:
        """Accept the sender of the next state."""
        self._known = None

    def check(self, identity: tuple[int, ...]) -> Finding | None:
        """A trip for the identity of another robot."""
        self._known = identity if self._known is None else self._known
        if identity == self._known:
            return None
        reason = (
            f"a robot that calls itself {identity} answers instead of {self._known}; "
            "leave one robot on this network, then reset"
        )
        return Finding(IDENTITY, reason, Severity.TRIP)


class ServoWatch:
    """Checks that motors stay in servo mode: one that has cut itself out, too hot or without power, leaves it.

    What real boards report there has been seen on no robot: motors that never report servo mode are not checked.
    """

    def __init__(self) -> None:
        self._in_servo_mode = np.zeros(len(JOINT_NAMES), dtype=bool)

    def reset(self) -> None:
        """Forget the modes: another robot answers."""
        self._in_servo_mode[:] = False

    def check(self, mode: npt.NDArray[np.uint8]) -> Finding | None:
        """Motors (12,) that have reported SERVO while commanded so, and now report another mode."""
        serves = mode == SERVO
        self._in_servo_mode |= serves
        lost = np.flatnonzero(self._in_servo_mode & ~serves)
        if not len(lost):
            return None
        others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        return Finding(
            SERVO_LOST,
            f"the motor of {JOINT_NAMES[lost[0]]}{others} has left its servo mode ({SERVO}) and says {mode[lost[0]]}; "
            "let it cool, look at its plugs, switch the robot off and on",
        )


def _sensors(state: LowState) -> Array:
    joints = (state.position, state.velocity, state.torque, state.temperature)
    return np.concatenate((state.orientation, *joints, state.angular_velocity, state.linear_acceleration))


def _problem(state: LowState, sensors: Array) -> str | None:
    if not np.isfinite(sensors).all():
        return "a sensor value is not a finite number; restart the robot"
    if not 0.9 < float(state.orientation @ state.orientation) < 1.1:
        return "the orientation is no unit quaternion; wait until the IMU has started, or restart the robot"
    return None
