"""Scores a robot on a course from its ground truth: distance, tracking error, falls."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_controller.course import Section
from fcnet_core.rotation import projected_gravity

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
