"""Checks of joints, trunk and targets against the limits of one robot. A failed check is a Finding.

Joint arrays are (12,) in the order of codec.JOINTS: positions [rad], velocities [rad/s], torques [Nm].
"""

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import FcnetError
from fcnet_core.observation import SensorReading
from fcnet_core.robot import Robot, Safety
from fcnet_core.rotation import product, tilt
from unitree_lowlevel.codec import DAMPING_STEP, JOINTS, MOTORS

MISMATCH_WINDOW = 0.1  # [s] over which velocities are compared with positions, a quarter of a stride
MISMATCH_SHARE = 0.5  # fraction of the distance, accepted in addition: a simulated robot may be slower than the clock
LATENESS_WINDOW = 1.0  # [s] over which the loop's lateness is averaged
LONGEST_STEP = 0.02  # [s] between two states; the motion over a longer gap is unknown
JUMP = 0.5  # [rad] of a joint, found in a single window; a turn of the motor, which has the encoder, is about 0.69
COLDEST = -40.0  # [deg C] of a working motor; a value below is a broken sensor, or above the wire's 127
TILT = "tilt"
_INVERSE = np.array([-1.0, -1.0, -1.0, 1.0])  # times a unit quaternion
_TURNING = (*JOINTS, *(f"the trunk about its {axis} axis" for axis in "xyz"))


class Severity(IntEnum):
    """The effect of a finding."""

    WARNING = 0
    TRIP_IF_FOLLOWING = 1  # latches damping while joints follow targets; otherwise blocks the start of following
    TRIP = 2  # latches damping in any mode


@dataclass(frozen=True, eq=False)  # a second trip with the same text is another trip
class Finding:
    """A failed check: its name, and the reason with the action to take."""

    name: str
    reason: str
    severity: Severity = Severity.TRIP_IF_FOLLOWING

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def require_drivable(robot: Robot) -> None:
    """Check that a motor board can drive this robot: its 12 joints in the order on the wire, and every threshold.

    Raises FcnetError. This is the only place that maps joints of a robot to motors.
    """
    if robot.joint_names != JOINTS:
        found = sorted(set(JOINTS) ^ set(robot.joint_names))
        differs = f"{', '.join(found)} differ" if found else "their order differs"
        raise FcnetError(
            f"the motor board drives the {MOTORS} joints {JOINTS[0]} to {JOINTS[-1]}; in the file of the {robot.name} "
            f"{differs}; name its joints in the order of config/robots/aliengo.yaml"
        )
    if missing := robot.safety.unwatched:
        raise FcnetError(
            f"the robot file of the {robot.name} does not give safety.{', safety.'.join(missing)}; a real robot "
            "needs every threshold, so add them"
        )


