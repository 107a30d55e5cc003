"""Lets the controller walk over recorded states at its own pace, where a bag does not tell the steps of a policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState

from fcnet_controller.replay_core import ReplayCore, ReplayFaultError
from fcnet_controller.replay_messages import StampedMessages, stamp_of
from fcnet_controller.replay_steps import LONG_PATIENCE, PATIENCE, ReplayedStep
from fcnet_core.replay.counted_steps import STALE

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
