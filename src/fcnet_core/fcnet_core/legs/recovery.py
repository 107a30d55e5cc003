"""Self-righting: from any side onto the belly, by a few poses of the robot file; see Recovery in robot.py.

The legs fold, the robot comes to rest and, if it is not upright yet, it rolls towards its lower side: the legs of the
other side push. Crossed legs spread first. Then the legs fold again, and so on, a limited number of times. posture.py
lets the robot stand up afterwards. The motion uses joint positions and the IMU, no contacts and no position.
"""

import math
from itertools import pairwise
from typing import Literal

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import FcnetError
from fcnet_core.legs.kinematics import LEFT
from fcnet_core.legs.stand_motion import minimum_jerk
from fcnet_core.observation import RobotState
from fcnet_core.robot import Recovery, Robot
from fcnet_core.rotation import projected_gravity, tilt_of_gravity

STILL = 0.3  # [rad/s] maximum rate of the trunk at rest; sensor noise alone is 0.1
REST_TIME = 0.1  # [s] at rest before the attitude is used
LONGEST_REST = 1.5  # [s] maximum wait for rest
JAMMED = 0.4  # [rad] from the folded pose; a larger error means crossed legs
SPREAD = 0.7  # [rad] of the hips outwards, so that legs can pass each other
SHORTEST_FOLD = 0.2  # [s] minimum duration


def lying_on(gravity: Array) -> Literal["belly", "back", "left side", "right side"]:
    """Return the side on which a robot lies, for the direction of gravity (3,) in the body frame."""
    tilt = float(tilt_of_gravity(gravity))
    if tilt <= math.pi / 4:
        return "belly"
    if tilt >= 3 * math.pi / 4:
        return "back"
    return "left side" if gravity[1] > 0 else "right side"


