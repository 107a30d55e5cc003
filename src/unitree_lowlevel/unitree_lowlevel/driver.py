"""The motor driver selects the command of every 2 ms cycle: damping, or targets that have passed every check.

waiting -> damping (a state has arrived) -> following (targets) -> damping (no new targets, "damp", a gap in the loop);
any -> tripped (damping, latched), left only by a reset. docs/inside.md has the table "Who damps, and when".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from enum import Enum
from logging import ERROR, INFO, WARNING

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array
from fcnet_core.errors import FcnetError
from fcnet_core.robot import Robot
from unitree_lowlevel.codec import DAMPING_STEP, JOINTS, MOTORS, PERIOD, LowCommand, LowState
from unitree_lowlevel.limiter import CommandLimiter, damping_command, least_damping
from unitree_lowlevel.safety.checks import TILT, Finding, Severity, TargetWatch, require_drivable
from unitree_lowlevel.safety.monitor import IDENTITY, RemoteLoss, SafetyMonitor
from unitree_lowlevel.safety.recovery import BEGIN_TIME
from unitree_lowlevel.transport import Reception, TransportCounters

MOST_ARMED = 8  # sources; a further one replaces the source with the oldest damp
REFUSAL_MEMORY = 0.2  # [s] for which rejected targets remain a warning
WARNING_DELAY = 0.5  # [s] before a warning is logged: the first state takes a while
WARNING_PAUSE = 10.0  # [s] in which an intermittent warning is logged once
_NEVER = float("-inf")


class DriverMode(str, Enum):
    """The mode of the motors; they are stiff only in FOLLOWING."""

    WAITING = "waiting"  # for a state of the robot
    DAMPING = "damping"
    FOLLOWING = "following"
    TRIPPED = "tripped"


class EventLog:
    """Collects events, and each warning once, as (level of `logging`, text), until they are taken."""

    def __init__(self) -> None:
        self._events: list[tuple[int, str]] = []
        self._since: dict[str, float] = {}
        self._logged: dict[str, float] = {}

    def add(self, level: int, text: str) -> None:
        """Add an event."""
        self._events.append((level, text))

    def warn(self, now: float, findings: Iterable[Finding]) -> None:
        """Add, at time `now` [s], the findings that have lasted WARNING_DELAY and are not logged yet."""
        present = {finding.name: finding for finding in findings}
        self._since = {name: self._since.get(name, now) for name in present}
        for name, since in self._since.items():
            if now - since < WARNING_DELAY:
                continue
            if now - self._logged.get(name, _NEVER) > WARNING_PAUSE:
                self.add(WARNING, str(present[name]))
            self._logged[name] = now

    def take(self) -> list[tuple[int, str]]:
        """Return the events since the last call."""
        taken, self._events = self._events, []
        return taken


class MotorDriver:
    """Turns targets of named sources into motor commands, or into damping. Times [s] are from time.monotonic. Raises
    FcnetError for a robot that a motor board cannot drive, see require_drivable.

    period: interval [s] between calls of `cycle`. stop_chords: buttons of the remote that, pressed together, stop the
    robot. remote_lost: whether a remote that is lost while it drives is a warning ("hold") or a trip ("stop").
    allow_recovery: whether a fallen robot may turn over.

    The source whose targets are followed owns the robot until it damps or sends nothing for the robot's
    command_timeout. Until then, commands of other sources have no effect. Only a source that has sent a "damp" is
    armed: its targets may start. It is disarmed by its start, by rejected targets, by a trip and by a cycle later than
    the robot's max_cycle_gap.

    mode; trip: the finding that has latched damping. owner: the source that is followed, or "". refused: number of
    rejected commands. warnings: texts. target_refusal: why no targets would be followed now, or "". The last two are
    updated in the cycle in which a finding appears or disappears, otherwise every second.
    """

    def __init__(
        self,
        robot: Robot,
        period: float = PERIOD,
        *,
        interpolation_time: float = 0.01,
        stop_chords: Collection[frozenset[str]] = (),
        remote_lost: RemoteLoss = "hold",
        allow_recovery: bool = False,
    ) -> None:
        require_drivable(robot)
        self.mode = DriverMode.WAITING
        self.trip: Finding | None = None
        self.warnings: tuple[str, ...] = ()
        self.target_refusal = ""
        self.owner = ""
        self.refused = 0
        self._robot, self._safety = robot, robot.safety
        self._monitor = SafetyMonitor(robot, period, stop_chords, remote_lost)
        self._recovery, self._allow_recovery = self._monitor.recovery, allow_recovery
        self._target_watch = TargetWatch(robot.safety)
        self._limiter = CommandLimiter(robot, period, interpolation_time)
        self._damped = damping_command(robot)
        self._gains = self._next_gains = (robot.kp, robot.kd)
        self._gains_problem: str | None = None
        self._active = False
        self._armed: dict[str, None] = {}  # sources, the newest damp last
        self._now = _NEVER  # of the newest cycle
        self._target_time = _NEVER  # arrival of the newest target that was followed
        self._target: Array = robot.rest_pose
        self._findings: list[Finding] = []
        self._later_trips: dict[str, Finding] = {}
        self._refusal, self._refusal_time = "", _NEVER
        self._published: tuple[object, ...] = ()
        self._published_time = _NEVER
        self._events = EventLog()

    @property
    def state(self) -> LowState | None:
        """The newest valid state of the robot."""
        return self._monitor.states.state

    @property
    def packet_loss(self) -> float | None:
        """Fraction of the packets lost in the last second; None while unknown."""
        return self._monitor.loss.share

    @property
    def gains_pending(self) -> bool:
        """Whether new gains were accepted that apply at the next start."""
        return self.mode is DriverMode.FOLLOWING and self._next_gains is not self._gains

    def take_events(self) -> list[tuple[int, str]]:
        """Return trips, warnings and changes of mode since the last call, as (level of `logging`, text)."""
        return self._events.take()

    def activate(self) -> None:
        """Allow targets after a "damp"."""
        self._active = True
        self._armed.clear()

    def deactivate(self) -> None:
        """Damp, and reject targets until `activate`."""
        self._active = False
        self._armed.clear()
        self._recovery.end()
        self._stop_following("deactivated: the joints are damped")

    def set_gains(self, kp: npt.ArrayLike, kd: npt.ArrayLike) -> str | None:
        """Use stiffness kp [Nm/rad] and damping kd [Nms/rad], numbers or (12,), at the next start.

        Returns why they are rejected, else None. After a rejection no targets are followed until valid gains arrive.
        """
        requested = np.asarray(kp, dtype=np.float64), np.asarray(kd, dtype=np.float64)
        self._gains_problem = self._refuse_gains(*requested)
        if self._gains_problem is None:
            gains = np.broadcast_to(requested[0], MOTORS).copy(), np.broadcast_to(requested[1], MOTORS).copy()
            self._next_gains = self._gains if np.array_equal(gains, self._gains) else gains
            if self.gains_pending:
                self._events.add(INFO, "new gains are accepted: they apply when targets start the next time")
        return self._gains_problem

    def damp(self, source: str = "") -> str | None:
        """Stop following as `source` commands, and arm it. Return why it is rejected (another is followed), or None."""
        self._arm(source)
        if refusal := self._refuse_intruder("damps", source):
            self.refused += 1
            return refusal
        self._stop_following("damped, as commanded")
        return None

    def set_targets(self, position: Array, received: float, source: str = "") -> str | None:
        """Follow position targets (12,) [rad] of `source` that arrived at this computer at time `received` [s].

        Returns why they are rejected, else None. Rejected targets do not prevent command_timeout, and disarm the
        source.
        """
        refusal = self._accept_targets(np.asarray(position, dtype=np.float64), received, source)
        if refusal is not None:
            self.refused += 1
            self._armed.pop(source, None)
            self._refusal, self._refusal_time = refusal, self._now
        return refusal

    def _accept_targets(self, position: Array, received: float, source: str) -> str | None:
        if position.shape != self._target.shape or not np.isfinite(position).all():
            return f"targets must be {MOTORS} finite positions; other messages are ignored"
        if not (age := self._now - received) <= self._safety.command_timeout:  # true for NaN
            return f"targets of {_words(source)} are {age:.2f} s old; check this computer's load"
        if refusal := self._refuse_intruder("targets", source):
            return refusal
        checks, following = self._monitor.checks, self.mode is DriverMode.FOLLOWING
        position = np.minimum(np.maximum(position, checks.lower), checks.upper)
        if not following and (refusal := self._begin_following(position, source)):
            return f"targets are not followed: {refusal}"
        elapsed = min(max(received - self._target_time, 0.0), self._safety.command_timeout)
        if following and (finding := self._target_watch.check(self._target, position, elapsed)):
            self._trip(finding)
            return finding.reason
        self._target, self._target_time = position, max(received, self._target_time)
        self._limiter.aim(position, self._now)
        return None

    def emergency_stop(self, reason: str) -> None:
        """Damp from the next cycle until reset."""
        self._trip(Finding("emergency_stop", reason, Severity.TRIP))

    def recover(self, now: float) -> str:
        """Permit a fallen robot to turn over, once; return a message for the user.

        Raises FcnetError, without an effect, if it is not allowed, while targets are followed, after a trip, and if
        there is another finding than the tilt.
        """
        if not self._allow_recovery or not self._recovery.exists:
            why = "its parameter allow_recovery is false" if self._recovery.exists else "the robot file has no recovery"
            raise FcnetError(f"the bridge does not move a tilted robot: {why}; set the robot on its belly")
        if self.mode is DriverMode.FOLLOWING:
            raise FcnetError(f"cannot recover: the robot follows {_words(self.owner)}")
        if refusal := self._refuse_everyone(but=TILT):
            raise FcnetError(f"cannot recover: {refusal}")
        if self.mode is DriverMode.WAITING:
            raise FcnetError("cannot recover: no state has arrived")
        self._recovery.grant(now)
        self._events.add(INFO, f"a recovery may start within {BEGIN_TIME:g} s")
        return "the robot may turn over; request the controller to recover"

    def reset(self, now: float) -> str:
        """Clear a trip whose cause is gone; return a message for the user. Raises FcnetError if the cause remains.

        The joints stay damped until a "damp", then targets. A tilted robot may be reset if a recovery is allowed, which
        must then be requested.
        """
        if self.trip is None:
            return "nothing to reset: the motors have not tripped"
        for finding in self._findings:  # the trip's own, or one that would trip again immediately
            remains = finding.name == self.trip.name and not (finding.name == TILT and self._allow_recovery)
            if finding.name != IDENTITY and (remains or finding.severity is Severity.TRIP):
                raise FcnetError(f"cannot reset: {finding.reason}")
        if self.trip.name == IDENTITY:
            self._monitor.accept_robot()
        self.trip, self.mode = None, DriverMode.DAMPING
        self._later_trips.clear()
        self._armed.clear()
        self._events.add(INFO, "reset: the joints are damped")
        return "reset: the joints are damped; targets are followed after a damp"

    def cycle(self, now: float, reception: Reception | None, counters: TransportCounters) -> LowCommand:
        """Return the command to send at time `now` [s], given the state received since the last cycle, if any.

        Does not raise for any content of a state.
        """
        with np.errstate(all="ignore"):
            self._stop_late(now)
            target = self._limiter.target(now) if self.mode is DriverMode.FOLLOWING else None
            self._findings = self._monitor.inspect(now, reception, counters, target)
            self._update_mode(now)
            self._publish_findings(now)
            state = self._monitor.states.state
            if self.mode is not DriverMode.FOLLOWING or target is None or state is None:
                return self._damped
            self._limiter.share = self._recovery.torque
            return self._limiter.command(target, state.position, state.velocity, now)

    def _stop_late(self, now: float) -> None:
        """Stop following after a gap in this loop, and if the targets are too old at time `now` [s]."""
        gap, self._now = now - self._now, now
        if self._safety.max_cycle_gap < gap < math.inf:
            self._armed.clear()
            self._stop_following(f"this loop was stopped for {gap:.2f} s: damped; a damp must come first")
        self._target_time = min(self._target_time, now)
        if (age := now - self._target_time) > self._safety.command_timeout:
            self._stop_following(f"no targets for {age:.2f} s: damped; a damp must come first")

    def _update_mode(self, now: float) -> None:
        """Change the mode according to findings and the age of the state."""
        following = self.mode is DriverMode.FOLLOWING
        for finding in self._findings:
            if finding.severity is Severity.TRIP or (following and finding.severity is Severity.TRIP_IF_FOLLOWING):
                self._trip(finding)
        if self.mode in (DriverMode.WAITING, DriverMode.DAMPING):
            self.mode = DriverMode.WAITING if self._monitor.states.is_stale(now) else DriverMode.DAMPING

    def _arm(self, source: str) -> None:
        self._armed.pop(source, None)
        self._armed[source] = None
        if len(self._armed) > MOST_ARMED:
            del self._armed[next(iter(self._armed))]

    def _refuse_intruder(self, command: str, source: str) -> str | None:
        if self.mode is not DriverMode.FOLLOWING or source == self.owner:
            return None
        return (
            f"the robot follows {_words(self.owner)}; {command} of {_words(source)} are rejected until that one damps "
            "or stops sending"
        )

    def _begin_following(self, target: Array, source: str) -> str | None:
        """Start following, or return why not."""
        state = self._monitor.states.state
        if refusal := self._refuse_everyone():
            return refusal
        if source not in self._armed:
            return f"a damp of {_words(source)} must come first"
        if state is None:
            return "no state has arrived"
        if refusal := self._monitor.checks.first_target(state.position, target):
            return refusal
        self.mode, self.owner = DriverMode.FOLLOWING, source
        self._gains, self._target_time = self._next_gains, _NEVER
        self._armed.pop(source)
        self._recovery.begin(self._now)
        self._limiter.start(state.position, *self._gains, self._now)
        self._target_watch.reset()
        self._monitor.begin_following()
        self._events.add(INFO, f"following targets of {_words(source)}")
        return None

    def _stop_following(self, reason: str) -> None:
        if self.mode is DriverMode.FOLLOWING:
            self.mode, self.owner = DriverMode.DAMPING, ""
            self._recovery.end()
            self._events.add(INFO, reason)

    def _trip(self, finding: Finding) -> None:
        """Damp until reset; the first trip is kept, later ones are warnings."""
        if self.trip is None:
            self.trip, self.mode, self.owner = finding, DriverMode.TRIPPED, ""
            self._recovery.end()
            self._armed.clear()
            self._events.add(ERROR, f"tripped: {finding}; the joints are damped until reset")
        elif finding.name != self.trip.name:
            self._later_trips[finding.name] = finding

    def _refuse_everyone(self, but: str = "") -> str | None:
        """Return why no source's targets may start now, or None; `but` names a finding to ignore."""
        if self.trip is not None:
            return f"{self.trip.reason}; remove the cause, then reset"
        if not self._active:
            return "the bridge is not active; activate it"
        if blocking := next((f for f in self._findings if _blocks(f) and f.name != but), None):
            return blocking.reason
        return self._gains_problem

    def _refuse_gains(self, kp: Array, kd: Array) -> str | None:
        for name, unit, gains, limit in (
            ("kp", "Nm/rad", kp, self._safety.max_kp),
            ("kd", "Nms/rad", kd, self._safety.max_kd),
        ):
            if gains.shape not in ((), self._target.shape):
                return f"{name} must be one number or {MOTORS}; its shape is {gains.shape}"
            if not ((gains > 0) & (gains <= limit)).all():  # false for NaN
                return (
                    f"{name} must be above 0 and at most {limit:g} {unit} for {self._robot.name}; "
                    f"it is {gains.min():g} to {gains.max():g}"
                )
        sent, least = np.floor(kd / DAMPING_STEP) * DAMPING_STEP, least_damping(self._robot, kp)
        if (short := np.flatnonzero(sent < least)).size:
            joint = int(short[0])
            return (
                f"kd must be at least {least[joint]:g} Nms/rad for {JOINTS[joint]} at this kp, in steps of "
                f"{DAMPING_STEP:g}; {np.broadcast_to(sent, MOTORS)[joint]:g} would let it oscillate"
            )
        return None

    def _publish_findings(self, now: float) -> None:
        """Update `warnings` and `target_refusal`: immediately after a change of the findings, else every second."""
        current = [finding for finding in self._findings if self.trip is None or finding.name != self.trip.name]
        self._events.warn(now, current)
        refused = now - self._refusal_time < REFUSAL_MEMORY
        key = (
            self.mode,
            self._active,
            bool(self._armed),
            self._gains_problem,
            self.trip,
            *((finding.name, finding.severity) for finding in current),
            *self._later_trips,
            refused and self._refusal,
        )
        if key == self._published and now - self._published_time < 1.0:
            return
        self._published, self._published_time = key, now
        self.target_refusal = "" if self.mode is DriverMode.FOLLOWING else self._refuse_everyone() or ""
        if self.mode is DriverMode.DAMPING and not (self.target_refusal or self._armed):
            self.target_refusal = "a damp must come first"
        names = {finding.name for finding in current}
        later = [finding for finding in self._later_trips.values() if finding.name not in names]
        self.warnings = (*map(str, current), *map(str, later), *([self._refusal] if refused else []))


def _blocks(finding: Finding) -> bool:
    return finding.severity >= Severity.TRIP_IF_FOLLOWING


def _words(source: str) -> str:
    return source or "an unnamed source"
