"""What arrives from a robot: the age of its states, other packets, the share that is lost, and its remote's signal."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from fcnet_core.robot import Safety
from unitree_lowlevel.codec import REMOTE_BYTES, STICKS, LowState, RemoteState, decode_remote
from unitree_lowlevel.safety.checks import Finding, Severity
from unitree_lowlevel.transport import Reception, TransportCounters

LINK_MEMORY = 1.0  # [s] for which an event of the link stays a finding
LOSS_WINDOW = 1.0  # [s] over which the share of lost packets is estimated
LOSS_SAMPLES = 10  # in this window
FIRST_LOSS = 0.5  # [s] before the first estimate
RELEASED, DEFLECTED, FULL = 0.1, 0.3, 0.99  # of a stick: at most at rest; at least when it cannot have been let go; end
_TICKS = (1.0, 2.0, 2000.0)  # a tick per state, a millisecond, a microsecond: for states that are 2 ms apart
_COARSE = 3  # coarse ticks, see StateWatch, that prove a clock coarser than the states
_NEVER = float("-inf")
_NOTHING = bytes(REMOTE_BYTES)


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
        self._received = self._repeated = self._changed = self._rejected = _NEVER  # times
        self._invalid = ""
        self._sensors = b""

    def update(self, reception: Reception | None) -> bool:
        """Take in what has arrived, once per cycle; True for a new valid state."""
        if reception is None:
            return False
        state, now = reception.state, reception.received
        joints = (state.position, state.velocity, state.torque, state.temperature)
        sensors = np.concatenate((state.orientation, *joints, state.angular_velocity, state.linear_acceleration))
        if not np.isfinite(sensors).all():
            self._rejected, self._invalid = now, "a sensor value is not a finite number; restart the robot"
            return False
        if not 0.9 < float(state.orientation @ state.orientation) < 1.1:
            reason = "the orientation is no unit quaternion; wait until the IMU has started, or restart the robot"
            self._rejected, self._invalid = now, reason
            return False
        values = sensors.tobytes()
        if self.state is not None and state.tick == self.state.tick:
            self._repeated = now
            self.coarse_ticks += values != self._sensors
            return False
        self.state, self._received = state, now
        if values != self._sensors:
            self._sensors, self._changed = values, now
        return True

    def is_stale(self, now: float) -> bool:
        """Whether there is no state, or none that is new enough at time `now` [s]."""
        return self.state is None or now - self._received > self._timeout

    def check(self, now: float, rejection: str | None = None) -> Finding | None:
        """What is wrong with the states at time `now` [s]; rejection: why packets have been refused lately."""
        if now - self._rejected <= self._timeout:
            return Finding("invalid_state", self._invalid)
        if self.state is None:
            advice = rejection or "switch the robot on, check cable and address"
            return Finding("stale_state", f"no state has arrived; {advice}")
        if self.is_stale(now):
            if now - self._repeated <= self._timeout:
                return Finding("frozen_state", f"the robot's tick stands at {self.state.tick}; restart the robot")
            advice = rejection or "check the cable and that the robot is on"
            return Finding("stale_state", f"no state for {now - self._received:.2f} s; {advice}")
        if (still := now - self._changed) > self._frozen_time:
            return Finding("frozen_state", f"all sensors have had the same values for {still:.2f} s; restart the robot")
        return None


class LinkWatch:
    """Reports for LINK_MEMORY what else arrives over the network, and what cannot be sent."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._times: dict[str, float] = {}

    def update(self, now: float, counters: TransportCounters) -> None:
        """Compare the transport's counters at time `now` [s] with those before."""
        counts = {**counters.rejected, "foreign": counters.foreign, "unsent": counters.send_errors}
        for event, count in counts.items():
            if count > self._counts.get(event, 0):
                self._times[event] = now
        self._counts = counts

    def rejection(self, now: float, counters: TransportCounters) -> str | None:
        """Why packets of the robot were no good states, when there have been such lately."""
        return counters.last_rejection if counters.rejected.keys() & self._recent(now) else None

    def check(self, now: float, counters: TransportCounters) -> list[Finding]:
        """What has happened lately; values that are not finite, which the codec refuses, are no reason to go on."""
        found: list[Finding] = []
        recent = self._recent(now)
        if "not_finite" in recent:
            reason = "the robot sends values that are not finite numbers; restart the robot"
            found.append(Finding("not_finite", reason))
        if recent - {"not_finite", "foreign", "unsent"}:
            found.append(Finding("rejected_packets", counters.last_rejection, Severity.WARNING))
        if "foreign" in recent:
            sender = "another computer" if counters.last_foreign is None else "{}:{}".format(*counters.last_foreign)
            reason = f"packets of {sender} are ignored; is another bridge running?"
            found.append(Finding("foreign_packets", reason, Severity.WARNING))
        if "unsent" in recent:
            reason = "commands cannot be sent; check the cable and the route"
            found.append(Finding("unsent_commands", reason, Severity.WARNING))
        return found

    def _recent(self, now: float) -> set[str]:
        return {event for event, time in self._times.items() if now - time <= LINK_MEMORY} if self._times else set()


