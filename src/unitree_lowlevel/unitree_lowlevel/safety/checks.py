"""Checks of joints, trunk and targets against the limits of one robot; what fails is a Finding.

Joint arrays are (12,) in JOINT_NAMES order: positions [rad], velocities [rad/s], torques [Nm].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import JOINT_NAMES, Robot, Safety

MISMATCH_WINDOW = 0.1  # [s] over which velocities are compared with positions, a quarter of a stride
MISMATCH_SHARE = 0.5  # of the distance that is accepted on top: a simulated robot may be slower than the clock
LATENESS_WINDOW = 1.0  # [s] over which the loop's lateness is averaged
LONGEST_STEP = 0.02  # [s] between two states; over more the motion between them is not known
TILT = "tilt"
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

    def tilt(self, orientation: Array, permitted: bool = False) -> Finding | None:
        """The trunk's z axis, from the orientation (4,) x, y, z, w, too far from the vertical; where that is permitted,
        a warning.
        """
        x, y, _, _ = orientation.tolist()
        tilt, limit = math.acos(min(1.0, max(-1.0, 1.0 - 2.0 * (x * x + y * y)))), self._safety.max_tilt
        if tilt <= limit:
            return None
        severity = Severity.WARNING if permitted else Severity.TRIP_IF_FOLLOWING
        return Finding(
            "tilt", f"the robot is tilted by {tilt:.2f} rad, the limit is {limit:g} rad; set it on its belly", severity
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


class TargetWatch:
    """Checks how fast targets move: each step, and over time.

    Two targets may arrive at once, so a step of max_target_jump is accepted on top of the slew. Over time the way of
    each joint's targets, there and back, may be mean_target_rate, and max_target_path more than that.
    """

    def __init__(self, safety: Safety) -> None:
        self._safety = safety
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self._path: Array = np.zeros(len(JOINT_NAMES))

    def check(self, last: Array, target: Array, elapsed: float) -> Finding | None:
        """What is wrong with targets that come `elapsed` [s] after the last ones."""
        jump, safety = np.abs(target - last), self._safety
        self._path = np.maximum(self._path - safety.mean_target_rate * elapsed, 0.0) + jump
        accepted = safety.max_target_jump + safety.max_target_rate * elapsed
        if (worst := _beyond(jump, accepted)) is not None:
            return Finding(
                "target_jump",
                f"the target of {JOINT_NAMES[worst]} jumped by {jump[worst]:.2f} rad in {elapsed * 1e3:.0f} ms, "
                f"accepted are {accepted:.2f} rad; look at who sends joint_trajectory",
            )
        if (worst := _beyond(self._path, safety.max_target_path)) is not None:
            return Finding(
                "target_rate",
                f"the target of {JOINT_NAMES[worst]} keeps moving by more than {safety.mean_target_rate:g} rad/s; look "
                "at who sends joint_trajectory",
            )
        return None


class VelocityWatch:
    """Compares measured velocities with the distances between measured positions, over MISMATCH_WINDOW [s].

    One window that differs passes; two in a row do not, nor does every other one.
    """

    def __init__(self, safety: Safety) -> None:
        self._limit = safety.max_velocity_mismatch
        self._score = 0  # two more for each window that differs, one less for each that does not
        self._finding: Finding | None = None
        self._start = self._time = _NEVER
        self._position = self._way = np.zeros(len(JOINT_NAMES))

    def update(self, now: float, position: Array, velocity: Array) -> None:
        """Take a new state that arrived at time `now` [s]."""
        step, self._time = now - self._time, now
        if step > LONGEST_STEP:
            self._restart(now, position)
            return
        self._way = self._way + step * velocity
        if now - self._start >= MISMATCH_WINDOW:
            excess = np.abs(position - self._position - self._way) - MISMATCH_SHARE * np.abs(self._way)
            worst = _beyond(excess, self._limit)
            self._score = max(self._score - 1, 0) if worst is None else min(self._score + 2, 4)
            self._finding = None if worst is None or self._score < 4 else self._mismatch(worst, position)
            self._restart(now, position)

    def check(self) -> Finding | None:
        """What the newest windows have shown."""
        return self._finding

    def _restart(self, now: float, position: Array) -> None:
        self._start, self._position, self._way = now, position, np.zeros(len(JOINT_NAMES))

    def _mismatch(self, worst: int, position: Array) -> Finding:
        moved = position[worst] - self._position[worst]
        return Finding(
            "velocity_mismatch",
            f"{JOINT_NAMES[worst]} moved by {moved:.2f} rad in {MISMATCH_WINDOW:g} s, its velocities say "
            f"{self._way[worst]:.2f} rad; a sensor of this joint is broken: run the doctor",
        )


class FallWatch:
    """Watches how fast the trunk turns about its horizontal axes, as a moving average over fall_rate_time.

    It reports a fall before the tilt is too large, and without an orientation.
    """

    def __init__(self, safety: Safety) -> None:
        self._limit, self._duration = safety.max_fall_rate, safety.fall_rate_time
        self._time = _NEVER
        self.reset()

    def reset(self) -> None:
        """Forget the past."""
        self._roll = self._pitch = 0.0

    def update(self, now: float, angular_velocity: Array) -> None:
        """Take the angular velocity (3,) [rad/s] of a new state that arrived at time `now` [s]."""
        step, self._time = now - self._time, now
        weight = min(min(step, LONGEST_STEP) / self._duration, 1.0)
        roll, pitch, _ = angular_velocity.tolist()
        self._roll += weight * (roll - self._roll)
        self._pitch += weight * (pitch - self._pitch)

    def check(self, limit: float | None = None) -> Finding | None:
        """A fall at the newest state, with another limit [rad/s] than the usual one where it is given."""
        if (rate := math.hypot(self._roll, self._pitch)) <= (limit or self._limit):
            return None
        return Finding("fall_rate", f"the robot falls: it turns over with {rate:.1f} rad/s; set it on its belly")


class LoopWatch:
    """Watches how late the cycles of the driver's own loop are, as a moving average over LATENESS_WINDOW [s].

    Each cycle counts for as long as it took: the average is how much too old a command is. A pause beyond
    max_cycle_gap, after which nothing is followed anyway, begins anew.
    """

    def __init__(self, safety: Safety, period: float) -> None:
        self._limit, self._longest, self._period = safety.max_loop_lateness, safety.max_cycle_gap, period
        self._time = _NEVER
        self._late = 0.0

    def update(self, now: float) -> None:
        """Count one more cycle, at time `now` [s]."""
        gap, self._time = now - self._time, now
        if gap > self._longest:
            self._late = 0.0
        else:
            self._late += min(gap / LATENESS_WINDOW, 1.0) * (gap - self._period - self._late)

    def check(self) -> Finding | None:
        """Lateness that lasts."""
        if self._late <= self._limit:
            return None
        return Finding(
            "loop_late",
            f"commands are {1e3 * self._late:.0f} ms late on average; end other programs, or permit the bridge "
            "real-time priority",
        )
