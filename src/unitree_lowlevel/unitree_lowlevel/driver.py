"""The motor driver decides the command of every 2 ms: damping, or targets that have passed every check.

waiting -> damping (a state has come) -> following (targets) -> damping (no more targets, "damp");
any -> tripped (damping, latched), left only through reset.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from enum import Enum
from logging import ERROR, INFO, WARNING

import numpy as np
import numpy.typing as npt

from fcnet_core import FcnetError
from fcnet_core.arrays import Array
from fcnet_core.robot import JOINT_NAMES, Robot
from unitree_lowlevel.codec import PERIOD, LowCommand, LowState
from unitree_lowlevel.limiter import CommandLimiter, damping_command
from unitree_lowlevel.safety import GRACE_CYCLES, IDENTITY, Finding, SafetyMonitor, Severity
from unitree_lowlevel.transport import Reception, TransportCounters

REFUSAL_MEMORY = 0.2  # [s] for which refused targets stay a warning
WARNING_DELAY = 0.5  # [s] before a warning is logged: the first state always takes a while
WARNING_PAUSE = 10.0  # [s] in which a warning that comes and goes is logged once
_NEVER = float("-inf")


class DriverMode(str, Enum):
    """The mode of the motors; only in FOLLOWING has any of them stiffness."""

    WAITING = "waiting"  # for a state of the robot
    DAMPING = "damping"
    FOLLOWING = "following"
    TRIPPED = "tripped"


class EventLog:
    """Levels (as `logging` has them) and sentences until they are taken: every event, and a warning once."""

    def __init__(self) -> None:
        self._events: list[tuple[int, str]] = []
        self._since: dict[str, float] = {}
        self._logged: dict[str, float] = {}

    def add(self, level: int, sentence: str) -> None:
        """Log an event."""
        self._events.append((level, sentence))

    def warn(self, now: float, findings: Iterable[Finding]) -> None:
        """Log, at time `now` [s], findings that have lasted WARNING_DELAY and are not logged yet."""
        present = {finding.name: finding for finding in findings}
        self._since = {name: self._since.get(name, now) for name in present}
        for name, since in self._since.items():
            if now - since < WARNING_DELAY:
                continue
            if now - self._logged.get(name, _NEVER) > WARNING_PAUSE:
                self.add(WARNING, str(present[name]))
            self._logged[name] = now

    def take(self) -> list[tuple[int, str]]:
        """The events since the last call."""
        taken, self._events = self._events, []
        return taken


class MotorDriver:
    """Stands between the sender of targets and the motors.

    One thread calls `cycle` once per `period` [s]; everything else may be called from any thread. Times are those of
    time.monotonic. `stop_chords`: buttons of the remote that, pressed together, stop the robot.

    mode; trip: the finding that has latched damping; owner: the source that is followed, or nothing; refused: how many
    commands have been refused; warnings: sentences; target_refusal: why targets would not be followed now, or nothing.
    The last two are renewed at once where a finding comes or goes, else every second.
    """

    def __init__(
        self,
        robot: Robot,
        period: float = PERIOD,
        *,
        interpolation_time: float = 0.01,
        stop_chords: Collection[frozenset[str]] = (),
    ) -> None:
        self.mode = DriverMode.WAITING
        self.trip: Finding | None = None
        self.warnings: tuple[str, ...] = ()
        self.target_refusal = ""
        self.owner = ""
        self.refused = 0
        self._robot, self._safety = robot, robot.safety
        self._monitor = SafetyMonitor(robot, period, stop_chords)
        self._limiter = CommandLimiter(robot, period, interpolation_time)
        self._damped = damping_command(robot)
        self._kp = np.full(len(JOINT_NAMES), robot.gains.kp)
        self._kd = np.full(len(JOINT_NAMES), robot.gains.kd)
        self._gains_problem: str | None = None
        self._active = False
        self._armed = False  # a "damp" or a pause has come, so that targets may begin
        self._now = self._target_time = _NEVER
        self._cycles = 0  # since the last targets
        self._target: Array = robot.lie_pose
        self._findings: list[Finding] = []
        self._later_trips: dict[str, Finding] = {}
        self._refusal, self._refusal_time = "", _NEVER
        self._published: tuple[object, ...] = ()
        self._published_time = _NEVER
        self._events = EventLog()
        self._lock = threading.Lock()

    @property
    def state(self) -> LowState | None:
        """The newest valid state of the robot."""
        return self._monitor.states.state

    @property
    def packet_loss(self) -> float | None:
        """Share of the packets that were lost in the last second; None while that is not known."""
        return self._monitor.loss.share

    def take_events(self) -> list[tuple[int, str]]:
        """Trips, warnings and changes of mode since the last call, each with its level (as `logging` has them)."""
        with self._lock:
            return self._events.take()

    def activate(self) -> None:
        """Allow targets, once there has been a "damp" or a pause of targets."""
        with self._lock:
            self._active = True
            self._require_pause(self._now)

    def deactivate(self) -> None:
        """Damp, and follow no targets until `activate`."""
        with self._lock:
            self._active = self._armed = False
            self._stop_following("deactivated: the joints are damped")

    def set_gains(self, kp: npt.ArrayLike, kd: npt.ArrayLike) -> str | None:
        """Use stiffness kp [Nm/rad] and damping kd [Nms/rad], numbers or (12,), when joints begin to follow.

        Returns why they are refused; then no targets are followed until acceptable gains come.
        """
        with self._lock:
            wanted_kp, wanted_kd = np.asarray(kp, dtype=np.float64), np.asarray(kd, dtype=np.float64)
            problem = self._refuse_gains(wanted_kp, wanted_kd)
            if problem is None:
                self._kp, self._kd = np.broadcast_to(wanted_kp, 12).copy(), np.broadcast_to(wanted_kd, 12).copy()
            if self.mode is not DriverMode.FOLLOWING:
                self._gains_problem = problem
            return problem

    def damp(self, source: str = "") -> str | None:
        """Stop following, as `source` commands; new targets may be followed at once. Returns why it is refused."""
        with self._lock:
            self._target_time = self._now
            self._stop_following("damped, as commanded")
            self._armed = True
            return None

    def set_targets(self, position: Array, received: float, source: str = "") -> str | None:
        """Follow position targets (12,) [rad] of `source` that arrived at time `received` [s]; returns why not."""
        with self._lock:
            refusal = self._set_targets(position, received, source)
            self.refused += refusal is not None
            return refusal

    def _set_targets(self, position: Array, now: float, source: str) -> str | None:
        position = np.asarray(position, dtype=np.float64)
        if position.shape != self._target.shape or not np.isfinite(position).all():
            return f"targets must be {len(JOINT_NAMES)} finite positions; these are ignored"
        checks = self._monitor.checks
        position = np.minimum(np.maximum(position, checks.lower), checks.upper)
        elapsed, self._target_time, self._cycles = now - self._target_time, now, 0
        if self.mode is not DriverMode.FOLLOWING:
            return self._begin_following(position, now, source)
        if jump := checks.target_jump(self._target, position, max(elapsed, 0.0)):
            self._trip(jump)
            return jump.reason
        self._target = position
        self._limiter.aim(position, now)
        return None

    def emergency_stop(self, reason: str) -> None:
        """Damp from the next cycle on, until reset."""
        with self._lock:
            self._trip(Finding("emergency_stop", reason, Severity.TRIP))

    def reset(self, now: float) -> str:
        """Leave a trip whose cause has gone, else raise FcnetError; returns a sentence for the user.

        The joints stay damped until a "damp" or a pause, then targets.
        """
        with self._lock:
            if self.trip is None:
                return "nothing to reset: the motors have not tripped"
            for finding in self._findings:  # of the trip itself, or one that would trip again at once
                if finding.name != IDENTITY and (finding.name == self.trip.name or finding.severity is Severity.TRIP):
                    raise FcnetError(f"cannot reset: {finding.reason}")
            if self.trip.name == IDENTITY:
                self._monitor.accept_robot()
            self.trip, self.mode = None, DriverMode.DAMPING
            self._later_trips.clear()
            self._require_pause(now)
            self._events.add(INFO, "reset: the joints are damped")
            return "reset: the joints are damped; targets are followed after a damp or a silence of them"

    def cycle(self, now: float, reception: Reception | None, counters: TransportCounters) -> LowCommand:
        """The command to send at time `now` [s], after what has arrived since the last cycle.

        Never raises for the content of a state.
        """
        with self._lock, np.errstate(all="ignore"):
            self._now = now
            self._cycles += 1
            target = self._limiter.target(now) if self.mode is DriverMode.FOLLOWING else None
            self._findings = self._monitor.inspect(now, reception, counters, target)
            self._update_mode(now)
            self._publish_findings(now)
            state = self._monitor.states.state
            if self.mode is not DriverMode.FOLLOWING or target is None or state is None:
                return self._damped
            return self._limiter.command(target, state.position, self._kp, self._kd, now)

    def _update_mode(self, now: float) -> None:
        """Change the mode for findings, for the age of the targets, and for the first state."""
        if self._target_time == _NEVER:
            self._target_time = now
        following = self.mode is DriverMode.FOLLOWING
        for finding in self._findings:
            if finding.severity is Severity.TRIP or (following and finding.severity is Severity.TRIP_IF_FOLLOWING):
                self._trip(finding)
        if (age := now - self._target_time) > self._safety.command_timeout and self._cycles > GRACE_CYCLES:
            self._stop_following(f"no targets for {age:.2f} s: the joints are damped")
            self._armed = True
        if self.mode in (DriverMode.WAITING, DriverMode.DAMPING):
            self.mode = DriverMode.WAITING if self._monitor.states.is_stale(now) else DriverMode.DAMPING

    def _require_pause(self, now: float) -> None:
        self._armed, self._target_time, self._cycles = False, now, 0

    def _begin_following(self, target: Array, now: float, source: str) -> str | None:
        """Begin, or refuse: then a damp or a pause must come first, so that nothing begins by itself later."""
        state = self._monitor.states.state
        refusal = self._refuse_targets()
        if refusal is None and not self._armed:
            refusal = f"a damp or {self._safety.command_timeout:g} s without targets must come first"
        if refusal is None and state is not None:
            refusal = self._monitor.checks.first_target(state.position, target)
        if refusal is not None or state is None:
            self._armed = False
            self._refusal, self._refusal_time = f"targets are not followed: {refusal}", now
            return self._refusal
        self.mode, self.owner = DriverMode.FOLLOWING, source
        self._target = target
        self._limiter.start(state.position, now)
        self._limiter.aim(target, now)
        self._monitor.begin_following()
        self._events.add(INFO, "following targets")
        return None

    def _stop_following(self, reason: str) -> None:
        if self.mode is DriverMode.FOLLOWING:
            self.mode, self.owner = DriverMode.DAMPING, ""
            self._events.add(INFO, reason)

    def _trip(self, finding: Finding) -> None:
        """Damp until reset; the first trip stays, later ones are warnings."""
        if self.trip is None:
            self.trip, self.mode, self.owner = finding, DriverMode.TRIPPED, ""
            self._events.add(ERROR, f"tripped: {finding}; the joints are damped until reset")
        elif finding.name != self.trip.name:
            self._later_trips[finding.name] = finding

    def _refuse_targets(self) -> str | None:
        """Why no targets may be followed now, whatever they are and however they come."""
        if self.trip is not None:
            return f"{self.trip.reason}; remove the cause, then reset"
        if not self._active:
            return "the bridge is not active; activate it"
        if blocking := next((f for f in self._findings if f.severity >= Severity.TRIP_IF_FOLLOWING), None):
            return blocking.reason
        return self._gains_problem

    def _refuse_gains(self, kp: Array, kd: Array) -> str | None:
        for name, unit, gains, largest in (
            ("kp", "Nm/rad", kp, self._safety.max_kp),
            ("kd", "Nms/rad", kd, self._safety.max_kd),
        ):
            if gains.shape not in ((), self._target.shape):
                return f"{name} must be one number or {len(JOINT_NAMES)}; its shape is {gains.shape}"
            if not ((gains > 0) & (gains <= largest)).all():  # false for NaN
                return (
                    f"{name} must be above 0 and at most {largest:g} {unit} for {self._robot.name}; "
                    f"it is {gains.min():g} to {gains.max():g}"
                )
        if self.mode is DriverMode.FOLLOWING and ((kp != self._kp).any() or (kd != self._kd).any()):
            return "gains change only while the joints are damped; damp first"
        return None

    def _publish_findings(self, now: float) -> None:
        """Renew `warnings` and `target_refusal`: at once where a finding comes or goes, slowly where numbers change."""
        current = [finding for finding in self._findings if self.trip is None or finding.name != self.trip.name]
        self._events.warn(now, current)
        refused = now - self._refusal_time < REFUSAL_MEMORY
        key = (
            self._active,
            self._gains_problem,
            self.trip,
            *((finding.name, finding.severity) for finding in current),
            *self._later_trips,
            refused and self._refusal,
        )
        if key == self._published and now - self._published_time < 1.0:
            return
        self._published, self._published_time = key, now
        self.target_refusal = self._refuse_targets() or ""
        names = {finding.name for finding in current}
        later = [finding for finding in self._later_trips.values() if finding.name not in names]
        self.warnings = (*map(str, current), *map(str, later), *([self._refusal] if refused else []))
