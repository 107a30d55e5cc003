"""Walks a policy over recorded states at its own pace, for recordings that do not tell the steps of a policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Imu, JointState

from fcnet_controller.replay_messages import StampedMessages, stamp_of
from fcnet_controller.replay_state import ANY_AGE, NOW, store_state
from fcnet_controller.replay_steps import PATIENCE, ReplayedStep
from fcnet_controller.state_buffer import StateBuffer
from fcnet_core.command_arbiter import CommandArbiter
from fcnet_core.guard import NonFiniteObservation
from fcnet_core.joint_limiter import JointLimiter
from fcnet_core.model_file import PolicyModel
from fcnet_core.policy import Policy
from fcnet_core.replay.aligned_steps import COMMAND_TIMEOUT, STALE
from fcnet_core.robot import Robot
from fcnet_core.walking import Walking

UNKNOWN = float("nan")


class ReplayWalk:
    """Hand it messages as they arrive, then call `advance`; used by one thread. It walks from the first state on.

    Its time is that of the joint_states' stamps; `now` is real time [s], infinity when nothing more will come.
    `tell` is given a sentence when the policy has to start cold: after a gap, and when time runs backwards.
    """

    def __init__(
        self, robot: Robot, model: PolicyModel, policy: Policy, control_rate: float, tell: Callable[[str], None]
    ) -> None:
        self.imu = StampedMessages()
        self.commands = CommandArbiter(COMMAND_TIMEOUT)
        self.lost = 0
        self.time = 0.0  # stamp of the joint_states that have arrived last
        self._walking = Walking(policy, model, control_rate)
        self._limiter = JointLimiter(robot, 1.0 / control_rate)
        self._period = 1.0 / control_rate
        self._tell = tell
        self._state = StateBuffer(ANY_AGE)
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
            if stamp >= self._due and now < arrived + PATIENCE and not self.imu.has_any(stamp, stamp + STALE):
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

    def _cycle(self, stamp: float, content: bytes) -> ReplayedStep | None:
        imu = self.imu.latest(stamp, stamp - STALE)
        joints = deserialize_message(content, JointState)
        if problem := self._store(joints, imu):
            self._lose(problem)
            return None
        if self._begins:
            self._walking.begin()
            self._limiter.start(self._state.joint_position)
            self._begins = False
        self._walking.take_command(self.commands.wanted(stamp))
        try:
            targets = self._limiter.limit(self._walking.targets(self._state, self._limiter.last))
        except NonFiniteObservation as error:
            self._lose(str(error))
            return None
        return ReplayedStep(joints.header.stamp, targets, UNKNOWN, comparable=False)

    def _store(self, joints: JointState, imu_content: bytes | None) -> str | None:
        """Why these cannot be used."""
        if imu_content is None:
            return "there is no imu/data at the time of a joint_states"
        store_state(self._state, joints, deserialize_message(imu_content, Imu))
        return self._state.problem(NOW)

    def _lose(self, reason: str) -> None:
        self.lost += 1
        self._start_cold(reason)

    def _start_cold(self, reason: str) -> None:
        self._begins = True
        self._tell(reason)
