"""The checks in front of the motors, run once per cycle: states, link, joints and targets. What fails is a Finding.

What follows from a finding is decided by the driver. Joint arrays are (12,) in JOINT_NAMES order: positions [rad],
velocities [rad/s], torques [Nm].
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import JOINT_NAMES, Robot, Safety
from unitree_lowlevel.codec import SERVO, LowState, RemoteState, decode_remote
from unitree_lowlevel.transport import Reception, TransportCounters

IDENTITY = "identity"
LINK_MEMORY = 1.0  # [s] for which an event of the link stays a finding
LOSS_WINDOW = 1.0  # [s] over which the share of lost packets is estimated
LOSS_SAMPLES = 10  # in this window
FIRST_LOSS = 0.5  # [s] before the first estimate
_TICKS = (1.0, 2.0, 2000.0)  # a tick per state, a millisecond, a microsecond: for states that are 2 ms apart
_COARSE = 3  # coarse ticks, see StateWatch, that prove a clock coarser than the states
_NEVER = float("-inf")


class Severity(IntEnum):
    """The effect of a finding."""

    WARNING = 0
    TRIP_IF_FOLLOWING = 1  # latches damping while joints follow targets, and keeps them from beginning to
    TRIP = 2  # latches damping in any mode


@dataclass(frozen=True, eq=False)  # a trip that comes back with the same words is another trip
class Finding:
    """The name of a check that has failed and the reason, a sentence that a user can act on."""

    name: str
    reason: str
    severity: Severity = Severity.TRIP_IF_FOLLOWING

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class RobotChecks:
    """The checks without a memory, with the limits of one robot; each returns a Finding or None."""

    def __init__(self, robot: Robot) -> None:
        self.lower, self.upper = robot.lower, robot.upper
        self._velocity_limit, self._torque_limit = robot.velocity_limit, robot.torque_limit
        self._safety = robot.safety

    def position(self, position: Array) -> Finding | None:
        """Measured positions outside the limits of their side by more than the margin."""
        lower, upper = self.lower, self.upper
        worst = _beyond(np.maximum(lower - position, position - upper), self._safety.position_margin)
        if worst is None:
            return None
        return Finding(
            "joint_position",
            f"{JOINT_NAMES[worst]} is at {position[worst]:.2f} rad, its limits are {lower[worst]:g} to "
            f"{upper[worst]:g} rad; move the leg by hand, or is this another robot?",
        )

    def velocity(self, velocity: Array) -> Finding | None:
        """Measured velocities beyond the accepted share of the motor's limit."""
        worst = _beyond(np.abs(velocity) / self._velocity_limit, self._safety.max_velocity)
        if worst is None:
            return None
        return Finding(
            "joint_velocity",
            f"{JOINT_NAMES[worst]} turns at {velocity[worst]:.1f} rad/s, accepted are "
            f"{self._safety.max_velocity * self._velocity_limit[worst]:.1f}; look for shaking joints (gains, policy)",
        )

    def torque(self, torque: Array) -> Finding | None:
        """Estimated torques beyond the accepted share of the motor's limit: for long they heat it."""
        worst = _beyond(np.abs(torque) / self._torque_limit, self._safety.max_torque)
        if worst is None:
            return None
        return Finding(
            "joint_torque",
            f"{JOINT_NAMES[worst]} gives {torque[worst]:.1f} Nm of its {self._torque_limit[worst]:g} Nm without a "
            "pause; free the leg or lighten the robot",
        )

    def power(self, torque: Array, velocity: Array) -> Finding | None:
        """The sum of |torque x velocity| beyond the limit, as in the vendor's PowerProtect, which ends the process."""
        power, limit = float(np.abs(torque * velocity).sum()), self._safety.max_power
        if power <= limit:
            return None
        return Finding(
            "motor_power", f"the motors turn {power:.0f} W, accepted are {limit:g} W; look for shaking joints"
        )

    def joint_error(self, target: Array, position: Array) -> Finding | None:
        """Measured positions too far from their targets."""
        error, limit = np.abs(target - position), self._safety.max_joint_error
        if (worst := _beyond(error, limit)) is None:
            return None
        return Finding(
            "joint_error",
            f"{JOINT_NAMES[worst]} is {error[worst]:.2f} rad from its target, the limit is {limit:g} rad; look for a "
            "blocked leg or a motor without power",
        )

    def temperature(self, temperature: Array) -> Finding | None:
        """Motor temperatures [deg C]: a warning, then a trip."""
        limit = self._safety.max_temperature
        worst = int(temperature.argmax())
        hottest = float(temperature[worst])
        if hottest < self._safety.temperature_warning:
            return None
        reason = f"the motor of {JOINT_NAMES[worst]} has {hottest:.0f} C, the limit is {limit:g} C"
        if hottest < limit:
            return Finding("temperature", f"{reason}; rest soon", Severity.WARNING)
        return Finding("temperature", f"{reason}; let it cool", Severity.TRIP)

    def tilt(self, orientation: Array) -> Finding | None:
        """The trunk's z axis, from the orientation (4,) x, y, z, w, too far from the vertical."""
        x, y, _, _ = orientation.tolist()
        tilt, limit = math.acos(min(1.0, max(-1.0, 1.0 - 2.0 * (x * x + y * y)))), self._safety.max_tilt
        if tilt <= limit:
            return None
        return Finding(
            "tilt", f"the robot is tilted by {tilt:.2f} rad, the limit is {limit:g} rad; set it on its belly"
        )

    def target_jump(self, last: Array, target: Array, elapsed: float) -> Finding | None:
        """Targets that have jumped from the last ones, `elapsed` [s] ago.

        Two targets may arrive at once, so a step is accepted on top of the slew.
        """
        jump = np.abs(target - last)
        accepted = self._safety.max_target_jump + self._safety.max_target_rate * elapsed
        if (worst := _beyond(jump, accepted)) is None:
            return None
        return Finding(
            "target_jump",
            f"the target of {JOINT_NAMES[worst]} jumped by {jump[worst]:.2f} rad in {elapsed * 1e3:.0f} ms, accepted "
            f"are {accepted:.2f} rad; look at who sends joint_trajectory",
        )

    def first_target(self, position: Array, target: Array) -> str | None:
        """Why these first targets are refused: they are too far from the measured positions."""
        distance, limit = np.abs(target - position), self._safety.max_start_error
        if (worst := _beyond(distance, limit)) is None:
            return None
        return (
            f"the first target of {JOINT_NAMES[worst]} is {distance[worst]:.2f} rad away, accepted are {limit:g} rad; "
            "damp, then begin where the joints are"
        )


