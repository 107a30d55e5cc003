"""The controller of one robot, without ROS: posture machine, watchdogs and the runner of its policy."""

import math
import threading

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.control.command import VELOCITY_TIMEOUT, CommandArbiter
from fcnet_core.control.runner import PolicyRunner
from fcnet_core.errors import FcnetError
from fcnet_core.legs.posture import Posture
from fcnet_core.legs.recovery import joint_beyond_limits
from fcnet_core.names import Mode
from fcnet_core.observation import PolicyStep, RobotState
from fcnet_core.robot import SETPOINT_FIELDS, Robot, Safety

EMERGENCY_STOP = "emergency stop"
MOTION_TIME = 2.0  # [s] default duration of standing up, and of lying down
STATE_TIMEOUT = 0.2  # [s] default age from which a state is a fault
FOLLOWING_PATIENCE = 0.1  # [s] for which a robot's bridge may not follow targets that it has followed before
FIRST_PATIENCE = 0.5  # [s] until it reports that it follows the first ones; the joints have not moved by then
STANDSTILL: Array = np.zeros(len(SETPOINT_FIELDS))


class Controller:
    """Decides the joint targets of one robot, once per control period of the runner's limiter.

    Its time [s] is the loop's: a monotonic clock or simulated time; ages and timeouts are counted in it. In each
    period, one thread calls `prepare`, brings `state` up to date, and calls `cycle`. Any thread may write to `commands`
    and make requests, which return a sentence for the user or raise FcnetError. Targets of all modes pass the limiter.
    A runner without a policy is enough for standing up and lying down.

    stand_up_time, lie_down_time [s]; command_timeout [s]: age from which a velocity counts as zero; longest_stall [s]:
    the most by which a cycle may be late; follows_targets: whether joints away from their targets are a fault.
    following: its attributes are set from the reports of the robot's bridge.
    policy_step: inputs of the policy in the last cycle, with target stamps of 0; None if it took no step.
    """

    def __init__(
        self,
        robot: Robot,
        state: RobotState,
        runner: PolicyRunner,
        stand_up_time: float = MOTION_TIME,
        lie_down_time: float = MOTION_TIME,
        command_timeout: float = VELOCITY_TIMEOUT,
        longest_stall: float = STATE_TIMEOUT,
        follows_targets: bool = True,
    ) -> None:
        self.state, self.runner = state, runner
        self.commands = CommandArbiter(command_timeout)
        self.posture = Posture(robot, stand_up_time, lie_down_time)
        self.policy_step: PolicyStep | None = None
        self._robot, self._limiter, self._period = robot, runner.limiter, runner.limiter.period
        self._away = 0.0  # [s] for which a joint has been too far from its target
        self.following = FollowingWatchdog()
        self._follows_targets, self._longest_stall = follows_targets, longest_stall
        self._bridge_fault = ""
        self._lock = threading.Lock()

    @property
    def mode(self) -> Mode:
        return self.posture.mode

    @property
    def fault(self) -> str:
        """The reason for the fault, empty outside fault."""
        return self.posture.fault

    @property
    def limited(self) -> str:
        """How commands are limited to the policy's trained range, in words; empty if they are not."""
        return self.runner.shaper.limited() if self.mode is Mode.WALKING else ""

    def stand_up(self, now: float) -> str:
        """Request to stand up (from passive), or to come to rest and stand (from walking)."""
        with self._lock:
            if self.mode is Mode.PASSIVE:
                problem = self.state.problem(now) or tilt_problem(self._robot.safety, self.state.orientation)
                if problem := problem or self.state.conflict() or self.following.obstacle():
                    raise FcnetError(f"cannot stand up: {problem}")
                self._start()
            return self.posture.stand_up(self._limiter.last, self.state.orientation)

    def recover(self, now: float) -> str:
        """Request to get up after a fall, from passive: the robot turns over, from any side, and stands up."""
        with self._lock:
            if self.mode is Mode.PASSIVE:
                problem = self.state.problem(now) or joint_beyond_limits(self._robot, self.state.joint_position)
                if problem := problem or self.state.conflict() or self.following.obstacle():
                    raise FcnetError(f"cannot recover: {problem}")
                self._start()
            return self.posture.recover(self._limiter.last)

    def walk(self) -> str:
        """Request to walk, from standing; the policy starts cold."""
        with self._lock:
            if self.mode is Mode.STANDING:
                self.runner.reset()
            return self.posture.walk()

    def walk_on(self) -> None:
        """Walk from the measured pose without standing up, for simulated robots that stand; the policy starts cold.

        No effect after an emergency stop.
        """
        with self._lock:
            if self.fault != EMERGENCY_STOP:
                self.posture.walk_on()
                self.runner.reset()
                self._start()

    def lie_down(self) -> str:
        """Request to lie down; a walking robot comes to rest first."""
        with self._lock:
            return self.posture.lie_down(self._limiter.last)

    def emergency_stop(self) -> None:
        """Damp all joints from the next cycle on, until reset."""
        with self._lock:
            self.posture.fail(EMERGENCY_STOP)

    def reset(self) -> str:
        """Leave fault for passive, unless the robot's bridge is in fault; earlier commands are dropped."""
        with self._lock:
            if self._bridge_fault:
                call = f"ros2 service call /{self._robot.name}_bridge/reset std_srvs/srv/Trigger"
                fault = f"the robot's bridge is in fault ({self._bridge_fault})"
                raise FcnetError(f"{fault}; remove the cause, then reset the bridge first: {call}")
            self.commands.clear()
            return self.posture.reset()

    def make_passive(self) -> None:
        """Return to passive mode when no loop calls `cycle` any more; a fault stays."""
        with self._lock:
            self.posture.make_passive()

    def stop_after_stall(self, duration: float) -> bool:
        """Return whether the loop was late by more [s] than `longest_stall`; if so, enter fault while joints follow
        targets.

        A real robot's bridge has damped it by then, so the robot has left the pose for which the next target is meant.
        """
        if duration <= self._longest_stall:
            return False
        self.stop(f"the controller stood still for {duration:.2f} s; give it a CPU core of its own")
        return True

    def stop(self, reason: str) -> None:
        """Enter fault for this reason if joints follow targets."""
        with self._lock:
            if self.posture.commands_joints:
                self.posture.fail(reason)

    def set_bridge_fault(self, fault: str) -> None:
        """Set the reason for the fault of the robot's bridge, empty for none."""
        with self._lock:
            self._bridge_fault = fault
            if fault:
                self.posture.fail(f"the robot's bridge has stopped it: {fault}")

    def prepare(self, now: float, setpoint: Array | None = None) -> None:
        """Do the part of the next cycle that needs no state, while the state is still on its way.

        setpoint (9,): instead of `commands`.
        """
        with self._lock:
            if self.mode is Mode.WALKING:
                wanted = self.commands.wanted(now) if setpoint is None else setpoint
                self.runner.take_command(STANDSTILL if self.posture.leaving else wanted)

    def cycle(self, now: float) -> Array | None:
        """Return position targets (N,) [rad] for time `now` [s], within limits and slew, or None for damping."""
        with self._lock:
            self.policy_step = None
            if self.posture.commands_joints and (problem := self._problem(now)):
                self.posture.fail(problem)
            return self._targets() if self.posture.commands_joints else None

    def _start(self) -> None:
        self._limiter.start(self.state.joint_position)
        self._away = 0.0
        self.following.reset()

    def _problem(self, now: float) -> str | None:
        state, safety = self.state, self._robot.safety
        recovers = self.mode is Mode.RECOVERING  # from any tilt, with its own limits
        problem = state.problem(now) or (None if recovers else tilt_problem(safety, state.orientation))
        problem = problem or self.following.check(now)
        return problem if problem or not self._follows_targets else self._joint_error()

    def _joint_error(self) -> str | None:
        """Return the reason for a fault if a joint stays away from its target: impacts pass, blocked legs stay."""
        error, safety = np.abs(self._limiter.last - self.state.joint_position), self._robot.safety
        worst, limit = int(error.argmax()), safety.max_joint_error
        self._away = self._away + self._period if error[worst] > limit else 0.0
        if self._away <= safety.joint_error_time:
            return None
        joint, remedy = self._robot.joint_names[worst], "look for a blocked leg or a motor without power"
        return f"{joint} is {error[worst]:.2f} rad from its target, the limit is {limit:g} rad; {remedy}"

    def _targets(self) -> Array | None:
        posture, runner, state = self.posture, self.runner, self.state
        posture.advance(self._period, state, self._limiter.last, posture.leaving is not None and runner.at_rest)
        if not posture.commands_joints:
            return None
        if posture.mode is not Mode.WALKING:
            return runner.send(posture.pose())
        steps = runner.steps
        try:
            targets = runner.targets(state)
        except FcnetError as error:
            posture.fail(str(error))
            return None
        if runner.steps != steps:
            command = runner.setpoint, float(runner.phase), bool(runner.walking)
            self.policy_step = PolicyStep(0.0, 0.0, state.joints_stamp, state.imu_stamp, steps == 0, *command)
        return targets


