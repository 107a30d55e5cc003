"""All the checks of one robot, run once per cycle."""

from __future__ import annotations

from collections.abc import Collection

from fcnet_core.robot import Robot
from unitree_lowlevel.messages import Array, LowState, RemoteState, decode_remote
from unitree_lowlevel.safety.checks import Finding, RobotChecks, check_remote
from unitree_lowlevel.safety.packet_loss import PacketLoss
from unitree_lowlevel.safety.watches import IdentityWatch, LinkWatch, ServoWatch, StateWatch, Sustained
from unitree_lowlevel.transport import Reception, TransportCounters


class SafetyMonitor:
    """Finds what is wrong with states, link and targets; what follows from its findings is decided by the driver.

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
        self._chords = tuple(stop_chords)
        self._identity = IdentityWatch()
        self._link = LinkWatch()
        self._servo = ServoWatch()
        self._servo_lost = Sustained(safety.servo_lost_time, period)
        self._velocity = Sustained(safety.velocity_time, period)
        self._power = Sustained(safety.power_time, period)
        self._error = Sustained(safety.joint_error_time, period)
        self._torque = Sustained(safety.torque_time, period)
        self._remote_bytes = b""
        self._other_robot: Finding | None = None

    def begin_following(self) -> None:
        """Forget what has been counted about joints that followed before."""
        for sustained in (self._servo_lost, self._velocity, self._power, self._error, self._torque):
            sustained.reset()

    def accept_robot(self) -> None:
        """Take the sender of the next state for the robot."""
        self._identity.reset()
        self._servo.reset()
        self._other_robot = None

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
            found += self._check_state(state, is_new)
            if target is not None:
                found += self._check_motion(state, target)
        findings = [finding for finding in found if finding is not None]
        return sorted(findings, key=lambda finding: -finding.severity)

    def _check_state(self, state: LowState, is_new: bool) -> list[Finding | None]:
        if is_new:
            if state.remote != self._remote_bytes:
                self._remote_bytes, self.remote = state.remote, decode_remote(state.remote)
            self._other_robot = self._identity.check(state.identity)
        return [
            check_remote(self._chords, self.remote.buttons),
            self._other_robot,
            self.checks.temperature(state.temperature),
            self.checks.tilt(state.orientation),
            self.checks.position(state.position),
            self.loss.check(self._safety),
        ]

    def _check_motion(self, state: LowState, target: Array) -> list[Finding | None]:
        checks = self.checks
        return [
            self._servo_lost.check(self._servo.check(state.mode)),
            self._velocity.check(checks.velocity(state.velocity)),
            self._power.check(checks.power(state.torque, state.velocity)),
            self._error.check(checks.joint_error(target, state.position)),
            self._torque.check(checks.torque(state.torque)),
        ]
