"""The demo's course: what is asked of the robot, and how it is scored."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.rotation import projected_gravity

# The demo's course: what is asked of the robot, one section after the other.

@dataclass(frozen=True)
class Section:
    """A command kept for `duration` [s]: velocities [m/s, m/s, rad/s], height offset [m], roll and pitch [rad]."""

    name: str
    duration: float
    vx: float = 0.0
    vy: float = 0.0
    yaw_rate: float = 0.0
    height: float = 0.0
    roll: float = 0.0
    pitch: float = 0.0


COURSE = (
    Section("forward", 6.0, vx=0.6),
    Section("turn", 5.0, vx=0.2, yaw_rate=0.7),
    Section("sideways", 4.0, vy=0.25),
    Section("crouch", 5.0, vx=0.3, height=-0.08),
    Section("tilt", 2.5, vx=0.2, roll=0.2),
    Section("tilt", 2.5, vx=0.2, pitch=0.15),
    Section("run", 6.0, vx=1.5),
    Section("stop", 3.0),
)


def course_length(course: tuple[Section, ...] = COURSE) -> float:
    """How long a course takes [s]."""
    return sum(section.duration for section in course)


def course_distance(course: tuple[Section, ...] = COURSE) -> float:
    """How long the way is [m] for a robot that does as it is told."""
    return sum(math.hypot(section.vx, section.vy) * section.duration for section in course)


def section_at(elapsed: float, course: tuple[Section, ...] = COURSE) -> tuple[Section, float] | None:
    """The section at `elapsed` [s] after the start, and the time [s] spent in it; None after the end."""
    for section in course:
        if elapsed < section.duration:
            return section, elapsed
        elapsed -= section.duration
    return None


# Scores a robot on a course from its ground truth: distance, tracking error, falls.

Array = npt.NDArray[np.float64]
SETTLING_TIME = 1.5  # [s] granted at the start of each section before errors count
STRIDE = 0.5  # [s] over which velocities are averaged, so that the sway of a step is no error
FALLEN_UPRIGHT = 0.5  # cosine of the tilt


@dataclass(frozen=True)
class Sighting:
    """Ground truth at `time` [s]: position (3,) [m], orientation (4,) x, y, z, w, body velocity vx, vy [m/s] and yaw
    rate [rad/s] (3,).
    """

    time: float
    position: Array
    orientation: Array
    velocity: Array


class CourseScore:
    """Keeps the score while sightings come in."""

    def __init__(self) -> None:
        self.distance = 0.0
        self.falls = 0
        self._last: Sighting | None = None
        self._lying = False
        self._window: list[Array] = []
        self._window_start = 0.0
        self._window_section: Section | None = None
        self._errors: list[Array] = []

    @property
    def speed(self) -> float:
        """Horizontal speed [m/s] in the newest sighting."""
        return math.hypot(*self._last.velocity[:2]) if self._last else 0.0

    @property
    def height(self) -> float:
        """Height [m] of the trunk in the newest sighting."""
        return float(self._last.position[2]) if self._last else 0.0

    @property
    def tracking_error(self) -> Array:
        """Mean absolute error of vx, vy [m/s] and yaw rate [rad/s] (3,), averaged over a stride; NaN without any."""
        return np.mean(self._errors, axis=0) if self._errors else np.full(3, np.nan)

    def see(self, sighting: Sighting, section: Section | None, in_section: float) -> None:
        """Take a sighting `in_section` seconds after the start of `section`, or outside the course."""
        if self._last is not None:
            self.distance += math.hypot(*(sighting.position - self._last.position)[:2])
        self._last = sighting
        lies = -projected_gravity(sighting.orientation)[2] < FALLEN_UPRIGHT
        self.falls += lies and not self._lying
        self._lying = lies
        self._track(sighting, section if in_section >= SETTLING_TIME else None)

    def _track(self, sighting: Sighting, section: Section | None) -> None:
        if section is not self._window_section:
            self._window, self._window_section, self._window_start = [], section, sighting.time
        if section is None:
            return
        self._window.append(sighting.velocity)
        if sighting.time - self._window_start >= STRIDE:
            wanted = np.array([section.vx, section.vy, section.yaw_rate])
            self._errors.append(np.abs(np.mean(self._window, axis=0) - wanted))
            self._window, self._window_start = [], sighting.time


# The table at the end of the demo.

SLOW = 0.95  # of the wanted real-time factor


def course_report(score: CourseScore, elapsed: float, health: dict[str, str]) -> str:
    """A table of `score` after `elapsed` [s], with the controller's and the simulator's figures in `health`."""
    vx, vy, yaw_rate = score.tracking_error
    rows = [
        ("time", f"{elapsed:.1f} s"),
        ("distance", f"{score.distance:.1f} m"),
        ("tracking error", f"vx {vx:.3f} m/s   vy {vy:.3f} m/s   yaw rate {yaw_rate:.3f} rad/s"),
        ("falls", str(score.falls)),
        ("control rate", f"{health.get('rate_hz', '?')} Hz"),
        ("deadline misses", health.get("deadline_misses", "?")),
        ("step latency", f"p50 {health.get('step_p50_ms', '?')} ms   p99 {health.get('step_p99_ms', '?')} ms"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)


def slowness(health: dict[str, str]) -> str | None:
    """A sentence where the simulation ran slower than it was told to."""
    achieved, wanted = float(health.get("slowest_factor", "nan")), float(health.get("wanted_real_time_factor", "nan"))
    if not achieved < SLOW * wanted:
        return None
    return (
        f"The simulation ran at {achieved:.2f} instead of {wanted:.2f} times real time at its slowest: this machine is "
        "busy. Close other programs and try again before you judge the figures."
    )
