"""The demo's course: what is asked of the robot, one section after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass


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
