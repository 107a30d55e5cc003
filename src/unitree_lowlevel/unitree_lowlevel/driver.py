"""The motor driver computes the command of every 2 ms cycle: damping, or targets that have passed every check, as ramps
within the limits of positions, gains and torques.

waiting -> damping (a state has arrived) -> following (targets) -> damping (no new targets, "damp", a gap in the loop);
any -> tripped (damping, latched), left only by a reset. docs/inside.md has the table "Who damps, and when".
"""

import math
from collections.abc import Collection
from enum import Enum

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array
from fcnet_core.errors import FcnetError
from fcnet_core.robot import Robot
from unitree_lowlevel.codec import MOTORS, PERIOD, SERVO, LowCommand, LowState, damping_command
from unitree_lowlevel.safety.checks import TILT, Finding, Severity, TargetWatch, least_damping, require_drivable
from unitree_lowlevel.safety.monitor import BEGIN_TIME, IDENTITY, RemoteLoss, SafetyMonitor, Trips
from unitree_lowlevel.transport import Reception, TransportCounters

MOST_ARMED = 8  # sources; a further one replaces the source with the oldest damp
REFUSAL_MEMORY = 0.2  # [s] for which rejected targets remain a warning
_ZERO: Array = np.zeros(MOTORS)
_SERVO = np.full(MOTORS, SERVO, dtype=np.uint8)
_SMALLEST = 1e-6  # [rad, rad/s] replaces a smaller error or speed in a division


