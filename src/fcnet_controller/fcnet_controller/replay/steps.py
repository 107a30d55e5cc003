"""Lets the controller take recorded steps again, or walk over recorded states at its own pace."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from builtin_interfaces.msg import Time
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from fcnet_controller.replay.core import ReplayCore, ReplayFaultError, StampedMessages, stamp_of
from fcnet_core.limiter import RefusedCommandError, joint_command
from fcnet_core.observation import PolicyStep
from fcnet_replay.run import STALE

# Lets the controller take recorded steps again, each with the very messages and the command that it had.

Array = npt.NDArray[np.float64]
PATIENCE = 0.5  # [s] of real time that a message may come after later ones of its topic
LONG_PATIENCE = 10.0  # [s] of real time that a topic may be behind the steps: nothing is lost on the way


@dataclass(frozen=True)
class ReplayedStep:
    """stamp: of the recorded target; targets (12,) [rad]: what the policy says now; difference [rad]: the largest from
    what was sent; comparable: whether its memory held what the recorded policy's did.
    """

    stamp: Time
    targets: Array
    difference: float
    comparable: bool


class StepLostError(ValueError):
    """A step cannot be taken again; the sentence says why."""


class ReplaySteps:
    """Fill `joints`, `imu` and `targets` and add steps as messages arrive, then call `advance`; used by one thread.

    Topics arrive in any order among each other; `now` is real time [s], infinity when nothing more will come.
    `tell` is given a sentence whenever the policy has to start cold where the recorded one did not: after a step
    that is missing or cannot be taken, and when time runs backwards. cycles: of the controller for every step of the
    policy. lost: steps that could not be taken; faults: those among them with which the controller was in fault.
    """

    def __init__(self, core: ReplayCore, cycles: int, tell: Callable[[str], None]) -> None:
        self.joints, self.imu, self.targets = StampedMessages(), StampedMessages(), StampedMessages()
        self.lost = self.faults = 0
        self._core = core
        self._cycles = cycles
        self._pending: deque[tuple[float, PolicyStep]] = deque()  # with when it arrived
        self._tell = tell
        self._time = -math.inf  # stamp of the newest step, lost ones included
        self._before: PolicyStep | None = None  # the step that the memory ends with
        self._known = 0.0  # steps before the next one that the memory holds; infinite since a recorded cold start
        self._begins = False  # the next step is taken without a memory, and that has been told

    def add(self, step: PolicyStep, now: float) -> None:
        """Take a step that has just arrived."""
        self._pending.append((now, step))

    def advance(self, now: float) -> Iterator[ReplayedStep]:
        """Take every step that can be taken by now."""
        while self._pending:
            arrived, step = self._pending[0]
            if now < arrived + self._patience(step):
                return
            self._pending.popleft()
            try:
                self._watch_time(step)
                yield self._take(step)
            except StepLostError as error:
                self.lost += 1
                self._start_cold(str(error))
            except ReplayFaultError as fault:
                self.lost += 1
                self.faults += 1
                self._start_cold(f"the controller is in fault at {step.target_stamp:.3f} s: {fault}")

    def _watch_time(self, step: PolicyStep) -> None:
        before, self._time = self._time, step.target_stamp
        if step.target_stamp <= before:
            self._start_cold(f"time has jumped back by {before - step.target_stamp:.3f} s")

    def _patience(self, step: PolicyStep) -> float:
        """How long [s] to wait for what the step needs and is not there yet."""
        missing = [(messages, stamp) for _, messages, stamp in self._messages(step) if messages.get(stamp) is None]
        if not missing:
            return -math.inf
        _, newest = self._pending[-1]
        has_jumped_back = newest.target_stamp < step.target_stamp
        may_come = not has_jumped_back and any(messages.is_behind(stamp) for messages, stamp in missing)
        return LONG_PATIENCE if may_come else PATIENCE

    def _messages(self, step: PolicyStep) -> tuple[tuple[str, StampedMessages, float], ...]:
        return (
            ("joint_states", self.joints, step.joints_stamp),
            ("imu/data", self.imu, step.imu_stamp),
            ("joint_trajectory", self.targets, step.target_stamp),
            ("joint_trajectory", self.targets, step.previous_stamp),
        )

    def _take(self, step: PolicyStep) -> ReplayedStep:
        joints, imu, target, previous = (self._content(step, *part) for part in self._messages(step))
        message = deserialize_message(target, JointTrajectory)
        sent, last = _positions(message), _positions(deserialize_message(previous, JointTrajectory))
        self._core.see(joints, imu)
        self._prepare_memory(step)
        targets = self._core.repeat(step.command, last)
        comparable = self._known >= self._core.card.memory
        self._before = step
        self._known += 1
        return ReplayedStep(message.header.stamp, targets, float(np.abs(targets - sent).max()), comparable)

    def _content(self, step: PolicyStep, topic: str, messages: StampedMessages, stamp: float) -> bytes:
        content = messages.get(stamp)
        if content is None:
            raise StepLostError(f"the step at {step.target_stamp:.3f} s saw a {topic} that is not in the recording")
        return content

    def _prepare_memory(self, step: PolicyStep) -> None:
        """The memory is the recorded one's from a cold start on, for as long as no step is missing, and again when both
        have forgotten what was before.
        """
        before = self._before
        if step.cold:
            self._begins, self._known = True, math.inf
        elif before is None and not self._begins:
            self._start_cold("the recording begins in the middle of a walk")
        elif before is not None and self._is_missing_steps(before, step):
            self._start_cold(f"steps between {before.target_stamp:.3f} s and {step.target_stamp:.3f} s are missing")
        if self._begins:
            self._core.begin()
        self._begins = False

    def _is_missing_steps(self, before: PolicyStep, step: PolicyStep) -> bool:
        """Between two steps there are as many targets as control cycles, however late these were."""
        return self.targets.earlier(step.previous_stamp, self._cycles - 1) != before.target_stamp

    def _start_cold(self, reason: str) -> None:
        self._before, self._known, self._begins = None, 0.0, True
        self._tell(reason)


def _positions(message: JointTrajectory) -> Array:
    """The targets (12,) [rad] of a message that was sent by a policy."""
    try:
        point = message.points[0]
        targets = joint_command(message.joint_names, point.positions, point.velocities, point.effort).targets
    except (IndexError, RefusedCommandError) as error:
        raise StepLostError(f"a recorded joint_trajectory has no targets: {error}") from error
    if targets is None:
        raise StepLostError("a recorded joint_trajectory asks for damping where the policy sent targets")
    return targets


# Lets the controller walk over recorded states at its own pace, where a bag does not tell the steps of a policy.

UNKNOWN = float("nan")


class ReplayWalk:
    """Hand it messages as they arrive, then call `advance`; used by one thread. It walks from the first state on.

    Its time is that of the joint_states' stamps; `now` is real time [s], infinity when nothing more will come.
    `tell` is given a sentence when the policy has to start cold: after a gap, a fault, and when time runs backwards.
    lost: control cycles that could not be done; faults: those among them with which the controller was in fault.
    """

    def __init__(self, core: ReplayCore, control_rate: float, tell: Callable[[str], None]) -> None:
        self.imu = StampedMessages()
        self.commands = core.commands
        self.lost = self.faults = 0
        self.time = 0.0  # stamp of the joint_states that have arrived last
        self._core = core
        self._period = 1.0 / control_rate
        self._tell = tell
        self._pending: deque[tuple[float, float, bytes]] = deque()  # arrival, stamp and content of joint_states
        self._before: float | None = None
        self._due = 0.0
        self._begins = True

    def add_joints(self, content: bytes, now: float) -> None:
        """Take serialised joint_states that have just arrived."""
        before, self.time = self.time, stamp_of(content)
        if self.time < before:
            self.commands.clear()  # they would count until their time comes again
        self._pending.append((now, self.time, content))

    def advance(self, now: float) -> Iterator[ReplayedStep]:
        """Do every control cycle that can be done by now."""
        while self._pending:
            arrived, stamp, content = self._pending[0]
            self._watch_time(stamp)
            patience = LONG_PATIENCE if self.imu.is_behind(stamp) else PATIENCE
            if stamp >= self._due and now < arrived + patience and not self.imu.has_any(stamp, stamp + STALE):
                return
            self._pending.popleft()
            if stamp < self._due:
                continue
            self._due = (self._due if stamp - self._due < self._period else stamp) + self._period
            if step := self._cycle(stamp, content):
                yield step

    def _watch_time(self, stamp: float) -> None:
        before, self._before = self._before, stamp
        if before is None:
            return
        if stamp < before:
            self._start_cold(f"time has jumped back by {before - stamp:.3f} s")
            self._due = stamp
        elif stamp - before > STALE:
            self._start_cold(f"there are no joint_states for {stamp - before:.3f} s")

    def _cycle(self, stamp: float, joints: bytes) -> ReplayedStep | None:
        imu = self.imu.latest(stamp, stamp - STALE)
        if imu is None:
            self._lose("there is no imu/data at the time of a joint_states")
            return None
        self._core.see(joints, imu)
        if self._begins:
            self._core.begin()
            self._begins = False
        try:
            targets = self._core.walk_on(stamp)
        except ReplayFaultError as fault:
            self.faults += 1
            self._lose(f"the controller is in fault at {stamp:.3f} s: {fault}")
            return None
        return ReplayedStep(deserialize_message(joints, JointState).header.stamp, targets, UNKNOWN, comparable=False)

    def _lose(self, reason: str) -> None:
        self.lost += 1
        self._start_cold(reason)

    def _start_cold(self, reason: str) -> None:
        self._begins = True
        self._tell(reason)
