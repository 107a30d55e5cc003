"""The controller without its node: requests come in from any thread; a loop with absolute deadlines runs the cycles."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np

from fcnet_controller.parameters import ControllerParameters, policy_path
from fcnet_controller.watchdogs import FollowingWatchdog, JointErrorWatchdog, TiltWatchdog
from fcnet_core import FcnetError
from fcnet_core.arrays import Array
from fcnet_core.command import CommandArbiter, Mode
from fcnet_core.legs.posture import Posture
from fcnet_core.legs.recovery import joint_beyond_limits
from fcnet_core.limiter import JointLimiter
from fcnet_core.model_file import PolicyModel, check_robot, load_model
from fcnet_core.observation import NonFiniteObservation, PolicyStep
from fcnet_core.policy import Policy, PolicyRunner, load_policy
from fcnet_core.robot import SETPOINT_FIELDS, Robot, load_robot
from fcnet_ros.health import LoopStatistics
from fcnet_ros.messages import StateBuffer, StateReceiver
from fcnet_ros.targets import TargetPublisher

EMERGENCY_STOP = "emergency stop"
FRESH = 0.0003  # [s] a state younger than this at the deadline is used at once
LONGEST_WAIT = 0.005  # [s] or half a period; how long a cycle waits for a younger one, a period at 200 Hz
STALLED_PERIODS = 3  # a loop that was late by more, and by more than the longest age of a state, stood still
DAMPING_MESSAGES = 3  # sent at the end, a period apart: a process that ends at once takes with it what is not delivered
ACKNOWLEDGE_TIMEOUT = 0.5  # [s]
STANDSTILL: Array = np.zeros(len(SETPOINT_FIELDS))

Core = TypeVar("Core", bound="ControlCore")


class ControlCore:
    """Decides, once per control period, what the joints shall do.

    One thread calls `prepare`, fills `state`, and calls `cycle`, once per control period; any thread may write to
    `commands` and make requests, which return a sentence, or raise FcnetError with one where they are refused.
    `policy_step` is what the policy saw in the last cycle, its targets' stamps 0, or None
    where it took no step. statistics: `wake` is from a deadline to the loop's awakening, `step` one step of the policy,
    `response`, while walking, from the reception of the older part of the state to the return of the publish call.
    Raises ValueError when the control rate does not suit the model.
    """

    def __init__(self, robot: Robot, model: PolicyModel, policy: Policy, parameters: ControllerParameters) -> None:
        self._period = 1.0 / parameters.control_rate
        self.model = model
        self.statistics = LoopStatistics("wake", "step", "response")
        self.state = StateBuffer(parameters.state_timeout)
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
        """What the robot is doing."""
        return self._posture.mode

    @property
    def fault(self) -> str:
        """Why the robot is in fault, in words; empty when it is not."""
        return self._posture.fault

    @property
    def limited(self) -> str:
        """How commands are limited to what the policy was trained for, in words; empty when they are not."""
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
        """Request to get up after a fall, from passive: whatever the robot lies on, it turns over and stands up."""
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
        """Leave fault for passive, unless the robot's bridge is in fault; commands given before are dropped."""
        with self._lock:
            if self._bridge_fault:
                raise FcnetError(
                    f"the robot's bridge is in fault ({self._bridge_fault}); remove the cause, then reset the bridge "
                    f"first: ros2 service call /{self._bridge}/reset std_srvs/srv/Trigger",
                )
            self.commands.clear()
            return self._posture.reset()

    def make_passive(self) -> None:
        """Return to passive mode, for when no loop calls `cycle` any more; a fault stays."""
        with self._lock:
            self._posture.make_passive()

    def stop_after_stall(self, duration: float) -> bool:
        """Enter fault where joints follow targets and the loop was late by `duration` [s], longer than a state's age;
        return whether it was that late.

        A real robot's bridge has damped it meanwhile, so the pose for which the next target was meant is gone.
        """
        if duration <= self._longest_stall:
            return False
        with self._lock:
            if self._posture.commands_joints:
                self._posture.fail(
                    f"the controller stood still for {duration:.2f} s; give it a core of its own, or end what keeps it"
                )
        return True

    def set_bridge_fault(self, fault: str) -> None:
        """Take why the robot's bridge is in fault, in words, or nothing while all is well."""
        with self._lock:
            self._bridge_fault = fault
            if fault:
                self._posture.fail(f"the robot's bridge has stopped it: {fault}")

    def set_target_refusal(self, reason: str) -> None:
        """Take why the robot's bridge would refuse targets now, in words, or nothing: see FollowingWatchdog."""
        with self._lock:
            self._following.refusal = reason

    def set_target_owner(self, owner: str, is_own: bool) -> None:
        """Take whom the robot's bridge follows, nobody where empty, and whether that is this controller."""
        with self._lock:
            self._following.set_owner(owner, is_own)

    def prepare(self, now: float) -> None:
        """Do what the next cycle needs and the state does not change, while the state is still on its way."""
        with self._lock:
            if self._posture.mode is Mode.WALKING:
                leaving = self._posture.leaving is not None
                self._runner.take_command(STANDSTILL if leaving else self.commands.wanted(now))

    def cycle(self, now: float) -> Array | None:
        """Return position targets (12,) [rad] for time `now` [s], within limits and slew, or None, which means damp."""
        with self._lock:
            self.policy_step = None
            if not self._posture.commands_joints:
                return None
            if problem := self._problem(now):
                self._posture.fail(problem)
                return None
            return self._targets()

    def _start(self) -> None:
        """Let targets begin where the joints are."""
        self._limiter.start(self.state.joint_position)
        self._joint_error.reset()
        self._following.reset()

    def _problem(self, now: float) -> str | None:
        recovers = self._posture.mode is Mode.RECOVERING  # from any tilt, within limits of its own
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