class DriverMode(str, Enum):
    """The mode of the motors; they are stiff only in FOLLOWING."""

    WAITING = "waiting"  # for a state of the robot
    DAMPING = "damping"
    FOLLOWING = "following"
    TRIPPED = "tripped"


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

    owner: the followed source, or "". refused: number of rejected commands. target_refusal: why no targets would be
    followed now, or "". It and warnings are updated in the cycle in which a finding appears or disappears, otherwise
    every second.
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
        self.warnings: tuple[str, ...] = ()
        self.target_refusal = ""
        self.owner = ""
        self.refused = 0
        self._safety, self._trips = robot.safety, Trips()
        self._monitor = SafetyMonitor(robot, period, stop_chords, remote_lost)
        self._recovery, self._allow_recovery = self._monitor.recovery, allow_recovery
        self._target_watch = TargetWatch(robot.safety)
        self._limiter = CommandLimiter(robot, period, interpolation_time)
        self._damped = damping_command(robot.damping)
        self._gains = robot.kp, robot.kd  # of the next start
        self._gains_problem: str | None = None
        self._active = False
        self._armed: dict[str, None] = {}  # sources, the newest damp last
        self._now = -math.inf  # of the newest cycle
        self._target_time = -math.inf  # arrival of the newest target that was followed
        self._target: Array = robot.rest_pose
        self._findings: list[Finding] = []
        self._refusal, self._refusal_time = "", -math.inf
        self._published: tuple[object, ...] = ()
        self._published_time = -math.inf

    @property
    def trip(self) -> Finding | None:
        """The finding that has latched damping."""
        return self._trips.latched

    @property
    def state(self) -> LowState | None:
        """The newest valid state of the robot."""
        return self._monitor.states.state

    @property
    def packet_loss(self) -> float | None:
        """Fraction of the packets lost in the last second; None while unknown."""
        return self._monitor.loss.share

    def take_events(self) -> list[tuple[int, str]]:
        """Return trips, warnings and changes of mode since the last call, as (level of `logging`, text)."""
        return self._trips.take_events()

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
        kp, kd = np.asarray(kp, dtype=np.float64), np.asarray(kd, dtype=np.float64)
        self._gains_problem = self._monitor.checks.gains(kp, kd)
        if self._gains_problem is None:
            before, self._gains = self._gains, (_ZERO + kp, _ZERO + kd)
            if self.mode is DriverMode.FOLLOWING and not np.array_equal(before, self._gains):
                self._trips.log("new gains are accepted: they apply when targets start the next time")
        return self._gains_problem

    def damp(self, source: str = "") -> str | None:
        """Stop following as `source` commands, and arm it. Return why it is rejected (another is followed), or None."""
        self._armed.pop(source, None)
        self._armed[source] = None
        if len(self._armed) > MOST_ARMED:
            del self._armed[next(iter(self._armed))]
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
        self._trips.log(f"a recovery may start within {BEGIN_TIME:g} s")
        return "the robot may turn over; request the controller to recover"

    def reset(self, now: float) -> str:
        """Clear a trip whose cause is gone; return a message for the user. Raises FcnetError if the cause remains.

        The joints stay damped until a "damp", then targets. A tilted robot may be reset if a recovery is allowed, which
        must then be requested.
        """
        if self.trip is None:
            return "nothing to reset: the motors have not tripped"
        is_other_robot = self.trip.name == IDENTITY
        self._trips.clear(self._findings, self._allow_recovery)
        if is_other_robot:
            self._monitor.accept_robot()
        self.mode = DriverMode.DAMPING
        self._armed.clear()
        self._trips.log("reset: the joints are damped")
        return "reset: the joints are damped; targets are followed after a damp"

    def cycle(self, now: float, reception: Reception | None, counters: TransportCounters) -> LowCommand:
        """Return the command to send at time `now` [s], given the state received since the last cycle, if any.

        Does not raise for any content of a state.
        """
        with np.errstate(all="ignore"):
            self._stop_late(now)
            target = self._limiter.target(now) if self.mode is DriverMode.FOLLOWING else None
            self._findings = self._monitor.inspect(now, reception, counters, target)
            least = Severity.TRIP if target is None else Severity.TRIP_IF_FOLLOWING
            for finding in self._findings:
                if finding.severity >= least:
                    self._trip(finding)
            if self.mode in (DriverMode.WAITING, DriverMode.DAMPING):
                self.mode = DriverMode.WAITING if self._monitor.states.is_stale(now) else DriverMode.DAMPING
            self._publish_findings(now)
            if self.mode is not DriverMode.FOLLOWING or target is None or (state := self.state) is None:
                return self._damped
            return self._limiter.command(target, state.position, state.velocity, now, self._recovery.torque)

    def _stop_late(self, now: float) -> None:
        gap, self._now = now - self._now, now
        if self._safety.max_cycle_gap < gap < math.inf:
            self._armed.clear()
            self._stop_following(f"this loop was stopped for {gap:.2f} s: damped; a damp must come first")
        self._target_time = min(self._target_time, now)
        if (age := now - self._target_time) > self._safety.command_timeout:
            self._stop_following(f"no targets for {age:.2f} s: damped; a damp must come first")

    def _refuse_intruder(self, command: str, source: str) -> str | None:
        if self.mode is not DriverMode.FOLLOWING or source == self.owner:
            return None
        return (
            f"the robot follows {_words(self.owner)}; {command} of {_words(source)} are rejected until that one damps "
            "or stops sending"
        )

    def _begin_following(self, target: Array, source: str) -> str | None:
        if refusal := self._refuse_everyone():
            return refusal
        if source not in self._armed:
            return f"a damp of {_words(source)} must come first"
        if (state := self.state) is None:
            return "no state has arrived"
        if refusal := self._monitor.checks.first_target(state.position, target):
            return refusal
        self.mode, self.owner = DriverMode.FOLLOWING, source
        self._target_time = -math.inf
        self._armed.pop(source)
        self._recovery.begin(self._now)
        self._limiter.start(state.position, *self._gains, self._now)
        self._target_watch.reset()
        self._monitor.begin_following()
        self._trips.log(f"following targets of {_words(source)}")
        return None

    def _stop_following(self, reason: str) -> None:
        if self.mode is DriverMode.FOLLOWING:
            self.mode, self.owner = DriverMode.DAMPING, ""
            self._recovery.end()
            self._trips.log(reason)

    def _trip(self, finding: Finding) -> None:
        if self.trip is None:
            self.mode, self.owner = DriverMode.TRIPPED, ""
            self._recovery.end()
            self._armed.clear()
        self._trips.latch(finding)

    def _refuse_everyone(self, but: str = "") -> str | None:
        """Return why no source's targets may start now, or None; `but` names a finding to ignore."""
        if self.trip is not None:
            return f"{self.trip.reason}; remove the cause, then reset"
        if not self._active:
            return "the bridge is not active; activate it"
        blocking = [f for f in self._findings if f.severity >= Severity.TRIP_IF_FOLLOWING and f.name != but]
        return blocking[0].reason if blocking else self._gains_problem

    def _publish_findings(self, now: float) -> None:
        """Update `warnings` and `target_refusal`: immediately after a change of the findings, else every second."""
        findings = self._trips.others(self._findings)
        self._trips.warn(now, findings)
        refused = now - self._refusal_time < REFUSAL_MEMORY
        driver = (self.mode, self._active, bool(self._armed), self._gains_problem, self.trip)
        key = (driver, refused and self._refusal, *((finding.name, finding.severity) for finding in findings))
        if key == self._published and now - self._published_time < 1.0:
            return
        self._published, self._published_time = key, now
        self.target_refusal = "" if self.mode is DriverMode.FOLLOWING else self._refuse_everyone() or ""
        if self.mode is DriverMode.DAMPING and not (self.target_refusal or self._armed):
            self.target_refusal = "a damp must come first"
        self.warnings = (*map(str, findings), *([self._refusal] if refused else []))


