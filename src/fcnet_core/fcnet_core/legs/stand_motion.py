"""The way from the belly to the feet and back: over feet that stay where they are, along gravity, carried by torques.

The trunk keeps the attitude that it lay in, which is that of the ground. While it rises from a crouch it moves uphill
over the feet, which stand still: in the end they are below the hips along gravity, and share the weight also there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.legs.kinematics import LEFT, SHORTEST, LegKinematics
from fcnet_core.legs.statics import LegStatics
from fcnet_core.robot import LEGS, Robot
from fcnet_core.rotation import projected_gravity

LYING, CROUCHING, STANDING = 0.0, 0.35, 1.0  # shares of the way: belly and feet on the ground; feet below the hips
STEEPEST = np.tan(np.deg2rad(20.0))  # slope for which feet are placed and torques computed; the same for steeper ones
SMOOTHING, SLOW_SMOOTHING, QUICK_SMOOTHING = 0.3, 2.0, 0.06  # [s] of the measured attitude, see StandPath.follow
FARTHEST = 0.1  # [m] of a foot from its place in the stand pose
SAMPLES = np.linspace(LYING, STANDING, 21)


class StandPath:
    """Joint poses of one robot between lying on its belly (0) and standing (1), and the torques that hold them.

    It depends on what is measured, see `lean` and `follow`. On level ground the last pose is the robot's stand pose.
    """

    def __init__(self, robot: Robot) -> None:
        self._legs, self._statics = LegKinematics(robot), LegStatics(robot)
        self._kp = robot.gains.kp
        self._lower, self._upper = robot.lower, robot.upper
        self._radius = robot.geometry.foot_radius
        standing = self._legs.feet(robot.stand_pose.reshape(len(LEGS), 3))[0]
        crouching, lying = standing.copy(), standing.copy()
        crouching[:, 2] = self._legs.feet(robot.lie_pose.reshape(len(LEGS), 3))[0][:, 2]
        lying[:, 2] = self._radius - robot.geometry.trunk[2]
        # Folded legs are longer than the belly is high above the feet: the knees lean out, and the feet stand wider.
        shortest = SHORTEST * (robot.geometry.thigh + robot.geometry.calf)
        wide = np.sqrt(shortest**2 + robot.geometry.abduction**2 - lying[:, 2] ** 2)
        lying[:, 1] = self._legs.hips[:, 1] + LEFT * wide
        self._feet = np.stack([lying, crouching, standing])
        self._lean: Array = np.zeros(2)
        self._slope: Array = np.zeros(2)
        self._joints: Array | None = None
        self._offsets: Array = np.zeros((len(LEGS), 2))

    def stand_on(self, joints: Array | None) -> None:
        """Keep the feet where joints (12,) have them, relative to each other; None: where the stand pose has them.

        Feet that carry the robot do not slide to other places; the trunk moves to the middle of them.
        """
        self._offsets = np.zeros((len(LEGS), 2))
        if joints is not None:
            feet = self._legs.feet(joints.reshape(len(LEGS), -1))[0]
            offsets = (feet - self._feet[-1])[:, :2]
            self._offsets = np.clip(offsets - offsets.mean(axis=0), -FARTHEST, FARTHEST)

    def lean(self, orientation: Array) -> None:
        """Take the trunk's orientation (4,) x, y, z, w as it is; the joints are where the way has them."""
        self._lean = self._slope = _slope(orientation)
        self._joints = None

    def follow(self, joints: Array, orientation: Array, period: float, carries: bool) -> None:
        """Take what is measured in one more period [s]: joints (12,) [rad] and the trunk's orientation (4,) x, y, z, w.

        Torques are those of the measured pose, at once: an answer that is late, or meant for where the robot should be,
        pushes one whose foot has lost its ground over. carries: whether legs carry the robot. Feet then move slowly
        under the trunk, because a quick answer would swing up a robot that sways on its legs at 0.7 Hz.
        """
        slope = _slope(orientation)
        self._slope = self._slope + min(1.0, period / QUICK_SMOOTHING) * (slope - self._slope)
        self._lean = self._lean + min(1.0, period / (SLOW_SMOOTHING if carries else SMOOTHING)) * (slope - self._lean)
        self._joints = joints

    def pose(self, share: float) -> Array:
        """Joint positions (12,) [rad] at a share of the way."""
        return self._poses(np.array([share]))[0]

    def targets(self, share: float, load: float = 1.0) -> Array:
        """Position targets (12,) [rad] at a share of the way, as far ahead of the pose as the motors need to carry this
        share of the robot in it.
        """
        pose, down = self.pose(share), np.array([*self._slope, -1.0])
        held = pose if self._joints is None else self._joints
        return pose + load / self._kp * self._statics.torques(held, down / np.linalg.norm(down))

    def nearest(self, joints: Array) -> tuple[float, float]:
        """The share of the way that is nearest to joints (12,), and the largest difference there [rad]."""
        errors = np.abs(self._poses(SAMPLES) - joints).max(axis=-1)
        best = int(errors.argmin())
        return float(SAMPLES[best]), float(errors[best])

    def _poses(self, shares: Array) -> Array:
        knots = np.array([LYING, CROUCHING, STANDING])
        after = np.clip(np.searchsorted(knots, shares), 1, 2)
        part = ((shares - knots[after - 1]) / (knots[after] - knots[after - 1]))[:, None, None]
        feet = (1 - part) * self._feet[after - 1] + part * self._feet[after]
        risen = np.clip((shares - CROUCHING) / (STANDING - CROUCHING), 0.0, 1.0)[:, None, None]
        feet[..., :2] += np.minimum(shares / CROUCHING, 1.0)[:, None, None] * self._offsets
        feet[..., :2] += risen * (self._radius - self._feet[-1, :, 2:]) * self._lean
        joints = self._legs.joints(feet).reshape(-1, len(self._lower))
        return np.clip(joints, self._lower, self._upper)