def tilt_problem(safety: Safety, orientation: Array) -> str | None:
    """Return the reason for a fault if the trunk, at an orientation (4,) x, y, z, w, is tilted too far; or None."""
    x, y, _, _ = orientation.tolist()
    tilt = math.acos(max(-1.0, 1.0 - 2.0 * (x * x + y * y)))  # the body's z axis against the vertical
    if tilt <= safety.max_tilt:
        return None
    return f"the robot is tilted by {tilt:.2f} rad, the limit is {safety.max_tilt:g} rad; set it on its belly"


class FollowingWatchdog:
    """Watches whether the robot's bridge follows this controller's targets.

    Any thread may set `refusal`: why the bridge would refuse all targets now, empty if it would not; and `owner`: whom
    it follows, empty for no one, and whether that is this controller. For a simulated robot, which has no bridge,
    neither is ever set.
    """

    def __init__(self) -> None:
        self.refusal = ""
        self.owner: tuple[str, bool] | None = None
        self.reset()

    def reset(self) -> None:
        """Restart before the first of several targets."""
        self._unfollowed, self._has_followed = math.inf, False  # [s] since when; before

    def obstacle(self) -> str:
        """Return why targets would not be followed now; empty if they would."""
        owner, is_own = self.owner or ("", False)
        return self.refusal or (f"it follows {owner}" if owner and not is_own else "")

    def check(self, now: float) -> str | None:
        """Return the reason for a fault, or None, in a cycle at `now` [s] in which targets are sent."""
        obstacle, owner = self.obstacle(), self.owner
        problem = obstacle or ("it follows no controller" if owner is not None and not owner[0] else "")
        if not problem:
            self._has_followed, self._unfollowed = owner is not None, math.inf
            return None
        self._unfollowed = min(self._unfollowed, now)
        starts = not self._has_followed and not obstacle
        if now - self._unfollowed < (FIRST_PATIENCE if starts else FOLLOWING_PATIENCE):
            return None
        return f"the robot's bridge does not follow this controller: {problem}"
