"""The controller without its node: requests come in from any thread; a loop (control_loop.py) runs the cycles."""

from __future__ import annotations

import threading
from functools import partial
from typing import TypeVar

import numpy as np

from fcnet_controller.parameters import ControllerParameters, policy_path
from fcnet_controller.watchdogs import FollowingWatchdog, JointErrorWatchdog, TiltWatchdog
from fcnet_core.arrays import Array
from fcnet_core.control.command import CommandArbiter
from fcnet_core.control.limiter import JointLimiter
from fcnet_core.control.runner import PolicyRunner
from fcnet_core.errors import FcnetError, NonFiniteObservation
from fcnet_core.legs.posture import Posture
from fcnet_core.legs.recovery import joint_beyond_limits
from fcnet_core.model_file import PolicyModel, check_robot, load_model
from fcnet_core.names import Mode
from fcnet_core.observation import PolicyStep
from fcnet_core.policy import Policy, load_policy
from fcnet_core.robot import SETPOINT_FIELDS, Robot, load_robot
from fcnet_ros.health import LoopStatistics
from fcnet_ros.messages import StateBuffer

EMERGENCY_STOP = "emergency stop"
STANDSTILL: Array = np.zeros(len(SETPOINT_FIELDS))

Core = TypeVar("Core", bound="ControlCore")


