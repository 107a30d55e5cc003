"""All the checks of one robot, run once per cycle; the permission to recover, which relaxes some; the latched trip."""

import math
from collections.abc import Collection, Sequence
from logging import ERROR, INFO, WARNING
from typing import Literal

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import FcnetError
from fcnet_core.robot import Robot
from fcnet_core.rotation import tilt
from unitree_lowlevel.codec import JOINTS, LOW_LEVEL, MOTORS, SERVO, LowState
from unitree_lowlevel.safety.checks import (
    TILT,
    FallWatch,
    Finding,
    LoopWatch,
    RobotChecks,
    Severity,
    Sustained,
    VelocityWatch,
)
from unitree_lowlevel.safety.link import LinkWatch, PacketLoss, RemoteWatch, StateWatch
from unitree_lowlevel.transport import Reception, TransportCounters

IDENTITY = "identity"
BEGIN_TIME = 2.0  # [s] from the request for a recovery until the first targets
UPRIGHT_TIME = 0.5  # [s] upright, after which its permission ends
WARNING_DELAY = 0.5  # [s] before a warning is logged: the first state takes a while
WARNING_PAUSE = 10.0  # [s] in which an intermittent warning is logged once
RemoteLoss = Literal["hold", "stop"]  # effect of a remote that is lost while it drives: a warning, or a trip


class RecoveryPermit:
    """Permission for a fallen robot to turn over, see "Getting up" in docs/deployment.md.

    While it is `valid`, tilt is only a warning and the trunk may rotate faster. Times [s] are from the driver's cycles.
    It is granted for BEGIN_TIME. Targets that start within that time extend it until the robot has been upright for
    UPRIGHT_TIME, at most by max_time of the robot file. It ends when they end.

    exists: whether the robot file has a recovery. torque: fraction of the motors' torque limits that commands may use
    now. max_rate: of the trunk [rad/s], None for the usual one.
    """

    max_rate: float | None

    def __init__(self, robot: Robot) -> None:
        self.exists = robot.recovery is not None
        self._facts = robot.recovery
        self.end()

    def grant(self, now: float) -> None:
        """Permit targets to start."""
        assert self._facts is not None
        self.valid, self.max_rate, self._until = True, self._facts.max_rate, now + BEGIN_TIME

    def begin(self, now: float) -> None:
        """Extend the permission: targets have started."""
        if self.valid and self._facts:
            self.torque, self._until = self._facts.torque, now + self._facts.max_time
            self._running, self._upright = True, now

    def end(self) -> None:
        """Withdraw it."""
        self.valid, self.torque, self.max_rate = False, 1.0, None
        self._running, self._until, self._upright = False, -math.inf, math.inf

    def update(self, now: float, orientation: Array) -> None:
        """End it if its time is over or the orientation (4,) x, y, z, w is upright; NaN counts as tilted."""
        if not self.valid or self._facts is None:
            return
        if not tilt(orientation) <= self._facts.max_tilt:
            self._upright = now
        if now > self._until or (self._running and now - self._upright > UPRIGHT_TIME):
            self.end()


