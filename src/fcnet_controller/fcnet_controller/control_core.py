"""The controller without ROS: requests come in from any thread, one thread calls `cycle` once per control period."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_controller.posture import Answer, Mode, Posture
from fcnet_core.command import CommandArbiter
from fcnet_core.control_clock import LatencyRing
from fcnet_core.limiter import JointLimiter
from fcnet_core.model_file import PolicyCard, PolicyModel
from fcnet_core.observation import NonFiniteObservation, PolicyStep
from fcnet_core.policy import Policy, Walking
from fcnet_core.robot import JOINT_NAMES, SETPOINT_FIELDS, Robot, Safety
from fcnet_ros.state import StateBuffer

# What the controller watches while joints follow targets; each watchdog returns a reason in words, or None.

Array = npt.NDArray[np.float64]


class TiltWatchdog:
    """Watches the angle between the trunk and the vertical."""

    def __init__(self, safety: Safety) -> None:
        self._limit = safety.max_tilt

    def check(self, orientation: Array) -> str | None:
        """Reason to give up for an orientation (4,) x, y, z, w."""
        x, y, _, _ = orientation.tolist()
        tilt = math.acos(max(-1.0, 1.0 - 2.0 * (x * x + y * y)))  # the body's z axis against the vertical
        if tilt <= self._limit:
            return None
        return f"the robot is tilted by {tilt:.2f} rad, the limit is {self._limit:g} rad; set it on its belly"


class JointErrorWatchdog:
    """Watches the distance between targets and measured positions, which grows when a leg is blocked or powerless.

    It counts only after the robot's joint_error_time: impacts pass, blocked legs stay.
    """

    def __init__(self, safety: Safety, period: float) -> None:
        self._limit = safety.max_joint_error
        self._patience = safety.joint_error_time
        self._period = period
        self._exceeded = 0.0

    def reset(self) -> None:
        """Forget how long a joint has been away."""
        self._exceeded = 0.0

    def check(self, target: Array, measured: Array) -> str | None:
        """Reason to give up for targets and positions (12,) [rad] that have been so for one more period."""
        error = np.abs(target - measured)
        worst = int(error.argmax())
        self._exceeded = self._exceeded + self._period if error[worst] > self._limit else 0.0
        if self._exceeded <= self._patience:
            return None
        return (
            f"{JOINT_NAMES[worst]} is {error[worst]:.2f} rad from its target, the limit is {self._limit:g} rad; "
            "look for a blocked leg or a motor without power"
        )


# Figures of the control loop: how late, how long, how often missed.

class LoopStatistics:
    """What a control loop has done since it was started.

    cycles: cycles run. misses: cycles that never ran because an earlier one came a whole period late. wake: from the
    deadline to the loop's awakening. step: one step of the policy. response: while walking, from the reception of the
    older part of the state that was used to the return of the publish call.
    """

    def __init__(self) -> None:
        self.cycles = 0
        self.misses = 0
        self.wake = LatencyRing()
        self.step = LatencyRing()
        self.response = LatencyRing()


EMERGENCY_STOP = "emergency stop"
STANDSTILL: Array = np.zeros(len(SETPOINT_FIELDS))


@dataclass(frozen=True)
class ControlSettings:
    """Rates [Hz] and times [s] of a controller; follows_targets: whether a joint that does not is a fault."""

    control_rate: float = 50.0
    state_timeout: float = 0.2
    command_timeout: float = 0.5
    stand_up_time: float = 2.0
    lie_down_time: float = 2.0
    follows_targets: bool = True


class ControlCore:
    """Decides, once per control period, what the joints shall do.

    One thread calls `prepare`, fills `state`, and calls `cycle`, once per control period; any thread may write to
    `commands` and make requests. Raises ValueError when the control rate does not suit the model.
    """

    def __init__(self, robot: Robot, model: PolicyModel, policy: Policy, settings: ControlSettings) -> None:
        period = 1.0 / settings.control_rate
        self.statistics = LoopStatistics()
        self.state = StateBuffer(settings.state_timeout)
        self.commands = CommandArbiter(settings.command_timeout)
        self._posture = Posture(robot, settings.stand_up_time, settings.lie_down_time)
        self._walking = Walking(policy, model, settings.control_rate, self.statistics.step.add)
        self._limiter = JointLimiter(robot, period)
        self._tilt = TiltWatchdog(robot.safety)
        self._joint_error = JointErrorWatchdog(robot.safety, period)
        self._robot_fault = self._robot_obstacle = ""
        self._bridge = f"{robot.name}_bridge"
        self._card = model.card
        self._follows_targets = settings.follows_targets
        self._longest_stall = settings.state_timeout
        self._period = period
        self._lock = threading.Lock()
        self.policy_step: PolicyStep | None = None  # of the last cycle, if the policy took one; targets' stamps 0

    @property
    def card(self) -> PolicyCard:
        """How the policy must be run."""
        return self._card

    @property
    def mode(self) -> Mode:
        """What the robot is doing."""
        return self._posture.mode

    @property
    def fault(self) -> str:
        """Why the robot is in fault, in words; empty when it is not."""
        return self._posture.fault

    def stand_up(self, now: float) -> Answer:
        """Ask to stand up (from passive), or to come to rest and stand (from walking)."""
        with self._lock:
            if self._posture.mode is Mode.PASSIVE:
                if problem := (
                    self.state.problem(now) or self._tilt.check(self.state.orientation) or self._robot_obstacle
                ):
                    return Answer(False, f"cannot stand up: {problem}")
                self._limiter.start(self.state.joint_position)
                self._joint_error.reset()
            return self._posture.stand_up(self._limiter.last)

    def walk(self) -> Answer:
        """Ask to walk, from standing; the policy starts with no memory."""
        with self._lock:
            if self._posture.mode is Mode.STANDING:
                self._walking.begin()
            return self._posture.walk()

    def lie_down(self) -> Answer:
        """Ask to lie down; a walking robot comes to rest first."""
        with self._lock:
            return self._posture.lie_down(self._limiter.last)

    def emergency_stop(self) -> Answer:
        """Damp all joints from the next cycle on, until reset."""
        with self._lock:
            self._posture.fail(EMERGENCY_STOP)
        return Answer(True, "stopped: the joints are damped until ~/reset")

    def stop_after_stall(self, duration: float) -> None:
        """Enter fault where joints follow targets and nobody has sent any for longer than a state may be old.

        A real robot's bridge has damped it meanwhile: how it lies now is not what the next target would be meant for.
        duration: how late the loop is [s].
        """
        with self._lock:
            if self._posture.commands_joints and duration > self._longest_stall:
                self._posture.fail(
                    f"the controller stood still for {duration:.2f} s; give it a core of its own, or end what keeps it"
                )

    def take_robot_fault(self, fault: str) -> None:
        """Take what the robot's bridge says: why it obeys no more, in words, or nothing while all is well."""
        with self._lock:
            self._robot_fault = fault
            if fault:
                self._posture.fail(f"the robot's bridge has stopped it: {fault}")

    def take_robot_obstacle(self, obstacle: str) -> None:
        """Take why the robot's bridge would not follow targets now, in words, or nothing: no robot stands up so."""
        with self._lock:
            self._robot_obstacle = obstacle

    def reset(self) -> Answer:
        """Leave fault for passive, unless the robot's bridge is in fault; commands given before are forgotten."""
        with self._lock:
            if self._robot_fault:
                return Answer(
                    False,
                    f"the robot's bridge is in fault ({self._robot_fault}); remove the cause, then reset the bridge "
                    f"first: ros2 service call /{self._bridge}/reset std_srvs/srv/Trigger",
                )
            self.commands.clear()
            return self._posture.reset()

    def make_passive(self) -> None:
        """Return to passive mode, for when nobody calls `cycle` any more; a fault stays."""
        with self._lock:
            self._posture.make_passive()

    def prepare(self, now: float) -> None:
        """Do what the next cycle needs and the state does not change, while the state is still on its way."""
        with self._lock:
            if self._posture.mode is Mode.WALKING:
                leaving = self._posture.leaving is not None
                self._walking.take_command(STANDSTILL if leaving else self.commands.wanted(now))

    def cycle(self, now: float) -> Array | None:
        """Position targets (12,) [rad] to send at time `now` [s], always within limits and slew; None means damp."""
        with self._lock:
            self.policy_step = None
            if not self._posture.commands_joints:
                return None
            if problem := self._watch(now):
                self._posture.fail(problem)
                return None
            return self._targets()

    def _watch(self, now: float) -> str | None:
        return self.state.problem(now) or self._tilt.check(self.state.orientation) or self._watch_joints()

    def _watch_joints(self) -> str | None:
        if not self._follows_targets:
            return None
        return self._joint_error.check(self._limiter.last, self.state.joint_position)

    def _targets(self) -> Array | None:
        posture = self._posture
        at_rest = posture.leaving is not None and self._walking.at_rest
        posture.advance(self._period, self.state.joint_position, self._limiter.last, at_rest)
        if not posture.commands_joints:
            return None
        wanted = self._policy_targets() if posture.mode is Mode.WALKING else posture.pose()
        return None if wanted is None else self._limiter.limit(wanted)

    def _policy_targets(self) -> Array | None:
        walking, steps = self._walking, self._walking.steps
        try:
            targets = walking.targets(self.state, self._limiter.last)
        except NonFiniteObservation as error:
            self._posture.fail(str(error))
            return None
        if not np.isfinite(targets).all():
            self._posture.fail("the policy returned a target that is not finite; check the model file")
            return None
        if walking.steps != steps:
            state = self.state
            self.policy_step = PolicyStep(0.0, 0.0, state.joints_stamp, state.imu_stamp, steps == 0, walking.command)
        return targets
