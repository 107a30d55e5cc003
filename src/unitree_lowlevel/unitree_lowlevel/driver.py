"""What the motors are told, decided every 2 ms: damping, or targets that have passed every check.

waiting -> damping (a state has come) -> following (targets) -> damping (no more targets, "damp");
any -> tripped (damping, latched), left only through reset.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES, Robot
from unitree_lowlevel.limiter import CommandLimiter, SoftStart, TargetRamp, damping_command
from unitree_lowlevel.messages import Array, LowCommand, LowState, RemoteState
from unitree_lowlevel.safety.checks import TARGET_JUMP, Finding, Severity, Trip, check_jump, check_start
from unitree_lowlevel.safety.monitor import SafetyMonitor
from unitree_lowlevel.safety.watches import IDENTITY
from unitree_lowlevel.transport import Reception, TransportCounters

LASTING = 0.5  # [s] before a warning is worth a line: the first state always takes a moment
SILENCE = 10.0  # [s] in which a warning that comes and goes is announced once


class Announcements:
    """Collects sentences until they are taken."""

    def __init__(self) -> None:
        self._sentences: list[str] = []
        self._since: dict[str, float] = {}
        self._announced: dict[str, float] = {}

    def say(self, sentence: str) -> None:
        """Announce something that has happened."""
        self._sentences.append(sentence)

    def warn(self, now: float, findings: Iterable[Finding]) -> None:
        """Announce, at time `now` [s], what has been found for a while and not been announced yet."""
        present = {finding.name: finding for finding in findings}
        self._since = {name: self._since.get(name, now) for name in present}
        for name, since in self._since.items():
            if now - since < LASTING:
                continue
            if now - self._announced.get(name, float("-inf")) > SILENCE:
                self._sentences.append(f"warning: {present[name]}")
            self._announced[name] = now

    def take(self) -> tuple[str, ...]:
        """Everything announced since the last call."""
        taken, self._sentences = tuple(self._sentences), []
        return taken


PERIOD = 0.002  # [s] of the motor board's own loop
EMERGENCY_STOP = "emergency_stop"
PATIENCE = 5  # cycles without targets before their age counts: after our own pause they get time to arrive
REFUSAL_MEMORY = 0.2  # [s] for which refused targets stay a warning
_NEVER = float("-inf")


class Phase(str, Enum):
    """What the motors are doing; only in FOLLOWING has any of them stiffness."""

    WAITING = "waiting"  # for a state of the robot
    DAMPING = "damping"
    FOLLOWING = "following"
    TRIPPED = "tripped"


@dataclass(frozen=True)
class Answer:
    """Whether a request was accepted, and a sentence for the person who made it."""

    accepted: bool
    sentence: str


@dataclass(frozen=True)
class JointTargets:
    """Position targets (12,) [rad] in JOINT_NAMES order and when they arrived [s, time.monotonic]."""

    position: Array
    time: float


class MotorDriver:
    """Stands between whoever sends targets and the motors.

    One thread calls `cycle` once per `period` [s]; everything else may be called from any thread. Times are those of
    time.monotonic. `stop_chords`: buttons of the remote that, pressed together, stop the robot. `obstacle`: why targets
    would not be followed now, in words, or nothing; renewed at once where its kind changes, else every second.
    """

    def __init__(
        self,
        robot: Robot,
        period: float = PERIOD,
        *,
        interpolation_time: float = 0.01,
        stop_chords: Collection[frozenset[str]] = (),
    ) -> None:
        self.phase = Phase.WAITING
        self.trip: Trip | None = None
        self.warnings: tuple[str, ...] = ()
        self.obstacle = ""
        self._robot = robot
        self._safety = robot.safety
        self._monitor = SafetyMonitor(robot, period, stop_chords)
        self._limits = self._monitor.limits
        self._limiter = CommandLimiter(robot, period)
        self._ramp = TargetRamp(interpolation_time)
        self._soft_start = SoftStart(robot.safety.soft_start, robot.gains.damping)
        self._damped = damping_command(robot)
        self._kp = np.full(len(JOINT_NAMES), robot.gains.kp)
        self._kd = np.full(len(JOINT_NAMES), robot.gains.kd)
        self._gains_problem: str | None = None
        self._active = False
        self._armed = False
        self._heard = _NEVER
        self._looks = 0
        self._now = _NEVER
        self._target: Array = robot.lie_pose
        self._findings: list[Finding] = []
        self._later: dict[str, Finding] = {}
        self._refusal, self._refused = "", _NEVER
        self._told: tuple[object, ...] = ()
        self._told_at = _NEVER
        self._announcements = Announcements()
        self._lock = threading.Lock()

    @property
    def active(self) -> bool:
        """Whether targets may be obeyed at all."""
        return self._active

    @property
    def state(self) -> LowState | None:
        """The newest valid state of the robot."""
        return self._monitor.states.state

    @property
    def remote(self) -> RemoteState:
        """The wireless remote, as the newest state says."""
        return self._monitor.remote

    @property
    def packet_loss(self) -> float | None:
        """Share of the packets that were lost in the last second; None while that is not known."""
        return self._monitor.loss.share

    def take_announcements(self) -> tuple[str, ...]:
        """What has happened since the last call and somebody should read: trips, warnings, changes of phase."""
        with self._lock:
            return self._announcements.take()

    def activate(self) -> None:
        """Let targets be obeyed, once there has been a "damp" or a silence of targets."""
        with self._lock:
            self._active, self._armed, self._heard, self._looks = True, False, self._now, 0

    def deactivate(self) -> None:
        """Damp, and obey no targets until `activate`."""
        with self._lock:
            self._active = self._armed = False
            self._let_go("deactivated: the joints are damped")

    def set_gains(self, kp: npt.ArrayLike, kd: npt.ArrayLike) -> str | None:
        """Use stiffness kp [Nm/rad] and damping kd [Nms/rad], numbers or (12,), when joints begin to follow.

        Returns why they are refused; then no targets are obeyed until acceptable gains come.
        """
        with self._lock:
            wanted_kp, wanted_kd = np.asarray(kp, dtype=np.float64), np.asarray(kd, dtype=np.float64)
            problem = self._refuse_gains(wanted_kp, wanted_kd)
            if problem is None:
                self._kp, self._kd = np.broadcast_to(wanted_kp, 12).copy(), np.broadcast_to(wanted_kd, 12).copy()
            if self.phase is not Phase.FOLLOWING:
                self._gains_problem = problem
            return problem

    def damp(self) -> None:
        """Let go of all targets; new ones may be followed at once."""
        with self._lock:
            self._heard = self._now
            self._let_go("damped, as commanded")
            self._armed = True

    def set_targets(self, targets: JointTargets) -> str | None:
        """Follow targets from the next cycle on; returns a sentence that says why not."""
        with self._lock:
            position = np.asarray(targets.position, dtype=np.float64)
            if position.shape != self._target.shape or not np.isfinite(position).all():
                return f"targets must be {len(JOINT_NAMES)} finite positions; these are ignored"
            position = np.minimum(np.maximum(position, self._limits.lower), self._limits.upper)
            since, self._heard, self._looks = targets.time - self._heard, targets.time, 0
            if self.phase is not Phase.FOLLOWING:
                return self._begin(position, targets.time)
            if problem := check_jump(self._limits, self._target, position, max(since, 0.0)):
                self._trip(Finding(TARGET_JUMP, problem, Severity.NO_FOLLOWING), targets.time)
                return problem
            self._aim(position, targets.time)
            return None

    def emergency_stop(self, reason: str) -> None:
        """Damp from the next cycle on, until reset."""
        with self._lock:
            self._trip(Finding(EMERGENCY_STOP, reason, Severity.ALWAYS), self._now)

    def reset(self, now: float) -> Answer:
        """Leave a trip whose cause has gone; the joints stay damped until a "damp" or a silence, then targets."""
        with self._lock:
            if self.trip is None:
                return Answer(True, "nothing to reset: the motors have not tripped")
            if problem := self._still_wrong(self.trip.name):
                return Answer(False, f"cannot reset: {problem}")
            if self.trip.name == IDENTITY:
                self._monitor.accept_robot()
            self.trip, self.phase = None, Phase.DAMPING
            self._later.clear()
            self._armed, self._heard, self._looks = False, now, 0
            self._announcements.say("reset: the joints are damped")
            return Answer(True, "reset: the joints are damped; targets are followed after a damp or a silence of them")

    def cycle(self, now: float, reception: Reception | None, counters: TransportCounters) -> LowCommand:
        """The command to send at time `now` [s], after what has arrived since the last cycle.

        Never raises for what a state holds.
        """
        with self._lock, np.errstate(all="ignore"):
            self._now = now
            self._looks += 1
            target = self._ramp.position(now) if self.phase is Phase.FOLLOWING else None
            self._findings = self._monitor.inspect(now, reception, counters, target)
            self._judge(now)
            self._tell(now)
            state = self._monitor.states.state
            if self.phase is not Phase.FOLLOWING or target is None or state is None:
                return self._damped
            kp, kd = self._soft_start.gains(self._kp, self._kd, now)
            return self._limiter.follow(target, state.position, kp, kd)

    def _judge(self, now: float) -> None:
        """Let what has been found, and how long nobody has sent targets, change the phase."""
        if self._heard == _NEVER:
            self._heard = now
        following = self.phase is Phase.FOLLOWING
        for finding in self._findings:
            if finding.severity is Severity.ALWAYS or (following and finding.severity is Severity.NO_FOLLOWING):
                self._trip(finding, now)
        silent = now - self._heard > self._safety.command_timeout and self._looks > PATIENCE
        if silent and self.phase is Phase.FOLLOWING:
            self._let_go(f"no targets for {now - self._heard:.2f} s: the joints are damped")
        if silent:
            self._armed = True
        if self.phase in (Phase.WAITING, Phase.DAMPING):
            self.phase = Phase.WAITING if self._monitor.states.missing(now) else Phase.DAMPING

    def _begin(self, target: Array, now: float) -> str | None:
        """Begin to follow; whoever is refused must damp or be silent first, so that nothing begins by itself later."""
        state = self._monitor.states.state
        problem = self._not_now() or (state and check_start(self._limits, state.position, target))
        if problem or state is None:
            self._armed = False
            self._refusal, self._refused = f"targets are not followed: {problem}", now
            return self._refusal
        self.phase = Phase.FOLLOWING
        self._limiter.start(state.position)
        self._ramp.start(self._limiter.last, now)
        self._soft_start.begin(now)
        self._monitor.begin_following()
        self._aim(target, now)
        self._announcements.say("following targets")
        return None

    def _not_now(self) -> str | None:
        """Why no targets may be followed, whatever they are."""
        if obstacle := self._find_obstacle():
            return obstacle
        if not self._armed:
            return f"a damp or {self._safety.command_timeout:g} s without targets must come first"
        return None

    def _find_obstacle(self) -> str | None:
        """What stands in the way of following, other than that it was asked for in the wrong order."""
        if self.trip is not None:
            return f"{self.trip.reason}; remove the cause, then reset"
        if not self._active:
            return "the bridge is not active; activate it"
        if blocking := next((f for f in self._findings if f.severity >= Severity.NO_FOLLOWING), None):
            return blocking.reason
        return self._gains_problem

    def _aim(self, target: Array, now: float) -> None:
        self._target = target
        self._ramp.aim(target, now)

    def _trip(self, finding: Finding, now: float) -> None:
        """Let go until reset; the first reason stays, later ones are warnings."""
        if self.trip is not None:
            if finding.name != self.trip.name:
                self._later[finding.name] = finding
            return
        self.trip, self.phase = Trip(finding.name, finding.reason, now), Phase.TRIPPED
        self._announcements.say(f"tripped: {self.trip}; the joints are damped until reset")

    def _let_go(self, why: str) -> None:
        if self.phase is Phase.FOLLOWING:
            self.phase = Phase.DAMPING
            self._announcements.say(why)

    def _still_wrong(self, name: str) -> str | None:
        """Why a trip cannot be left yet: its cause, or another that would trip again at once."""
        for finding in self._findings:
            if finding.name != IDENTITY and (finding.name == name or finding.severity is Severity.ALWAYS):
                return finding.reason
        return None

    def _tell(self, now: float) -> None:
        """Keep `warnings` up to date: at once where one comes or goes, slowly where only its numbers change."""
        current = [finding for finding in self._findings if self.trip is None or finding.name != self.trip.name]
        self._announcements.warn(now, current)
        refused = now - self._refused < REFUSAL_MEMORY
        kinds = (
            self._active,
            self._gains_problem,
            self.trip,
            *((finding.name, finding.severity) for finding in current),
            *self._later,
            refused and self._refusal,
        )
        if kinds == self._told and now - self._told_at < 1.0:
            return
        self._told, self._told_at = kinds, now
        self.obstacle = self._find_obstacle() or ""
        names = {finding.name for finding in current}
        later = [finding for finding in self._later.values() if finding.name not in names]
        self.warnings = (*map(str, current), *map(str, later), *([self._refusal] if refused else []))

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
        if self.phase is Phase.FOLLOWING and ((kp != self._kp).any() or (kd != self._kd).any()):
            return "gains change only while the joints are damped; damp first"
        return None