def _beyond(values: Array, limit: float) -> int | None:
    """The joint with the largest value, where that is not within the limit."""
    worst = int(values.argmax())
    return None if values[worst] <= limit else worst


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


class SafetyMonitor:
    """All the checks of one robot. `stop_chords`: buttons of the remote that, pressed together, stop the robot.

    A robot that is only damped may be carried, turned over and moved by hand, so that velocity, torque, power and
    joint error count only while joints follow targets; so do motor modes, which a board may change without stiffness.
    """

    def __init__(self, robot: Robot, period: float, stop_chords: Collection[frozenset[str]]) -> None:
        safety = robot.safety
        self.checks = RobotChecks(robot)
        self.states = StateWatch(safety.state_timeout, safety.frozen_time)
        self.loss = PacketLoss(period)
        self.remote = RemoteState()
        self._safety = safety
        self._stop_chords = tuple(stop_chords)
        self._link = LinkWatch()
        self._servo_lost = Sustained(safety.servo_lost_time, period)
        self._velocity = Sustained(safety.velocity_time, period)
        self._power = Sustained(safety.power_time, period)
        self._error = Sustained(safety.joint_error_time, period)
        self._torque = Sustained(safety.torque_time, period)
        self._remote_bytes = b""
        self.accept_robot()

    def begin_following(self) -> None:
        """Forget what has been counted about joints that followed before."""
        for sustained in (self._servo_lost, self._velocity, self._power, self._error, self._torque):
            sustained.reset()

    def accept_robot(self) -> None:
        """Take the sender of the next state for the robot."""
        self._identity: tuple[int, ...] | None = None
        self._other_robot: Finding | None = None
        self._in_servo_mode = np.zeros(len(JOINT_NAMES), dtype=bool)  # motors that have reported it while commanded so

    def inspect(
        self, now: float, reception: Reception | None, counters: TransportCounters, target: Array | None
    ) -> list[Finding]:
        """Everything that is wrong at time `now` [s], the gravest first; target (12,) [rad] while joints follow."""
        is_new = self.states.update(reception)
        self._link.update(now, counters)
        state = self.states.state
        problem = self.states.check(now, self._link.rejection(now, counters))
        if problem is not None:
            self.loss.reset()  # a gap has a finding of its own
        elif state is not None:
            self.loss.update(now, state.tick, self.states.coarse_ticks, counters)
        found = [*self._link.check(now, counters), problem]
        if state is not None:
            if is_new:
                self._take_sender(state)
            found += [
                self._check_stop(),
                self._other_robot,
                self.checks.temperature(state.temperature),
                self.checks.tilt(state.orientation),
                self.checks.position(state.position),
                self.loss.check(self._safety),
            ]
            if target is not None:
                found += self._check_motion(state, target)
        findings = [finding for finding in found if finding is not None]
        return sorted(findings, key=lambda finding: -finding.severity)

    def _take_sender(self, state: LowState) -> None:
        """Take the remote of a new state, and compare its sender with that of the first state."""
        if state.remote != self._remote_bytes:
            self._remote_bytes, self.remote = state.remote, decode_remote(state.remote)
        self._identity = state.identity if self._identity is None else self._identity
        self._other_robot = None
        if state.identity != self._identity:
            reason = (
                f"a robot with the identity {state.identity} answers instead of {self._identity}; leave one robot on "
                "this network, then reset"
            )
            self._other_robot = Finding(IDENTITY, reason, Severity.TRIP)

    def _check_stop(self) -> Finding | None:
        """The emergency stop of the wireless remote: all buttons of one of the chords are pressed."""
        for chord in self._stop_chords:
            if chord and chord <= self.remote.buttons:
                return Finding("remote_stop", f"{' + '.join(sorted(chord))} is pressed on the remote", Severity.TRIP)
        return None

    def _check_motion(self, state: LowState, target: Array) -> list[Finding | None]:
        checks = self.checks
        return [
            self._servo_lost.check(self._check_servo(state)),
            self._velocity.check(checks.velocity(state.velocity)),
            self._power.check(checks.power(state.torque, state.velocity)),
            self._error.check(checks.joint_error(target, state.position)),
            self._torque.check(checks.torque(state.torque)),
        ]

    def _check_servo(self, state: LowState) -> Finding | None:
        """Motors that have left servo mode: one that has cut itself out, too hot or without power, does.

        What real boards report there has been seen on no robot: motors that never report servo mode are not checked.
        """
        serves = state.mode == SERVO
        self._in_servo_mode |= serves
        lost = np.flatnonzero(self._in_servo_mode & ~serves)
        if not len(lost):
            return None
        others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        return Finding(
            "servo_lost",
            f"the motor of {JOINT_NAMES[lost[0]]}{others} has left its servo mode ({SERVO}) and reports "
            f"{state.mode[lost[0]]}; let it cool, look at its plugs, switch the robot off and on",
        )