class SafetyMonitor:
    """All the checks of one robot.

    stop_chords: buttons of the remote that, pressed together, stop the robot. remote_lost: effect of a remote that is
    lost while it drives.

    A damped robot may be carried, turned over and moved by hand. Velocity, torque, power, joint error and falls are
    therefore checked only while joints follow targets. Motor modes too: a board may change them without stiffness. A
    permission to recover relaxes tilt and falls.
    """

    def __init__(
        self, robot: Robot, period: float, stop_chords: Collection[frozenset[str]], remote_lost: RemoteLoss
    ) -> None:
        safety = robot.safety
        self.checks = RobotChecks(robot)
        self.states = StateWatch(safety.state_timeout, safety.frozen_time)
        self.loss = PacketLoss(period)
        severity = Severity.WARNING if remote_lost == "hold" else Severity.TRIP_IF_FOLLOWING
        self.remote = RemoteWatch(safety.remote_timeout, severity)
        self._safety = safety
        self._stop_chords = tuple(stop_chords)
        self._link = LinkWatch()
        self._loop = LoopWatch(safety, period)
        self._mismatch = VelocityWatch(safety)
        self._fall = FallWatch(safety)
        self.recovery = RecoveryPermit(robot)
        times = (safety.servo_lost_time, safety.velocity_time, safety.power_time, safety.joint_error_time)
        self._motion = [Sustained(duration, period) for duration in (*times, safety.torque_time)]
        self.accept_robot()

    def begin_following(self) -> None:
        for sustained in self._motion:
            sustained.reset()
        self._fall.reset()

    def accept_robot(self) -> None:
        """Accept the sender of the next state as the robot."""
        self._identity: tuple[int, ...] | None = None
        self._other_robot: Finding | None = None
        self._in_servo_mode = np.zeros(MOTORS, dtype=bool)  # motors that have reported servo mode since then
        self._at_low_level = False  # whether the board has reported this level since then

    def inspect(
        self, now: float, reception: Reception | None, counters: TransportCounters, target: Array | None
    ) -> list[Finding]:
        """Return all findings at time `now` [s], the most severe first. target: (12,) [rad], None unless following."""
        self.states.target = target
        is_new, late = self.states.update(reception), self._loop.update(now)
        found: list[Finding | None] = [*self._link.check(now, counters)]
        problem = self.states.check(now, self._link.rejection)
        found += [problem, late]
        state = self.states.state
        if problem is not None:
            self.loss.reset()  # a gap has its own finding
        elif state is not None:
            self.loss.update(now, state.tick, counters)
        if state is not None:
            self.recovery.update(now, state.orientation)
            if is_new:
                self.remote.update(now, state.remote)
                self._take_sender(state)
                self._mismatch.update(now, state, self.states.rates)
                self._fall.update(now, state.angular_velocity)
            found += [
                self._check_stop(),
                self.remote.check(now),
                self._other_robot,
                self.checks.temperature(state.temperature),
                self.checks.tilt(state.orientation, self.recovery.valid),
                self.checks.position(state.position),
                self._mismatch.finding,
                self.loss.check(self._safety),
            ]
            if target is not None:
                found += self._check_motion(state, target)
        return sorted(filter(None, found), key=lambda finding: -finding.severity)

    def _take_sender(self, state: LowState) -> None:
        self._identity = state.identity if self._identity is None else self._identity
        self._other_robot = None
        if state.identity != self._identity:
            reason = (
                f"a robot with the identity {state.identity} responds instead of {self._identity}; leave one robot on "
                "this network, then reset"
            )
            self._other_robot = Finding(IDENTITY, reason, Severity.TRIP)

    def _check_stop(self) -> Finding | None:
        """Check for the emergency stop of the wireless remote: all buttons of one of the chords are pressed."""
        for chord in self._stop_chords:
            if chord and chord <= self.remote.state.buttons:
                return Finding("remote_stop", f"{' + '.join(sorted(chord))} is pressed on the remote", Severity.TRIP)
        return None

    def _check_motion(self, state: LowState, target: Array) -> list[Finding | None]:
        found = (
            self._check_servo(state),
            self.checks.velocity(state.velocity),
            self.checks.power(state.torque, state.velocity),
            self.checks.joint_error(target, state.position),
            self.checks.torque(state.torque),
        )
        lasting = [sustained.check(finding) for sustained, finding in zip(self._motion, found, strict=True)]
        return [*lasting, self._fall.check(self.recovery.max_rate)]

    def _check_servo(self, state: LowState) -> Finding | None:
        """Check for motors that have left servo mode, as one that cuts out does (too hot, without power).

        The modes that real boards report are unknown: motors that never report servo mode are not checked, nor is the
        level of a board that never reports the low one.
        """
        self._at_low_level |= state.level == LOW_LEVEL
        if self._at_low_level and state.level != LOW_LEVEL:
            reason = f"the board has left the low level ({LOW_LEVEL:#x}) and reports {state.level:#x}"
            return Finding("servo_lost", f"{reason}; end the vendor's programs, switch the robot off and on")
        in_servo_mode = state.mode == SERVO
        if in_servo_mode.all():
            self._in_servo_mode = in_servo_mode
            return None
        self._in_servo_mode |= in_servo_mode
        if not len(lost := np.flatnonzero(self._in_servo_mode & ~in_servo_mode)):
            return None
        others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        return Finding(
            "servo_lost",
            f"the motor of {JOINTS[lost[0]]}{others} has left its servo mode ({SERVO}) and reports "
            f"{state.mode[lost[0]]}; let it cool, check its connectors, switch the robot off and on",
        )


class Trips:
    """Latches the first trip until it is cleared; later ones are warnings. Collects events, and each warning once.

    latched: the finding that has tripped the motors, or None.
    """

    def __init__(self) -> None:
        self.latched: Finding | None = None
        self._later: dict[str, Finding] = {}
        self._events: list[tuple[int, str]] = []
        self._since: dict[str, float] = {}
        self._logged: dict[str, float] = {}

    def latch(self, finding: Finding) -> None:
        """Latch the first trip; keep another one as a warning."""
        if self.latched is None:
            self.latched = finding
            self._events.append((ERROR, f"tripped: {finding}; the joints are damped until reset"))
        elif finding.name != self.latched.name:
            self._later[finding.name] = finding

    def clear(self, findings: Sequence[Finding], tilt_allowed: bool) -> None:
        """Clear the trip. Raises FcnetError if its cause, or that of another trip, is among the findings."""
        assert self.latched is not None
        for finding in findings:
            remains = finding.name == self.latched.name and not (finding.name == TILT and tilt_allowed)
            if finding.name != IDENTITY and (remains or finding.severity is Severity.TRIP):
                raise FcnetError(f"cannot reset: {finding.reason}")
        self.latched = None
        self._later.clear()

    def others(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return the findings other than the latched one, then the later trips that are no longer found."""
        current = [finding for finding in findings if self.latched is None or finding.name != self.latched.name]
        names = {finding.name for finding in current}
        return current + [finding for name, finding in self._later.items() if name not in names]

    def log(self, text: str) -> None:
        """Add an event."""
        self._events.append((INFO, text))

    def warn(self, now: float, findings: Sequence[Finding]) -> None:
        """Add, at time `now` [s], the findings that have lasted WARNING_DELAY and are not logged yet."""
        present = {finding.name: finding for finding in findings}
        self._since = {name: self._since.get(name, now) for name in present}
        for name, since in self._since.items():
            if now - since < WARNING_DELAY:
                continue
            if now - self._logged.get(name, -math.inf) > WARNING_PAUSE:
                self._events.append((WARNING, str(present[name])))
            self._logged[name] = now

    def take_events(self) -> list[tuple[int, str]]:
        """Return the events since the last call, as (level of `logging`, text)."""
        taken, self._events = self._events, []
        return taken
