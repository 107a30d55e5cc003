"""The demo's courses: commands, and the score of a robot from its ground truth."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from nav_msgs.msg import Odometry

from fcnet_core.arrays import Array
from fcnet_core.names import HealthKey
from fcnet_core.rotation import projected_gravity

SETTLING_TIME = 1.5  # [s] at the start of each section, excluded from tracking errors
STRIDE = 0.5  # [s] over which velocities are averaged, so that sway within a step is not an error
FALLEN_UPRIGHT = 0.5  # cosine of the tilt


@dataclass(frozen=True)
class Section:
    """A command for `duration` [s]: velocities [m/s, m/s, rad/s], height offset [m], roll and pitch [rad].

    clearance: offset of the foot clearance [m]. toppled: whether the robot is pushed over before it, and gets up.
    """

    name: str
    duration: float
    vx: float = 0.0
    vy: float = 0.0
    yaw_rate: float = 0.0
    height: float = 0.0
    roll: float = 0.0
    pitch: float = 0.0
    clearance: float = 0.0
    toppled: bool = False


STANDSTILL = Section("standstill", 0.0)  # before and after the course


COURSES = {
    "normal": (  # over the ramp and the step of the terrain "course"
        Section("slope", 8.5, vx=0.6),  # to the foot of the ramp, up and down
        Section("step", 5.0, vx=0.5, clearance=0.04),
        Section("turn", 6.0, vx=0.2, yaw_rate=1.05),  # one turn: the way back leads over the step
        Section("sideways", 4.0, vy=0.25),
        Section("crouch", 5.0, vx=0.3, height=-0.08),
        Section("tilt", 2.5, vx=0.2, roll=0.2),
        Section("tilt", 2.5, vx=0.2, pitch=0.15),
        Section("run", 6.0, vx=1.5),
        Section("stop", 3.0),
    ),
    "hard": (
        Section("forward", 5.0, vx=0.6),
        Section("walk on", 6.0, vx=0.5, yaw_rate=0.3, toppled=True),
        Section("stop", 2.0),
    ),
}


def section_at(course: Sequence[Section], elapsed: float) -> tuple[Section, float] | None:
    """Return the section at `elapsed` [s] after the start and the time [s] in it; None after the end."""
    for section in course:
        if elapsed < section.duration:
            return section, elapsed
        elapsed -= section.duration
    return None


def cycle_rate(before: Mapping[str, str], health: Mapping[str, str]) -> str:
    """Return cycles per second [Hz] of a controller between two of its diagnostics; "?" if they lack it."""
    keys = HealthKey.CYCLES, HealthKey.LOOP_TIME
    cycles, duration = (float(health.get(key, "nan")) - float(before.get(key, "nan")) for key in keys)
    return f"{cycles / duration:.2f}" if duration > 0.0 else "?"


class CourseScore:
    """Distance [m], falls and tracking errors from odometry; newest height [m] and speed [m/s] of the trunk.

    recovery: time [s] in which a robot that was pushed over walked again, None without a push. Such a fall does not
    count.
    """

    def __init__(self) -> None:
        self.distance = self.height = self.speed = 0.0
        self.falls = 0
        self.recovery: float | None = None
        self._place: tuple[float, float] | None = None
        self._fallen = False
        self._stride: list[tuple[float, float, float]] = []  # velocities
        self._stride_start, self._stride_section = 0.0, STANDSTILL
        self._errors: list[Array] = []

    @property
    def tracking_error(self) -> Array:
        """Mean absolute error of vx, vy [m/s] and yaw rate [rad/s] (3,), averaged per stride; NaN without data."""
        return np.mean(self._errors, axis=0) if self._errors else np.full(3, np.nan)

    def update(self, odometry: Odometry, time: float, section: Section, in_section: float) -> None:
        """Add the ground truth at `time` [s], `in_section` [s] after the start of `section`."""
        pose, motion = odometry.pose.pose, odometry.twist.twist
        place = pose.position.x, pose.position.y
        self.distance += math.dist(place, self._place or place)
        self._place, self.height = place, pose.position.z
        self.speed = math.hypot(motion.linear.x, motion.linear.y)
        attitude = pose.orientation
        fallen = -projected_gravity([attitude.x, attitude.y, attitude.z, attitude.w])[2] < FALLEN_UPRIGHT
        self.falls += fallen and not self._fallen
        self._fallen = fallen
        if section is STANDSTILL or in_section < SETTLING_TIME or section is not self._stride_section:
            self._stride, self._stride_section, self._stride_start = [], section, time
            return
        self._stride.append((motion.linear.x, motion.linear.y, motion.angular.z))
        if time - self._stride_start >= STRIDE:
            commanded = np.array([section.vx, section.vy, section.yaw_rate])
            self._errors.append(np.abs(np.mean(self._stride, axis=0) - commanded))
            self._stride, self._stride_start = [], time

    def report(self, elapsed: float, before: Mapping[str, str], health: Mapping[str, str]) -> str:
        """Return the result table after `elapsed` [s]; before, health: diagnostics of the controller and the simulator
        at the start and at the end.
        """
        vx, vy, yaw_rate = self.tracking_error
        rows = {
            "time": f"{elapsed:.1f} s",
            "distance": f"{self.distance:.1f} m",
            "tracking error": f"vx {vx:.3f} m/s   vy {vy:.3f} m/s   yaw rate {yaw_rate:.3f} rad/s",
            "falls": str(self.falls),
            "control rate": f"{cycle_rate(before, health)} Hz",
            "deadline misses": health.get("deadline_misses", "?"),
            "step latency": f"p50 {health.get('step_p50_ms', '?')} ms   p99 {health.get('step_p99_ms', '?')} ms",
        }
        if self.recovery is not None:
            rows["pushed over"] = f"walks again after {self.recovery:.1f} s"
        return "\n".join(f"  {name:<15}  {value}" for name, value in rows.items())