class SelfRighting:
    """The self-righting motion of one robot, from `start` until `done` or `failure`.

    attempts: number of rolls so far; failure: reason for stopping, otherwise empty. Raises FcnetError if the robot file
    has no recovery.
    """

    def __init__(self, robot: Robot) -> None:
        if robot.recovery is None:
            raise FcnetError(f"{robot.name} cannot get up: its robot file has no entry `recovery`; set it upright")
        self._robot, self._facts, self._rows = robot, robot.recovery, robot.leg_rows
        self._reach = self._facts.torque * robot.torque_limit / robot.kp
        self._rolls = {side: _roll_poses(robot, self._facts, side) for side in (1.0, -1.0)}
        self.start(robot.rest_pose)

    def start(self, measured: Array) -> None:
        """Start from measured joint positions (N,) [rad]."""
        self.done, self.failure, self.attempts = False, "", 0
        self._total = self._rest = 0.0
        self._folding = True
        self._rate: Array = np.zeros(2)  # [rad/s] about the horizontal axes, averaged
        self._last = np.clip(measured, self._robot.lower, self._robot.upper)
        self._spread(self._last, stretched=False)

    def advance(self, period: float, state: RobotState) -> Array:
        """Return position targets (N,) [rad] after `period` more seconds.

        The offset of a target from the measured position is limited to the one at which the stiffness gives the share
        `torque` of the motor torque, so a blocked leg is not pushed with full torque.
        """
        gravity, measured = projected_gravity(state.orientation), state.joint_position
        self._elapsed += period
        self._total += period
        if self._folding:
            self._rest = self._rest + period if np.abs(state.angular_velocity).max() < STILL else 0.0
            waited = self._elapsed - sum(self._durations)
            if waited >= LONGEST_REST or (waited >= 0.0 and self._rest >= REST_TIME):
                self._decide(gravity, measured)
        elif tilt_of_gravity(gravity) < self._facts.fold_tilt or self._elapsed >= sum(self._durations):
            self._fold()
        weight = min(1.0, period / self._robot.safety.fall_rate_time)
        self._rate = self._rate + weight * (state.angular_velocity[:2] - self._rate)
        if self._total > self._facts.max_time and not self.done:
            self.failure = self._unrighted(gravity)
        if (rate := float(np.hypot(*self._rate))) > self._facts.max_rate:
            self.failure = f"the robot turns over with {rate:.1f} rad/s, the limit is {self._facts.max_rate:g} rad/s"
        target = minimum_jerk(self._poses, self._durations, self._elapsed)
        target = np.clip(target, measured - self._reach, measured + self._reach)
        self._last = np.clip(target, self._robot.lower, self._robot.upper)
        return self._last

    def _decide(self, gravity: Array, measured: Array) -> None:
        """Decide with folded legs: done, fold again, spread the legs, roll, or fail."""
        upright = tilt_of_gravity(gravity) <= self._facts.max_tilt
        jammed = bool((self._unfolded(measured) > JAMMED).any())
        if upright and not jammed:
            self.done = self._rest >= REST_TIME
            if not self.done:
                self._fold()
        elif self.attempts == self._facts.attempts and upright:
            worst = self._robot.joint_names[self._rows.flat[self._unfolded(measured).argmax()]]
            self.failure = f"{worst} cannot be folded: its leg is caught; free the legs and set the robot on its belly"
        elif self.attempts == self._facts.attempts:
            self.failure = self._unrighted(gravity)
        else:
            self.attempts += 1
            if jammed and self.attempts % 2:  # rolling frees legs under the robot
                self._spread(measured)
            else:
                poses = self._rolls[1.0 if gravity[1] >= 0.0 else -1.0]
                self._move(poses, [step.duration for step in self._facts.roll], folding=False)

    def _spread(self, measured: Array, stretched: bool = True) -> None:
        """Spread legs that are not folded at their hips, stretched if caught; then fold them.

        Outwards is a positive hip angle for a leg that points down, and a negative one for a leg that points up.
        """
        joints, lie = measured[self._rows], self._robot.rest_pose
        caught = self._unfolded(measured).max(axis=1, keepdims=True) > JAMMED
        calf = self._robot.upper[self._rows[:, 2]] if stretched else joints[:, 2]
        apart = np.stack([LEFT * SPREAD * np.sign(np.cos(joints[:, 1])), joints[:, 1], calf], axis=-1)
        spread = lie.copy()
        spread[self._rows] = np.where(caught, apart, lie[self._rows])
        self._fold(np.clip(spread, self._robot.lower, self._robot.upper))

    def _fold(self, *before: Array) -> None:
        """Move through the poses `before` to the folded pose."""
        poses = [*before, self._robot.rest_pose]
        ways = [float(np.abs(end - start).max()) for start, end in pairwise([self._last, *poses])]
        self._move(poses, [max(way / self._facts.fold_speed, SHORTEST_FOLD) for way in ways], folding=True)

    def _move(self, poses: list[Array], durations: list[float], folding: bool) -> None:
        self._poses, self._durations, self._elapsed = [self._last, *poses], durations, 0.0
        self._folding, self._rest = folding, 0.0

    def _unfolded(self, measured: Array) -> Array:
        """Return the distance (4, 3) [rad] of the legs from the folded pose."""
        return np.abs(measured - self._robot.rest_pose)[self._rows]

    def _unrighted(self, gravity: Array) -> str:
        tried = f"after {self.attempts} attempts and {self._total:.1f} s"
        return f"the robot still lies on its {lying_on(gravity)} {tried}; set it on its belly"


def joint_beyond_limits(robot: Robot, measured: Array) -> str | None:
    """Return the reason why a recovery must not start with joints at `measured` (N,) [rad], or None."""
    excess = np.maximum(robot.lower - measured, measured - robot.upper)
    worst = int(excess.argmax())
    if excess[worst] <= robot.safety.position_margin:
        return None
    limits = f"its limits are {robot.lower[worst]:g} to {robot.upper[worst]:g} rad"
    return f"{robot.joint_names[worst]} is at {measured[worst]:.2f} rad, {limits}; move the leg by hand"


def _roll_poses(robot: Robot, facts: Recovery, side: float) -> list[Array]:
    """Return the poses (N,) [rad] of a roll onto the left side (1.0) or the right side (-1.0)."""
    poses = np.tile(robot.rest_pose, (len(facts.roll), 1))
    for pose, step in zip(poses, facts.roll, strict=True):
        pose[robot.leg_rows] = [step.lower if left == side else step.upper for left in LEFT]
        pose[robot.leg_rows[:, 0]] *= LEFT
    return list(np.clip(poses, robot.lower, robot.upper))