class RobotChecks:
    """Stateless checks against the limits of one robot. Each returns a Finding, or None if the check passes."""

    def __init__(self, robot: Robot) -> None:
        self.lower, self.upper = robot.lower, robot.upper
        self._velocity_limit, self._torque_limit = robot.velocity_limit, robot.torque_limit
        self._robot, self._safety = robot, robot.safety

    def position(self, position: Array) -> Finding | None:
        """Check that measured positions (12,) [rad] exceed the limits of their side by no more than the margin."""
        lower, upper = self.lower, self.upper
        if (worst := _beyond(np.maximum(lower - position, position - upper), self._safety.position_margin)) is None:
            return None
        return Finding(
            "joint_position",
            f"{JOINTS[worst]} is at {position[worst]:.2f} rad, its limits are {lower[worst]:g} to "
            f"{upper[worst]:g} rad; move the leg by hand, or is this another robot?",
        )

    def velocity(self, velocity: Array) -> Finding | None:
        """Check measured velocities (12,) [rad/s] against a fraction of the motors' limits."""
        if (worst := _beyond(np.abs(velocity) / self._velocity_limit, self._safety.max_velocity)) is None:
            return None
        return Finding(
            "joint_velocity",
            f"{JOINTS[worst]} turns at {velocity[worst]:.1f} rad/s, the limit is "
            f"{self._safety.max_velocity * self._velocity_limit[worst]:.1f}; look for shaking joints (gains, policy)",
        )

    def torque(self, torque: Array) -> Finding | None:
        """Check estimated torques (12,) [Nm] against a fraction of the motors' limits: an excess heats them."""
        if (worst := _beyond(np.abs(torque) / self._torque_limit, self._safety.max_torque)) is None:
            return None
        return Finding(
            "joint_torque",
            f"{JOINTS[worst]} gives {torque[worst]:.1f} Nm of its {self._torque_limit[worst]:g} Nm "
            "continuously; free the leg or lighten the robot",
        )

    def power(self, torque: Array, velocity: Array) -> Finding | None:
        """Check the sum of |torque x velocity| [W], as the vendor's PowerProtect does, which exits the process."""
        power, limit = float(np.abs(torque * velocity).sum()), self._safety.max_power
        reason = f"the motors convert {power:.0f} W, the limit is {limit:g} W; look for shaking joints"
        return None if power <= limit else Finding("motor_power", reason)

    def joint_error(self, target: Array, position: Array) -> Finding | None:
        """Check the distance of measured positions (12,) [rad] from their targets."""
        error, limit = np.abs(target - position), self._safety.max_joint_error
        if (worst := _beyond(error, limit)) is None:
            return None
        return Finding(
            "joint_error",
            f"{JOINTS[worst]} is {error[worst]:.2f} rad from its target, the limit is {limit:g} rad; look for a "
            "blocked leg or a motor without power",
        )

    def temperature(self, temperature: Array) -> Finding | None:
        """Check motor temperatures (12,) [deg C] against the warning and the trip threshold."""
        limit, worst = self._safety.max_temperature, int(temperature.argmax())
        if (hottest := float(temperature[worst])) < self._safety.temperature_warning:
            worst = int(temperature.argmin())
            if (coldest := float(temperature[worst])) >= COLDEST:
                return None
            reason = f"the motor of {JOINTS[worst]} reports {coldest:.0f} C: the true one is unknown; check its sensor"
            return Finding("temperature", reason, Severity.WARNING)
        reason = f"the motor of {JOINTS[worst]} has {hottest:.0f} C, the limit is {limit:g} C"
        if hottest < limit:
            return Finding("temperature", f"{reason}; rest soon", Severity.WARNING)
        return Finding("temperature", f"{reason}; let it cool", Severity.TRIP)

    def tilt(self, orientation: Array, permitted: bool = False) -> Finding | None:
        """Check the tilt of the trunk with this orientation (4,) x, y, z, w. A permitted tilt is only a warning."""
        angle, limit = float(tilt(orientation)), self._safety.max_tilt
        if angle <= limit:
            return None
        severity = Severity.WARNING if permitted else Severity.TRIP_IF_FOLLOWING
        reason = f"the robot is tilted by {angle:.2f} rad, the limit is {limit:g} rad; set it on its belly"
        return Finding("tilt", reason, severity)

    def first_target(self, position: Array, target: Array) -> str | None:
        """Return why first targets (12,) [rad] are rejected: too far from the measured positions. None if accepted."""
        distance, limit = np.abs(target - position), self._safety.max_start_error
        if (worst := _beyond(distance, limit)) is None:
            return None
        return (
            f"the first target of {JOINTS[worst]} is {distance[worst]:.2f} rad away, the limit is {limit:g} rad; "
            "damp, then start at the measured positions"
        )

    def gains(self, kp: Array, kd: Array) -> str | None:
        """Return why stiffness kp [Nm/rad] and damping kd [Nms/rad], () or (12,), are rejected; None if accepted."""
        for name, unit, gains, limit in (
            ("kp", "Nm/rad", kp, self._safety.max_kp),
            ("kd", "Nms/rad", kd, self._safety.max_kd),
        ):
            if gains.shape not in ((), self.lower.shape):
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


def least_damping(robot: Robot, kp: Array) -> Array:
    """Return the minimum damping (12,) [Nms/rad] for stiffness kp (12,) [Nm/rad], in whole steps of the wire.

    It is min_damping_ratio times the critical damping of the rotor, which is the minimum inertia of a joint.
    """
    least = 2.0 * robot.safety.min_damping_ratio * np.sqrt(robot.armature * kp)
    return np.ceil(least / DAMPING_STEP) * DAMPING_STEP


def _beyond(values: Array, limit: float) -> int | None:
    """Return the joint with the maximum value if it exceeds the limit, else None."""
    worst = int(values.argmax())
    return None if values[worst] <= limit else worst


class Sustained:
    """Reports a finding only after it has lasted longer than `duration` [s]: impacts are ignored, faults are reported.

    The counter rises with a finding and falls without, so shaking around a threshold also counts.
    """

    def __init__(self, duration: float, period: float) -> None:
        self._longest = round(duration / period)
        self._count = 0

    def reset(self) -> None:
        self._count = 0

    def check(self, finding: Finding | None) -> Finding | None:
        """Count one more period; return its finding if the duration is exceeded."""
        self._count = max(self._count - 1, 0) if finding is None else self._count + 1
        return finding if self._count > self._longest else None


class TargetWatch:
    """Checks how fast targets move: each step, and the mean rate.

    Two targets may arrive together, so a step of max_target_jump is accepted in addition to the slew. The path
    length of each joint's targets may exceed mean_target_rate * time by max_target_path.
    """

    def __init__(self, safety: Safety) -> None:
        self._safety = safety
        self.reset()

    def reset(self) -> None:
        self._path: Array = np.zeros(MOTORS)

    def check(self, last: Array, target: Array, elapsed: float) -> Finding | None:
        """Check targets (12,) [rad] that arrive `elapsed` [s] after the last ones."""
        jump, safety = np.abs(target - last), self._safety
        self._path = np.maximum(self._path - safety.mean_target_rate * elapsed, 0.0) + jump
        accepted = safety.max_target_jump + safety.max_target_rate * elapsed
        if (worst := _beyond(jump, accepted)) is not None:
            return Finding(
                "target_jump",
                f"the target of {JOINTS[worst]} jumped by {jump[worst]:.2f} rad in {elapsed * 1e3:.0f} ms, "
                f"the limit is {accepted:.2f} rad; check the sender of joint_trajectory",
            )
        if (worst := _beyond(self._path, safety.max_target_path)) is not None:
            return Finding(
                "target_rate",
                f"the target of {JOINTS[worst]} keeps moving by more than {safety.mean_target_rate:g} rad/s; "
                "check the sender of joint_trajectory",
            )
        return None