class _Sample(NamedTuple):
    """All that had been counted at one time [s]."""

    time: float
    tick: int
    received: int
    duplicates: int
    coarse_ticks: int
    cycles: int


class PacketLoss:
    """Estimates the share of states that did not come, over the last second.

    The advance of the robot's tick gives the number of states that were due. Its unit is not documented: the nearest of
    the usual ones is taken, and where the clock and its usual steps disagree (a simulated robot may be slow) that with
    the smaller loss. A robot may also send only in answer to commands: then there are no more states than there were
    commands, and packets lost on either way count. A robot that ever sent clearly more than that runs freely.
    """

    def __init__(self, period: float) -> None:
        self.share: float | None = None
        self._period = period
        self._cycles = 0
        self._runs_free = False
        self._samples: deque[_Sample] = deque(maxlen=LOSS_SAMPLES + 1)
        self._tick = 0
        self._steps: deque[int] = deque(maxlen=round(LOSS_WINDOW / period))

    def reset(self) -> None:
        """Begin a new window."""
        self._samples.clear()
        self._steps.clear()
        self.share = None

    def update(self, now: float, tick: int, coarse_ticks: int, counters: TransportCounters) -> None:
        """Count one more cycle, at time `now` [s], with the newest state's tick."""
        self._cycles += 1
        if tick != self._tick:
            self._steps.append(_advance(self._tick, tick))
            self._tick = tick
        samples, interval = self._samples, LOSS_WINDOW / LOSS_SAMPLES
        if samples:
            elapsed = now - samples[-1].time
            if elapsed < interval:
                return
            if _advance(samples[-1].tick, tick) >= 2**31 or elapsed > 2 * interval:
                self.reset()  # the robot has restarted, or nothing has been counted for a while
        samples.append(_Sample(now, tick, counters.received, counters.duplicates, coarse_ticks, self._cycles))
        if now - samples[0].time >= FIRST_LOSS:
            self.share = self._estimate(samples[0], samples[-1])

    def check(self, safety: Safety) -> Finding | None:
        """A warning, then a trip, for the newest estimate."""
        if self.share is None or self.share < safety.packet_loss_warning:
            return None
        severity = Severity.WARNING if self.share < safety.max_packet_loss else Severity.TRIP_IF_FOLLOWING
        return Finding(
            "packet_loss", f"{100 * self.share:.0f} % of the packets are lost; check cable and switch", severity
        )

    def _estimate(self, first: _Sample, last: _Sample) -> float:
        advance = _advance(first.tick, last.tick)
        periods = (last.time - first.time) / self._period
        smallest_usual = sorted(self._steps)[len(self._steps) // 10] if self._steps else 1
        unit = max(_nearest_unit(advance / periods), _nearest_unit(smallest_usual))
        arrived = last.received - first.received
        if last.coarse_ticks - first.coarse_ticks < _COARSE:
            arrived -= last.duplicates - first.duplicates
        commands = last.cycles - first.cycles
        self._runs_free |= arrived > 1.1 * commands + 10
        expected = advance / unit if self._runs_free else min(advance / unit, commands)
        return min(1.0, max(0.0, 1.0 - arrived / expected)) if expected > 0 else 0.0


def _nearest_unit(step: float) -> float:
    return min(_TICKS, key=lambda ticks: abs(math.log(max(step, 1e-9) / ticks)))


def _advance(earlier: int, later: int) -> int:
    return (later - earlier) % 2**32


class RemoteWatch:
    """Keeps the state of the wireless remote, and reports a remote that is lost while it drives.

    Nothing documents what the 40 bytes are once the remote is out of reach, and it has been seen on no robot. Two ways
    are recognised. They become zeros from one state to the next while a stick was far out, which no thumb does. Or none
    of them changes for remote_timeout while a stick is held, but not at its end: no hand and no sensor is that steady.
    """

    def __init__(self, timeout: float, severity: Severity) -> None:
        self.state = RemoteState()
        self._timeout, self._severity = timeout, severity
        self._bytes = b""
        self._changed = self._vanished = _NEVER
        self._deflection = 0.0

    def update(self, now: float, remote: bytes) -> None:
        """Take the bytes of a new state at time `now` [s]."""
        if remote == self._bytes:
            return
        if remote == _NOTHING and self._deflection > DEFLECTED:
            self._vanished = now
        self._bytes, self._changed, self.state = remote, now, decode_remote(remote)
        self._deflection = max(abs(getattr(self.state, stick)) for stick in STICKS)

    def check(self, now: float) -> Finding | None:
        """What is wrong with it at time `now` [s]."""
        if now - self._vanished <= LINK_MEMORY:
            return Finding("remote_lost", "the remote has vanished while it drove the robot", self._severity)
        if RELEASED < self._deflection < FULL and (still := now - self._changed) > self._timeout:
            reason = f"the remote has sent the same for {still:.1f} s with a stick held; is it on and near?"
            return Finding("remote_lost", reason, self._severity)
        return None
