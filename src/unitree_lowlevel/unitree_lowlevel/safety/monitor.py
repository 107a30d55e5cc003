"""All the checks of one robot, asked once per cycle."""

from __future__ import annotations

from collections.abc import Collection

from fcnet_core.robot import Robot
from unitree_lowlevel.messages import Array, LowState, RemoteState, decode_remote
from unitree_lowlevel.safety.checks import (
    JOINT_ERROR,
    JOINT_POSITION,
    JOINT_TORQUE,
    JOINT_VELOCITY,
    MOTOR_POWER,
    TILT,
    Finding,
    Severity,
    check_joint_error,
    check_position,
    check_power,
    check_remote,
    check_temperature,
    check_tilt,
    check_torque,
    check_velocity,
    limits_of,
)
from unitree_lowlevel.safety.packet_loss import PacketLoss
from unitree_lowlevel.safety.watches import SERVO_LOST, IdentityWatch, LinkWatch, ServoWatch, StateWatch, Sustained
from unitree_lowlevel.transport import Reception, TransportCounters


class SafetyMonitor:
    """Looks at states and targets; what follows from its findings is decided by the driver.

    A robot that is only damped may be carried, turned over and moved by hand, so that velocity, torque, power and
    joint error count only while joints follow targets; so do motor modes, which a board may change without stiffness.
    """

    def __init__(self, robot: Robot, period: float, stop_chords: Collection[frozenset[str]]) -> None:
        safety = robot.safety
        self.limits = limits_of(robot)
        self.states = StateWatch(safety.state_timeout, safety.frozen_time)
        self.loss = PacketLoss(period)
        self.remote = RemoteState()
        self._chords = tuple(stop_chords)
        self._identity = IdentityWatch()
        self._link = LinkWatch()
        self._velocity = Sustained(safety.velocity_time, period)
        self._torque = Sustained(safety.torque_time, period)
        self._power = Sustained(safety.power_time, period)
        self._error = Sustained(safety.joint_error_time, period)
        self._servo = ServoWatch()
        self._servo_lost = Sustained(safety.servo_lost_time, period)
        self._remote_bytes = b""
        self._other_robot: Finding | None = None

    def begin_following(self) -> None:
        """Forget what has been counted about joints that followed before."""
        for sustained in (self._velocity, self._torque, self._power, self._error, self._servo_lost):
            sustained.reset()

    def accept_robot(self) -> None:
        """Take whoever answers next for the robot."""
        self._identity.reset()
        self._servo.reset()
        self._other_robot = None

    def inspect(
        self, now: float, reception: Reception | None, counters: TransportCounters, target: Array | None
    ) -> list[Finding]:
        """Everything that is wrong at time `now` [s], the gravest first; target (12,) [rad] while joints follow."""
        new = self.states.see(reception)
        self._link.see(now, counters)
        state = self.states.state
        findings = self._link.check(now, counters)
        problem = self.states.check(now, self._link.rejection(now, counters))
        if problem is not None:
            findings.append(problem)
            self.loss.reset()  # a gap has a name of its own
        elif state is not None:
            self.loss.see(now, state.tick, self.states.live_repeats, counters)
        if state is not None:
            findings += self._about_state(state, new)
            if target is not None:
                findings += self._about_motion(state, target)
        findings.sort(key=_gravest_first)
        return findings

    def _about_state(self, state: LowState, new: bool) -> list[Finding]:
        limits = self.limits
        if new:
            if state.remote != self._remote_bytes:
                self._remote_bytes, self.remote = state.remote, decode_remote(state.remote)
            self._other_robot = self._identity.check(state.identity)
        return [
            finding
            for finding in (
                check_remote(self._chords, self.remote.buttons),
                self._other_robot,
                check_temperature(limits, state.temperature),
                _stops(TILT, check_tilt(limits, state.orientation)),
                _stops(JOINT_POSITION, check_position(limits, state.position)),
                self.loss.check(limits),
            )
            if finding is not None
        ]

    def _about_motion(self, state: LowState, target: Array) -> list[Finding]:
        limits = self.limits
        velocity = check_velocity(limits, state.velocity)
        torque = check_torque(limits, state.torque)
        power = check_power(limits, state.torque, state.velocity)
        error = check_joint_error(limits, target, state.position)
        servo_lost = self._servo.check(state.mode)
        return [
            finding
            for finding in (
                _stops(SERVO_LOST, self._servo_lost.check(servo_lost)),
                _stops(JOINT_VELOCITY, self._velocity.check(velocity)),
                _stops(MOTOR_POWER, self._power.check(power)),
                _stops(JOINT_ERROR, self._error.check(error)),
                _stops(JOINT_TORQUE, self._torque.check(torque)),
            )
            if finding is not None
        ]


def _stops(name: str, reason: str | None) -> Finding | None:
    return None if reason is None else Finding(name, reason, Severity.NO_FOLLOWING)


def _gravest_first(finding: Finding) -> int:
    return -finding.severity