def _slope(orientation: Array) -> Array:
    """How far (2,) gravity is from the trunk's z axis, as tangents along x and y."""
    down = projected_gravity(orientation)
    slope: Array = down[:2] / max(-down[2], 0.1)
    return slope * min(1.0, STEEPEST / max(float(np.hypot(*slope)), 1e-9))


class Stretch(NamedTuple):
    """A part of a motion, in `duration` seconds to a share of the way and a share of the load that the legs carry."""

    duration: float
    share: float
    load: float


def between(start: float, end: float, duration: float) -> list[Stretch]:
    """The stretches under full load from one share of the way to another, of which the whole takes `duration` [s]."""
    stops = [CROUCHING] if min(start, end) < CROUCHING < max(start, end) else []
    places = [start, *stops, end]
    return [Stretch(abs(b - a) * duration, b, 1.0) for a, b in pairwise(places) if a != b]


class StandMotion:
    """Minimum-jerk motion along a StandPath that begins with given targets (12,) [rad], wherever they are."""

    def __init__(self, path: StandPath, target: Array, share: float, load: float, stretches: Sequence[Stretch]) -> None:
        self._path = path
        self._stretches = stretches
        self._start = Stretch(0.0, share, load)
        self._away = target - path.targets(share, load)
        self.duration = sum(stretch.duration for stretch in stretches)

    def place(self, elapsed: float) -> tuple[float, float]:
        """The shares of way and load `elapsed` seconds after the start."""
        before = self._start
        for stretch in self._stretches:
            if elapsed < stretch.duration:
                done = minimum_jerk(elapsed / stretch.duration)
                return (
                    before.share + done * (stretch.share - before.share),
                    before.load + done * (stretch.load - before.load),
                )
            elapsed -= stretch.duration
            before = stretch
        return before.share, before.load

    def target(self, elapsed: float) -> Array:
        """Position targets (12,) [rad]; in the first stretch they come from where the motion began onto the way."""
        first = self._stretches[0].duration if self._stretches else 0.0
        left = 1.0 - minimum_jerk(elapsed / first) if elapsed < first else 0.0
        return self._path.targets(*self.place(elapsed)) + left * self._away


def minimum_jerk(fraction: float) -> float:
    """0 to 1 with zero velocity and acceleration at both ends."""
    return fraction**3 * (10 - 15 * fraction + 6 * fraction**2)