class ControlLoop:
    """Runs cycles in its own thread from `start` to `stop`, which leaves the robot damped.

    Each cycle begins at its deadline or, where states come regularly, with the next state after it: what is sent is
    then never older than the cycle itself. A cycle that comes a whole period late is left out and counted. `on_change`
    is called after every change of mode or fault, and at the end; `on_start` first, in the thread.
    """

    def __init__(
        self,
        core: ControlCore,
        receiver: StateReceiver,
        publisher: TargetPublisher,
        rate: float,
        on_change: Callable[[], None],
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        self._core = core
        self._receiver = receiver
        self._publisher = publisher
        self._period = 1.0 / rate
        self._on_change, self._on_start = on_change, on_start
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    @property
    def is_running(self) -> bool:
        """Whether the thread is alive; an error in it ends it."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to command the robot."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it; the last thing it sends is damping."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._on_start()
            self._run_cycles()
        finally:
            for _ in range(DAMPING_MESSAGES):
                self._publisher.publish(None)
                time.sleep(self._period)
            self._publisher.wait_until_received(ACKNOWLEDGE_TIMEOUT)
            self._on_change()

    def _run_cycles(self) -> None:
        core, deadline = self._core, time.monotonic()
        reported = (core.mode, core.fault)
        while not self._stopping.is_set():
            deadline = self._wait_until(deadline + self._period)
            core.prepare(time.monotonic())
            self._receiver.receive(deadline - FRESH, deadline + min(LONGEST_WAIT, 0.5 * self._period))
            self._stalled_since(deadline)
            targets = core.cycle(time.monotonic())
            # Where the process is stopped in the middle of a cycle, what was decided before is not sent afterwards.
            self._publisher.publish(None if self._stalled_since(deadline) else targets)
            if core.policy_step is not None:
                self._publisher.publish_step(core.policy_step)
            if core.mode is Mode.WALKING:
                core.statistics.add("response", time.monotonic() - core.state.received)
            core.statistics.cycles += 1
            if (core.mode, core.fault) != reported:
                reported = (core.mode, core.fault)
                self._on_change()

    def _stalled_since(self, deadline: float) -> bool:
        """Whether this loop has stood still since the deadline; the controller is then in fault."""
        late = time.monotonic() - deadline
        return late > STALLED_PERIODS * self._period and self._core.stop_after_stall(late)

    def _wait_until(self, deadline: float) -> float:
        """Sleep until the deadline; return it, or the newest one where whole periods have been missed."""
        remaining = deadline - time.monotonic()
        if remaining > 0:
            time.sleep(remaining)
        late = time.monotonic() - deadline
        self._core.statistics.add("wake", late)
        self._stalled_since(deadline)
        missed = int(late / self._period)
        self._core.statistics.misses += missed
        return deadline + missed * self._period


def load_core(parameters: ControllerParameters, kind: type[Core]) -> Core:
    """Return a core of this kind, its policy compiled and cold.

    Raises ValueError (or a kind of it) with one sentence when robot file, model and parameters do not fit together.
    """
    robot = load_robot(parameters.robot)
    model = load_model(policy_path(robot.name, parameters.policy))
    check_robot(model, robot)
    policy = load_policy(model, parameters.runtime)
    policy.warm_up()  # before the robot depends on it
    return kind(robot, model, policy, parameters)