class ControlCore:
    """Decides the joint targets, once per control period.

    Its time [s] is the loop's: a monotonic clock or simulated time; ages and timeouts are counted in it. One thread
    calls `prepare`, fills `state`, and calls `cycle`, once per control period. Any thread may write to `commands` and
    make requests, which return a sentence for the user or raise FcnetError. policy_step: input of the policy in the
    last cycle, with target stamps of 0; None if it took no step. statistics: `wake` is from a deadline to the loop's
    awakening, `step` one step of the policy, `response`, while walking, from the reception of the older part of the
    state to the return of the publish call. Raises ValueError if the control rate does not suit the model.
    """

    def __init__(self, robot: Robot, model: PolicyModel, policy: Policy, parameters: ControllerParameters) -> None:
        self._period = 1.0 / parameters.control_rate
        self.model = model
        self.statistics = LoopStatistics("wake", "step", "response")
        self.state = StateBuffer(parameters.state_timeout, parameters.simulated_time)
        self.commands = CommandArbiter(parameters.cmd_vel_timeout)
        self.commands.set_style(*parameters.style)
        self.policy_step: PolicyStep | None = None
        self._robot = robot
        self._posture = Posture(robot, parameters.stand_up_time, parameters.lie_down_time)
        self._runner = PolicyRunner(policy, model, parameters.control_rate, partial(self.statistics.add, "step"))
        self._limiter = JointLimiter(robot, self._period)
        self._tilt = TiltWatchdog(robot.safety)
        self._joint_error = JointErrorWatchdog(robot.safety, self._period)
        self._follows_targets = parameters.follows_targets
        self._longest_stall = parameters.state_timeout
        self._bridge = f"{robot.name}_bridge"
        self._following = FollowingWatchdog()
        self._bridge_fault = ""
        self._lock = threading.Lock()

    @property
    def mode(self) -> Mode:
        return self._posture.mode

    @property
    def fault(self) -> str:
        """The reason for the fault, empty outside fault."""
        return self._posture.fault

    @property
    def limited(self) -> str:
        """How commands are limited to the policy's trained range, in words; empty if they are not."""
        return self._runner.limited if self._posture.mode is Mode.WALKING else ""

    def stand_up(self, now: float) -> str:
        """Request to stand up (from passive), or to come to rest and stand (from walking)."""
        with self._lock:
            if self._posture.mode is Mode.PASSIVE:
                problem = self.state.problem(now) or self._tilt.check(self.state.orientation)
                if problem := problem or self._following.obstacle():
                    raise FcnetError(f"cannot stand up: {problem}")
                self._start()
            return self._posture.stand_up(self._limiter.last, self.state.orientation)

    def recover(self, now: float) -> str:
        """Request to get up after a fall, from passive: the robot turns over, from any side, and stands up."""
        with self._lock:
            if self._posture.mode is Mode.PASSIVE:
                problem = self.state.problem(now) or joint_beyond_limits(self._robot, self.state.joint_position)
                if problem := problem or self._following.obstacle():
                    raise FcnetError(f"cannot recover: {problem}")
                self._start()
            return self._posture.recover(self._limiter.last)

    def walk(self) -> str:
        """Request to walk, from standing; the policy starts cold."""
        with self._lock:
            if self._posture.mode is Mode.STANDING:
                self._runner.begin()
            return self._posture.walk()

    def lie_down(self) -> str:
        """Request to lie down; a walking robot comes to rest first."""
        with self._lock:
            return self._posture.lie_down(self._limiter.last)

    def emergency_stop(self) -> None:
        """Damp all joints from the next cycle on, until reset."""
        with self._lock:
            self._posture.fail(EMERGENCY_STOP)

    def reset(self) -> str:
        """Leave fault for passive, unless the robot's bridge is in fault; earlier commands are dropped."""
        with self._lock:
            if self._bridge_fault:
                raise FcnetError(
                    f"the robot's bridge is in fault ({self._bridge_fault}); remove the cause, then reset the bridge "
                    f"first: ros2 service call /{self._bridge}/reset std_srvs/srv/Trigger",
                )
            self.commands.clear()
            return self._posture.reset()

    def make_passive(self) -> None:
        """Return to passive mode when no loop calls `cycle` any more; a fault stays."""
        with self._lock:
            self._posture.make_passive()

    def stop_after_stall(self, duration: float) -> bool:
        """Return whether the loop was late by more [s] than the maximum age of a state; if so, enter fault while joints
        follow targets.

        A real robot's bridge has damped it by then, so the robot has left the pose for which the next target is meant.
        """
        if duration <= self._longest_stall:
            return False
        self.stop(f"the controller stood still for {duration:.2f} s; give it a CPU core of its own")
        return True

    def stop(self, reason: str) -> None:
        """Enter fault for this reason if joints follow targets."""
        with self._lock:
            if self._posture.commands_joints:
                self._posture.fail(reason)

    def set_bridge_fault(self, fault: str) -> None:
        """Set the reason for the fault of the robot's bridge, empty for none."""
        with self._lock:
            self._bridge_fault = fault
            if fault:
                self._posture.fail(f"the robot's bridge has stopped it: {fault}")

    def set_target_refusal(self, reason: str) -> None:
        """Set why the robot's bridge would refuse targets now, empty if it would not: see FollowingWatchdog."""
        with self._lock:
            self._following.refusal = reason

    def set_target_owner(self, owner: str, is_own: bool) -> None:
        """Set whom the robot's bridge follows, empty for no one, and whether that is this controller."""
        with self._lock:
            self._following.set_owner(owner, is_own)

    def prepare(self, now: float) -> None:
        """Do the part of the next cycle that needs no state, while the state is still on its way."""
        with self._lock:
            if self._posture.mode is Mode.WALKING:
                leaving = self._posture.leaving is not None
                self._runner.take_command(STANDSTILL if leaving else self.commands.wanted(now))

    def cycle(self, now: float) -> Array | None:
        """Return position targets (12,) [rad] for time `now` [s], within limits and slew, or None for damping."""
        with self._lock:
            self.policy_step = None
            if not self._posture.commands_joints:
                return None
            if problem := self._problem(now):
                self._posture.fail(problem)
                return None
            return self._targets()

    def _start(self) -> None:
        """Start targets at the measured joint positions."""
        self._limiter.start(self.state.joint_position)
        self._joint_error.reset()
        self._following.reset()

    def _problem(self, now: float) -> str | None:
        recovers = self._posture.mode is Mode.RECOVERING  # from any tilt, with its own limits
        problem = self.state.problem(now) or (None if recovers else self._tilt.check(self.state.orientation))
        problem = problem or self._following.check(now)
        if problem or not self._follows_targets:
            return problem
        return self._joint_error.check(self._limiter.last, self.state.joint_position)

    def _targets(self) -> Array | None:
        posture, state = self._posture, self.state
        if posture.mode is Mode.RECOVERING:
            posture.turn_over(self._period, state)
        else:
            at_rest = posture.leaving is not None and self._runner.at_rest
            posture.advance(self._period, state.joint_position, state.orientation, self._limiter.last, at_rest)
        if not posture.commands_joints:
            return None
        wanted = self._policy_targets() if posture.mode is Mode.WALKING else posture.pose()
        return None if wanted is None else self._limiter.limit(wanted)

    def _policy_targets(self) -> Array | None:
        runner, state, steps = self._runner, self.state, self._runner.steps
        try:
            targets = runner.targets(state, self._limiter.last)
        except NonFiniteObservation as error:
            self._posture.fail(str(error))
            return None
        if not np.isfinite(targets).all():
            self._posture.fail("the policy returned a target that is not finite; check the model file")
            return None
        if runner.steps != steps:
            self.policy_step = PolicyStep(0.0, 0.0, state.joints_stamp, state.imu_stamp, steps == 0, runner.command)
        return targets


def load_core(parameters: ControllerParameters, kind: type[Core]) -> Core:
    """Return a core of this class, its policy compiled and cold.

    Raises ValueError if robot file, model and parameters do not fit together.
    """
    robot = load_robot(parameters.robot)
    model = load_model(policy_path(robot.name, parameters.policy))
    check_robot(model, robot)
    policy = load_policy(model, parameters.runtime)
    policy.warm_up()  # before the robot depends on it
    return kind(robot, model, policy, parameters)
