"""Motion between lying and standing: in a straight line or, over fixed feet, with feedforward torques.

Over its feet, the trunk keeps its attitude from lying, which equals the slope of the ground. While it rises from a
crouch, it moves uphill: in the end the feet are below the hips along gravity, and so share the weight.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fcnet_core.arrays import Array, Rows
from fcnet_core.legs.kinematics import LEFT, SHORTEST, LegKinematics
from fcnet_core.robot import LEGS, Robot
from fcnet_core.rotation import projected_gravity

LYING, CROUCHING, STANDING = 0.0, 0.35, 1.0  # shares of the path: belly and feet on the ground; feet below the hips
FOLDING_SPEED = 1.5  # [rad/s] of the fastest joint on the way to the path, and in a straight line
STEEPEST = np.tan(np.deg2rad(20.0))  # maximum slope for placing feet and computing torques
SMOOTHING, SLOW_SMOOTHING, QUICK_SMOOTHING = 0.3, 2.0, 0.06  # [s] of the measured attitude, see LegPath.follow
FARTHEST = 0.1  # [m] maximum offset of a foot from its place in the stand pose
SAMPLES = np.linspace(LYING, STANDING, 21)
Stretch = tuple[float, float, float]  # of a motion: duration [s]; share of the path and of the load at its end


class StandPath:
    """Joint poses of one robot between lying (0) and standing (1), in a straight line in joint space.

    Without a lying pose, the line starts at the joint positions from which the robot is asked to stand up.
    """

    def __init__(self, robot: Robot) -> None:
        self.has_lying_pose = robot.lie_pose is not None
        self._lying, self._standing = robot.rest_pose, robot.stand_pose
        self._compared: slice | Rows = slice(None)  # joints that show how far the robot has risen

    def start(self, joints: Array, orientation: Array) -> None:
        """Prepare for standing up from joints (N,) [rad]; orientation (4,) x, y, z, w of the trunk."""
        if not self.has_lying_pose:
            self._lying = joints

    def stand_on(self, joints: Array) -> None:
        """Take over the feet of a robot that stands on the ground with joints (N,) [rad]."""

    def follow(self, joints: Array, orientation: Array, period: float, carries: bool) -> None:
        """Process the measurements of one period [s]: joints (N,) [rad] and the trunk's orientation (4,) x, y, z, w.

        carries: whether the legs carry the robot.
        """

    def poses(self, shares: Array) -> Array:
        """Return joint positions (K, N) [rad] at shares (K,) of the path."""
        return self._lying + shares[:, None] * (self._standing - self._lying)

    def pose(self, share: float) -> Array:
        """Return joint positions (N,) [rad] at a share of the path."""
        return self.poses(np.array([share]))[0]

    def targets(self, share: float, load: float = 1.0) -> Array:
        """Return position targets (N,) [rad] at a share of the path; load: share of the weight on the legs."""
        return self.pose(share)

    def nearest(self, joints: Array) -> tuple[float, float]:
        """Return the share of the path nearest to joints (N,), and the maximum difference there [rad]."""
        errors = np.abs(self.poses(SAMPLES) - joints)[:, self._compared].max(axis=-1)
        best = int(errors.argmin())
        return float(SAMPLES[best]), float(errors[best])

    def between(self, start: float, end: float, duration: float) -> list[Stretch]:
        """Return the stretches under full load between two shares; the whole path takes `duration` [s], or longer."""
        way = float(np.abs(self._standing - self._lying).max())
        return [(abs(end - start) * max(duration, way / FOLDING_SPEED), end, 1.0)] if start != end else []


class LegPath(StandPath):
    """The path of a robot with four legs, from its belly (0) to its stand pose (1), and the torques that hold it.

    It depends on measurements, see `start` and `follow`. On level ground it leads to the robot's stand pose. Joints
    that are not of the legs move in a straight line.
    """

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self.has_lying_pose = True
        self._legs = LegKinematics(robot)
        self._rows, self._kp = robot.leg_rows, robot.kp[robot.leg_rows]
        self._compared = self._rows.ravel()
        self._lower, self._upper = robot.lower, robot.upper
        self._radius = robot.geometry.foot_radius
        standing = self._feet_of(robot.stand_pose)
        crouching, lying = standing.copy(), standing.copy()
        crouching[:, 2] = self._feet_of(robot.rest_pose)[:, 2]
        lying[:, 2] = self._radius - robot.geometry.trunk[2]
        # Folded legs are longer than the belly is high above the feet, so knees lean out and feet stand wider.
        shortest = SHORTEST * (robot.geometry.thigh + robot.geometry.calf)
        wide = np.sqrt(shortest**2 + robot.geometry.abduction**2 - lying[:, 2] ** 2)
        lying[:, 1] = self._legs.hips[:, 1] + LEFT * wide
        self._feet = np.stack([lying, crouching, standing])
        self.start(robot.rest_pose, np.array([0.0, 0.0, 0.0, 1.0]))

    def start(self, joints: Array, orientation: Array) -> None:
        """Set the attitude without smoothing; the feet are at the places of the stand pose."""
        self._lean = self._slope = _slope(orientation)
        self._joints: Array | None = None  # [rad] (N,) measured, None before a measurement
        self._offsets: Array = np.zeros((len(LEGS), 2))

    def stand_on(self, joints: Array) -> None:
        """Keep the feet where joints (N,) place them: with load they do not slide; the trunk moves to their middle."""
        offsets = (self._feet_of(joints) - self._feet[-1])[:, :2]
        self._offsets = np.clip(offsets - offsets.mean(axis=0), -FARTHEST, FARTHEST)

    def follow(self, joints: Array, orientation: Array, period: float, carries: bool) -> None:
        # Torques are for the measured pose, without delay: late torques, or torques for the planned pose, topple a
        # robot when a foot has lost its ground. If the legs carry the robot, the feet move slowly under the trunk,
        # because fast feedback would amplify the sway of a robot on its legs at 0.7 Hz.
        slope = _slope(orientation)
        self._slope = self._slope + min(1.0, period / QUICK_SMOOTHING) * (slope - self._slope)
        self._lean = self._lean + min(1.0, period / (SLOW_SMOOTHING if carries else SMOOTHING)) * (slope - self._lean)
        self._joints = joints

    def targets(self, share: float, load: float = 1.0) -> Array:
        """Return the pose (N,) [rad] plus the offset at which the motors carry the share `load` of the robot."""
        pose, down = self.pose(share), np.array([*self._slope, -1.0])
        held = (pose if self._joints is None else self._joints)[self._rows]
        pose[self._rows] += load / self._kp * self._legs.torques(held, down / np.linalg.norm(down))
        return pose

    def poses(self, shares: Array) -> Array:
        knots = np.array([LYING, CROUCHING, STANDING])
        after = np.clip(np.searchsorted(knots, shares), 1, 2)
        part = ((shares - knots[after - 1]) / (knots[after] - knots[after - 1]))[:, None, None]
        feet = (1 - part) * self._feet[after - 1] + part * self._feet[after]
        risen = np.clip((shares - CROUCHING) / (STANDING - CROUCHING), 0.0, 1.0)[:, None, None]
        feet[..., :2] += np.minimum(shares / CROUCHING, 1.0)[:, None, None] * self._offsets
        feet[..., :2] += risen * (self._radius - self._feet[-1, :, 2:]) * self._lean
        poses = super().poses(shares)
        poses[:, self._rows] = self._legs.joints(feet)
        return np.clip(poses, self._lower, self._upper)

    def between(self, start: float, end: float, duration: float) -> list[Stretch]:
        """Return the stretches under full load between two shares, with a stop at the crouch."""
        stops = [CROUCHING] if min(start, end) < CROUCHING < max(start, end) else []
        return [(abs(b - a) * duration, b, 1.0) for a, b in pairwise([start, *stops, end]) if a != b]

    def _feet_of(self, joints: Array) -> Array:
        return self._legs.feet(joints[self._rows])[0]


def stand_path(robot: Robot) -> StandPath:
    """Return the robot's path from lying to standing; over its feet if the lengths of its legs are known."""
    return LegPath(robot) if robot.primitives else StandPath(robot)


def _slope(orientation: Array) -> Array:
    """Return tangents (2,) along x and y of the angle between gravity and the trunk's z axis."""
    x, y, z = projected_gravity(orientation).tolist()  # plain floats, as in every control cycle
    share = min(1.0, STEEPEST / max(math.hypot(x, y) / max(-z, 0.1), 1e-9)) / max(-z, 0.1)
    return np.array([share * x, share * y])


def minimum_jerk(points: Sequence[Array], durations: Sequence[float], elapsed: float) -> Array:
    """Return the point `elapsed` seconds after the start of a motion through all points; the last one after its end.

    durations [s]: one per stretch between two points. Velocity and acceleration are zero at each point.
    """
    for (start, end), duration in zip(pairwise(points), durations, strict=True):
        if elapsed < duration:
            done = elapsed / duration
            return start + done**3 * (10 - 15 * done + 6 * done**2) * (end - start)
        elapsed -= duration
    return points[-1]