def _words(source: str) -> str:
    return source or "an unnamed source"


class CommandLimiter:
    """Computes a command every `period` [s] from targets at 50 to 200 Hz. Positions are (12,) [rad], times [s].

    - A linear ramp leads from one target to the next. It takes as long as the interval between the last two targets, at
      most `longest_ramp` [s]: longer ramps are smoother and later.
    - Positions stay within the limits of each side and change no faster than the robot's slew.
    - Gains start with zero stiffness and the holding damping, and stay below the robot's bounds. Damping is never below
      `least_damping`.
    - The torque that spring and damper together command at the measured joints is within a share of the motors' limits.
      Damping is lowered first, down to the limit; stiffness gets the rest.
    """

    def __init__(self, robot: Robot, period: float, longest_ramp: float) -> None:
        self._robot = robot
        self._step = robot.safety.max_target_rate * period
        self._longest_ramp = longest_ramp
        self._damped = damping_command(robot.damping)
        self.start(robot.rest_pose, self._damped.stiffness, self._damped.damping, 0.0)

    def start(self, position: Array, kp: Array, kd: Array, now: float) -> None:
        """Start softly at measured joint positions, clipped to the limits.

        kp [Nm/rad] and kd [Nms/rad], each (12,), are the gains after the soft start, clipped to the robot's bounds.
        """
        safety = self._robot.safety
        self._last = self._from = self._to = np.minimum(np.maximum(position, self._robot.lower), self._robot.upper)
        self._started, self._aimed, self._duration = now, now - self._longest_ramp, 0.0
        self._kp = np.minimum(np.maximum(kp, 0.0), safety.max_kp)
        self._least = least_damping(self._robot, self._kp)
        self._kd = np.minimum(np.maximum(kd, self._least), safety.max_kd)

    def aim(self, target: Array, now: float) -> None:
        """Start a ramp from its current position to a new target."""
        apart = now - self._aimed
        self._from, self._to = self.target(now), target
        self._aimed, self._duration = now, min(apart, self._longest_ramp)

    def target(self, now: float) -> Array:
        """Return the position of the ramp."""
        elapsed = max(now - self._aimed, 0.0)
        if elapsed >= self._duration:
            return self._to
        return self._from + elapsed / self._duration * (self._to - self._from)

    def command(self, target: Array, measured: Array, velocity: Array, now: float, share: float = 1.0) -> LowCommand:
        """Return the command towards `target`, a position of the ramp, for joints at `measured` with `velocity`; share:
        of the torque limits. Non-finite input gives the damping command.
        """
        position = np.minimum(np.maximum(target, self._last - self._step), self._last + self._step)
        position = np.minimum(np.maximum(position, self._robot.lower), self._robot.upper)
        kp, kd = self._gains(now)
        error, torque = position - measured, share * self._robot.torque_limit
        if not (kp * np.abs(error) + kd * np.abs(velocity) <= torque).all():
            kp, kd = self._within_torque(kp, kd, error, velocity, torque)
        if not math.isfinite(float((position + kp + kd).sum())):
            return self._damped
        self._last = position
        return LowCommand(_SERVO, position, _ZERO, _ZERO, kp, kd)

    def _gains(self, now: float) -> tuple[Array, Array]:
        """Return stiffness and damping, each (12,), during or after the soft start."""
        share = max((now - self._started) / self._robot.safety.soft_start, 0.0)
        if share >= 1.0:
            return self._kp, self._kd
        holding = self._damped.damping
        return share * self._kp, np.maximum(holding + share * (self._kd - holding), self._least)

    def _within_torque(self, kp: Array, kd: Array, error: Array, velocity: Array, torque: Array) -> tuple[Array, Array]:
        """Return gains of at most kp and kd so that spring and damper together stay within `torque` (12,) [Nm].

        Each one stays within the limits. If a joint moves away from its target, both act in the same direction: the
        spring gets the rest that the damper leaves.
        """
        speed = np.maximum(np.abs(velocity), _SMALLEST)
        kd = np.minimum(kd, np.maximum(torque / speed, self._least))
        left = np.where(error * velocity < 0.0, np.maximum(torque - kd * speed, 0.0), torque)
        return np.minimum(kp, left / np.maximum(np.abs(error), _SMALLEST)), kd
