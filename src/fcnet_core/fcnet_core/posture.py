"""The posture state machine: the robot's mode, and the joint pose to hold in modes without a policy.

passive -> standing_up -> standing -> walking -> lying_down -> passive; any -> fault, left only through reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fcnet_core import FcnetError
from fcnet_core.arrays import Array
from fcnet_core.command import Mode
from fcnet_core.robot import JOINT_NAMES, Robot

FOLDING_SPEED = 1.5  # [rad/s] of the fastest joint while sprawled legs are folded under the body
FOLDED_ENOUGH = 0.35  # [rad] a start this near to the line from lie to stand pose needs no folding first
STAND_TOLERANCE = 0.6  # [rad] largest joint error with which a robot counts as standing: an Aliengo sags by 0.33
SETTLING_TIME = 1.0  # [s] granted after a ramp to come within the tolerance


class PoseRamp:
    """Minimum-jerk motion through poses (12,) [rad], resting at each; `durations` [s] has one entry per stretch."""

    def __init__(self, poses: Sequence[Array], durations: Sequence[float]) -> None:
        self._stretches = list(zip(pairwise(poses), durations, strict=True))
        self._last = poses[-1]
        self.duration = float(sum(durations))

    def target(self, elapsed: float) -> Array:
        """The pose (12,) [rad] `elapsed` seconds after the start; the last pose once the ramp is done."""
        for (start, end), duration in self._stretches:
            if elapsed < duration:
                return start + _minimum_jerk(elapsed / duration) * (end - start)
            elapsed -= duration
        return self._last


def _minimum_jerk(fraction: float) -> float:
    """0 to 1 with zero velocity and acceleration at both ends."""
    return fraction**3 * (10 - 15 * fraction + 6 * fraction**2)


class Posture:
    """The modes of one robot: requests change them, and `advance`, which is called once a control cycle.

    A request returns a sentence, or raises FcnetError with one where it is refused.
    """

    def __init__(self, robot: Robot, stand_up_time: float, lie_down_time: float) -> None:
        self.mode = Mode.PASSIVE
        self.fault = ""
        self.leaving: Mode | None = None
        self._robot = robot
        self._stand_up_time = stand_up_time
        self._lie_down_time = lie_down_time
        self._ramp = PoseRamp([robot.lie_pose], [])
        self._elapsed = 0.0

    @property
    def commands_joints(self) -> bool:
        """Whether the joints follow targets in this mode; in the others they are only damped."""
        return self.mode not in (Mode.PASSIVE, Mode.FAULT)

    def stand_up(self, pose: Array) -> str:
        """Request to stand, starting at the pose (12,) [rad] that the joints have now."""
        if self.mode in (Mode.PASSIVE, Mode.LYING_DOWN):
            self._begin(Mode.STANDING_UP, self._rise(pose))
            return f"standing up, which takes {self._ramp.duration:.1f} s"
        if self.mode is Mode.WALKING:
            self.leaving = Mode.STANDING_UP
            return "coming to rest, then standing"
        self._refuse_in_fault()
        return "already standing" if self.mode is Mode.STANDING else "already standing up"

    def walk(self) -> str:
        """Request to let the policy move the joints, which only a standing robot does."""
        self._refuse_in_fault()
        if self.mode is Mode.WALKING:
            self.leaving = None
            return "already walking"
        if self.mode is not Mode.STANDING:
            raise FcnetError(f"the robot is {self.mode.words}; call ~/stand_up and wait until it is standing")
        self.mode = Mode.WALKING
        self.leaving = None
        return "walking; send cmd_vel"

    def lie_down(self, pose: Array) -> str:
        """Request to lie down, starting at the pose (12,) [rad] that the joints have now."""
        if self.mode in (Mode.STANDING, Mode.STANDING_UP):
            self._begin(Mode.LYING_DOWN, PoseRamp([pose, self._robot.lie_pose], [self._lie_down_time]))
            return f"lying down, which takes {self._lie_down_time:.1f} s"
        if self.mode is Mode.WALKING:
            self.leaving = Mode.LYING_DOWN
            return "coming to rest, then lying down"
        self._refuse_in_fault()
        return "already lying" if self.mode is Mode.PASSIVE else "already lying down"

    def fail(self, reason: str) -> None:
        """Enter fault for a reason in words; the first reason stays until reset."""
        if self.mode is not Mode.FAULT:
            self.mode, self.fault, self.leaving = Mode.FAULT, reason, None

    def reset(self) -> str:
        """Leave fault for passive; elsewhere there is nothing to reset."""
        if self.mode is not Mode.FAULT:
            return f"nothing to reset: the robot is {self.mode.words}"
        self.mode, self.fault = Mode.PASSIVE, ""
        return "the fault is cleared and the robot is passive; call ~/stand_up when it may move"

    def make_passive(self) -> None:
        """Go to passive at once, from every mode but fault."""
        if self.mode is not Mode.FAULT:
            self.mode, self.leaving = Mode.PASSIVE, None

    def advance(self, period: float, measured: Array, target: Array, policy_at_rest: bool) -> None:
        """Let `period` seconds pass: finish ramps and leave walking once the robot has come to rest.

        measured: joint positions (12,) [rad]; target: the last position targets sent (12,) [rad].
        """
        self._elapsed += period
        if self.mode is Mode.WALKING and self.leaving is not None and policy_at_rest:
            self._leave_walking(self.leaving, target)
        elif self.mode is Mode.STANDING_UP and self._elapsed >= self._ramp.duration:
            self._arrive_standing(measured)
        elif self.mode is Mode.LYING_DOWN and self._elapsed >= self._ramp.duration:
            self.mode = Mode.PASSIVE

    def pose(self) -> Array:
        """The pose (12,) [rad] to hold now in a mode that needs no policy."""
        return self._robot.stand_pose if self.mode is Mode.STANDING else self._ramp.target(self._elapsed)

    def _begin(self, mode: Mode, ramp: PoseRamp) -> None:
        self.mode, self.leaving = mode, None
        self._ramp, self._elapsed = ramp, 0.0

    def _rise(self, pose: Array) -> PoseRamp:
        lie, stand = self._robot.lie_pose, self._robot.stand_pose
        done = float(np.clip((pose - lie) @ (stand - lie) / ((stand - lie) @ (stand - lie)), 0.0, 1.0))
        if np.abs(pose - (lie + done * (stand - lie))).max() <= FOLDED_ENOUGH:
            return PoseRamp([pose, stand], [max((1 - done) * self._stand_up_time, 0.25 * self._stand_up_time)])
        return PoseRamp([pose, lie, stand], [float(np.abs(lie - pose).max()) / FOLDING_SPEED, self._stand_up_time])

    def _leave_walking(self, mode: Mode, target: Array) -> None:
        pose, duration = (
            (self._robot.stand_pose, 0.25 * self._stand_up_time)
            if mode is Mode.STANDING_UP
            else (self._robot.lie_pose, self._lie_down_time)
        )
        self._begin(mode, PoseRamp([target, pose], [duration]))

    def _arrive_standing(self, measured: Array) -> None:
        error = np.abs(measured - self._robot.stand_pose)
        if error.max() <= STAND_TOLERANCE:
            self.mode = Mode.STANDING
        elif self._elapsed >= self._ramp.duration + SETTLING_TIME:
            worst = int(error.argmax())
            self.fail(
                f"standing up stalled: {JOINT_NAMES[worst]} is {error[worst]:.2f} rad from the stand pose; "
                "free the legs and check that the motors have power"
            )

    def _refuse_in_fault(self) -> None:
        if self.mode is Mode.FAULT:
            raise FcnetError(f"the robot is in fault ({self.fault}); remove the cause, then call ~/reset")
