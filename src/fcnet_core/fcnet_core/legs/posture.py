"""The posture state machine: the robot's mode, and the position targets in modes without a policy.

passive -> standing_up -> standing -> walking -> lying_down -> passive; after a fall passive -> recovering ->
standing_up; any -> fault, which only reset leaves.
"""

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import FcnetError
from fcnet_core.legs.recovery import SelfRighting
from fcnet_core.legs.stand_motion import FOLDING_SPEED, LYING, STANDING, Stretch, minimum_jerk, stand_path
from fcnet_core.names import Mode
from fcnet_core.observation import RobotState
from fcnet_core.robot import Robot

FOLDED_ENOUGH = 0.35  # [rad] maximum distance from the stand path for starting without folding
LOADING_TIME = 0.4  # [s] of moving the weight to the legs or to the belly
BLENDING_TIME = 0.5  # [s] from the policy's stance to the stand pose
STAND_TOLERANCE = 0.2  # [rad] maximum joint error of a standing robot
REST_TIME = 0.5  # [s] of rest before leaving the policy's stance
SETTLING_TIME = 1.0  # [s] after a motion to reach the tolerance
NO_LYING_POSE = "damping the joints, because the robot file has no lying pose; hold the robot"


class Posture:
    """The mode of one robot, changed by requests and by `advance`, which runs once per control cycle.

    A request returns a message. It raises FcnetError if it is rejected.
    """

    def __init__(self, robot: Robot, stand_up_time: float, lie_down_time: float) -> None:
        self._robot, self._stand_up_time, self._lie_down_time = robot, stand_up_time, lie_down_time
        self._path, self.mode, self.fault = stand_path(robot), Mode.PASSIVE, ""
        self.leaving: Mode | None = None
        self._begin(Mode.PASSIVE, robot.rest_pose, LYING, 0.0, [])
        self._righting: SelfRighting | None = None
        self._righting_target = robot.rest_pose
        self._rested = 0.0  # [s] since the policy came to rest

    @property
    def commands_joints(self) -> bool:
        """Whether the joints follow targets in this mode; otherwise they are only damped."""
        return self.mode not in (Mode.PASSIVE, Mode.FAULT)

    def stand_up(self, target: Array, orientation: Array) -> str:
        """Request to stand. target: the last position targets or, without any, the joint positions (N,) [rad];
        orientation (4,) x, y, z, w of the trunk.
        """
        if self.mode in (Mode.PASSIVE, Mode.LYING_DOWN):
            if self.mode is Mode.PASSIVE:
                self._rise(target, orientation)
            else:
                share, load = self._place()
                rise = self._path.between(share, STANDING, self._stand_up_time)
                self._begin(Mode.STANDING_UP, target, share, load, [(LOADING_TIME, share, 1.0), *rise])
            return f"standing up, which takes {self._duration:.1f} s"
        if self.mode is Mode.WALKING:
            self.leaving = Mode.STANDING_UP
            return "coming to rest, then standing"
        return self._already()

    def recover(self, measured: Array) -> str:
        """Request to turn onto the belly and stand after a fall, from joint positions (N,) [rad]; only if passive."""
        if self.mode in (Mode.RECOVERING, Mode.FAULT):
            return self._already()
        if self.mode is not Mode.PASSIVE:
            raise FcnetError(f"the robot is {self.mode.words}; only a passive robot gets up after a fall")
        self._righting = self._righting or SelfRighting(self._robot)
        self._righting.start(measured)
        self._righting_target = measured
        self.mode = Mode.RECOVERING
        return "recovering: turning onto the belly, then standing up"

    def walk(self) -> str:
        """Request to run the policy; only if standing."""
        if self.mode is Mode.STANDING:
            self.mode, self.leaving = Mode.WALKING, None
            return "walking; send cmd_vel"
        already = self._already()
        if self.mode is not Mode.WALKING:
            raise FcnetError(f"the robot is {self.mode.words}; call ~/stand_up and wait until it is standing")
        self.leaving = None
        return already

    def walk_on(self) -> None:
        """Change to walking immediately, from every mode."""
        self.mode, self.fault, self.leaving = Mode.WALKING, "", None

    def lie_down(self, target: Array) -> str:
        """Request to lie down, from the last position targets (N,) [rad]; without a lying pose, to become passive."""
        if self.mode in (Mode.STANDING, Mode.STANDING_UP):
            share, load = self._place()
            away = float(np.abs(target - self.pose()).max())
            blend = [(BLENDING_TIME, share, 1.0)] if load < 1.0 and share > LYING else []
            unload = (LOADING_TIME + away / FOLDING_SPEED, LYING, 0.0)
            down = self._path.between(share, LYING, self._lie_down_time)
            self._begin(Mode.LYING_DOWN, target, share, load, [*blend, *down, unload])
            motion = f"lying down, which takes {self._duration:.1f} s"
            return motion if self._path.has_lying_pose else NO_LYING_POSE
        if self.mode is Mode.WALKING:
            self.leaving = Mode.LYING_DOWN
            return f"coming to rest, then {'lying down' if self._path.has_lying_pose else NO_LYING_POSE}"
        if self.mode is Mode.RECOVERING:
            raise FcnetError("the robot is recovering; wait until it stands, or stop it")
        return self._already()

    def fail(self, reason: str) -> None:
        """Enter fault for this reason; the first reason is kept until reset."""
        if self.mode is not Mode.FAULT:
            self.mode, self.fault, self.leaving = Mode.FAULT, reason, None

    def reset(self) -> str:
        """Change from fault to passive; no effect in other modes."""
        if self.mode is not Mode.FAULT:
            return f"nothing to reset: the robot is {self.mode.words}"
        self.mode, self.fault = Mode.PASSIVE, ""
        return "the fault is cleared and the robot is passive; call ~/stand_up when it may move"

    def make_passive(self) -> None:
        """Change to passive immediately, from every mode except fault."""
        if self.mode is not Mode.FAULT:
            self.mode, self.leaving = Mode.PASSIVE, None

    def advance(self, period: float, state: RobotState, target: Array, policy_at_rest: bool) -> None:
        """Advance by `period` seconds: finish motions, and leave walking once the robot has come to rest.

        target: the last position targets sent (N,) [rad].
        """
        if self.mode is Mode.RECOVERING:
            assert self._righting is not None
            self._righting_target = self._righting.advance(period, state)
            if self._righting.failure:
                self.fail(self._righting.failure)
            elif self._righting.done:
                self._rise(self._righting_target, state.orientation)
            return
        measured = state.joint_position
        self._elapsed += period
        carries = self.mode is not Mode.WALKING and self._place()[0] != LYING
        self._path.follow(measured, state.orientation, period, carries)
        self._rested = self._rested + period if policy_at_rest else 0.0
        if self.mode is Mode.WALKING and self.leaving is not None and self._rested >= REST_TIME:
            self._path.stand_on(measured)
            stretches = [(BLENDING_TIME, STANDING, 1.0)]
            if self.leaving is Mode.LYING_DOWN:
                stretches += self._path.between(STANDING, LYING, self._lie_down_time)
                stretches.append((LOADING_TIME, LYING, 0.0))
            self._begin(self.leaving, target, STANDING, 0.0, stretches)
        elif self.mode is Mode.STANDING_UP and self._elapsed >= self._duration:
            self._arrive_standing(self.stand_errors(measured))
        elif self.mode is Mode.LYING_DOWN and self._elapsed >= self._duration:
            self.mode = Mode.PASSIVE

    def pose(self) -> Array:
        """Return the present position targets (N,) [rad] in a mode without a policy."""
        if self.mode is Mode.RECOVERING:
            return self._righting_target
        # The first stretch leads from the starting targets to the path.
        left = minimum_jerk([self._away, 0.0 * self._away], self._durations[:1] or [0.0], self._elapsed)
        return self._path.targets(*self._place()) + left

    def _place(self) -> tuple[float, float]:
        """Return the present shares of path and load."""
        share, load = minimum_jerk(self._places, self._durations, self._elapsed).tolist()
        return share, load

    def stand_errors(self, measured: Array) -> Array:
        """Return the differences (N,) [rad] between joints (N,) and the stand pose on this ground."""
        return np.abs(measured - self._path.pose(STANDING))

    def _begin(self, mode: Mode, target: Array, share: float, load: float, stretches: list[Stretch]) -> None:
        """Start a motion along the path from any targets (N,) [rad], at these shares of path and load."""
        ends = mode is Mode.LYING_DOWN and not self._path.has_lying_pose
        self.mode, self.leaving = Mode.PASSIVE if ends else mode, None
        self._places = [np.array([share, load]), *(np.array(stretch[1:]) for stretch in stretches)]
        self._durations = [stretch[0] for stretch in stretches]
        self._duration, self._elapsed = sum(self._durations), 0.0
        self._away = target - self._path.targets(share, load)

    def _rise(self, joints: Array, orientation: Array) -> None:
        self._path.start(joints, orientation)
        share, away = self._path.nearest(joints)
        share = LYING if (folds := away > FOLDED_ENOUGH) else share
        way = float(np.abs(self._path.pose(share) - joints).max()) / FOLDING_SPEED  # [s]
        fold = [(way, LYING, 0.0)] if folds else []
        load = (LOADING_TIME if folds else max(LOADING_TIME, way), share, 1.0)
        rise = self._path.between(share, STANDING, self._stand_up_time)
        self._begin(Mode.STANDING_UP, joints, share, 0.0, [*fold, load, *rise])

    def _arrive_standing(self, error: Array) -> None:
        if error.max() <= STAND_TOLERANCE:
            self.mode = Mode.STANDING
        elif self._elapsed >= self._duration + SETTLING_TIME:
            worst = int(error.argmax())
            found = f"{self._robot.joint_names[worst]} is {error[worst]:.2f} rad from the stand pose"
            self.fail(f"standing up stalled: {found}; free the legs and check that the motors have power")

    def _already(self) -> str:
        """Return that the robot is in its mode. Raises FcnetError in fault."""
        if self.mode is Mode.FAULT:
            raise FcnetError(f"the robot is in fault ({self.fault}); remove the cause, then call ~/reset")
        return f"already {self.mode.words}"