class VelocityWatch:
    """Compares integrated velocities with changes of position, and the gyro with changes of the orientation, over
    windows of MISMATCH_WINDOW [s].

    Two contradicting windows in a row are a finding, a single one is not, unless a joint has jumped by JUMP;
    alternating ones also become one. finding: of the newest windows.
    """

    def __init__(self, safety: Safety) -> None:
        self._limit = safety.max_velocity_mismatch
        self._score = 0  # two more for each window that differs, one less for each that does not
        self.finding: Finding | None = None
        self._start = self._time = -math.inf
        self._way = np.zeros(len(_TURNING))
        self._first: SensorReading | None = None

    def update(self, now: float, state: SensorReading, rates: Array) -> None:
        """Add a new state that arrived at time `now` [s]; rates (15,): its velocities, then its gyro [rad/s]."""
        step, self._time = now - self._time, now
        if step <= LONGEST_STEP and self._first is not None:
            self._way = self._way + step * rates
            if now - self._start < MISMATCH_WINDOW:
                return
            turn = product(self._first.orientation * _INVERSE, state.orientation)
            turned = 2.0 * np.sign(turn[3]) * turn[:3]  # [rad], of a small rotation
            self._compare(np.concatenate((state.position - self._first.position, turned)))
        self._start, self._first, self._way = now, state, np.zeros(len(_TURNING))

    def _compare(self, moved: Array) -> None:
        error, self.finding = np.abs(moved - self._way), None
        if (worst := _beyond(error - MISMATCH_SHARE * np.abs(self._way), self._limit)) is None:
            self._score = max(self._score - 1, 0)
            return
        self._score = min(self._score + (4 if worst < MOTORS and error[worst] > JUMP else 2), 4)
        if self._score == 4:
            self.finding = Finding(
                "velocity_mismatch",
                f"{_TURNING[worst]} moved by {moved[worst]:.2f} rad in {MISMATCH_WINDOW:g} s, its velocities give "
                f"{self._way[worst]:.2f} rad; a sensor of it is broken: run the doctor",
            )


class FallWatch:
    """Watches the angular velocity about the horizontal axes of the trunk, as a moving average over fall_rate_time.

    Detects a fall before the tilt exceeds its limit, and without an orientation.
    """

    def __init__(self, safety: Safety) -> None:
        self._limit, self._duration = safety.max_fall_rate, safety.fall_rate_time
        self._time = -math.inf
        self.reset()

    def reset(self) -> None:
        self._roll = self._pitch = 0.0

    def update(self, now: float, angular_velocity: Array) -> None:
        """Add the angular velocity (3,) [rad/s] of a new state that arrived at time `now` [s]."""
        step, self._time = now - self._time, now
        weight = min(min(step, LONGEST_STEP) / self._duration, 1.0)
        roll, pitch, _ = angular_velocity.tolist()
        self._roll += weight * (roll - self._roll)
        self._pitch += weight * (pitch - self._pitch)

    def check(self, limit: float | None = None) -> Finding | None:
        """Check for a fall at the newest state, by the robot's max_fall_rate or by `limit` [rad/s]."""
        if (rate := math.hypot(self._roll, self._pitch)) <= (limit or self._limit):
            return None
        return Finding("fall_rate", f"the robot falls: its trunk rotates at {rate:.1f} rad/s; set it on its belly")


class LoopWatch:
    """Watches the lateness of the driver's cycles, as a moving average over LATENESS_WINDOW [s].

    Each cycle is weighted by its duration: the average is the excess age of a command. A pause beyond max_cycle_gap
    stops following anyway and restarts the average.
    """

    def __init__(self, safety: Safety, period: float) -> None:
        self._limit, self._longest, self._period = safety.max_loop_lateness, safety.max_cycle_gap, period
        self._time = -math.inf
        self._late = 0.0

    def update(self, now: float) -> Finding | None:
        """Add one more cycle, at time `now` [s]; check the average lateness."""
        gap, self._time = now - self._time, now
        if gap > self._longest:
            self._late = 0.0
        else:
            self._late += min(gap / LATENESS_WINDOW, 1.0) * (gap - self._period - self._late)
        if self._late <= self._limit:
            return None
        return Finding(
            "loop_late",
            f"commands are {1e3 * self._late:.0f} ms late on average; stop other programs, or give the bridge "
            "real-time priority",
        )
