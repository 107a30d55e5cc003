"""What takes the place of the control loop in a replay: cycles come as the recorded steps do, not by the clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from fcnet_controller.replay_core import ReplayCore
from fcnet_controller.replay_feed import StepsFeed, WalkFeed
from fcnet_controller.replay_result import ReplayResult
from fcnet_controller.target_publisher import TargetPublisher

TURN = 0.005  # [s] between two looks at what has come
QUIET = 0.5  # [s] without a message, after which none will come


class ReplayLoop:
    """Takes every step that can be taken, from `start` to `stop`, in the executor of the node."""

    is_running = True  # an error does not end it unseen: the executor raises it

    def __init__(
        self,
        node: Node,
        core: ReplayCore,
        feed: StepsFeed | WalkFeed,
        publisher: TargetPublisher,
        result: ReplayResult,
        on_change: Callable[[], None],
    ) -> None:
        self._node = node
        self._core = core
        self._feed = feed
        self._publisher = publisher
        self._result = result
        self._on_change = on_change
        self._told = (core.mode, core.fault)

    def start(self) -> None:
        """Begin to take steps."""
        self._timer = self._node.create_timer(TURN, self._turn, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def stop(self) -> None:
        """Take no more."""
        self._node.destroy_timer(self._timer)

    def finish(self) -> None:
        """Wait for the last messages; what has not come by then is lost."""
        last = time.monotonic()
        while time.monotonic() - last < QUIET:
            if self._turn():
                last = time.monotonic()
            time.sleep(TURN)
        self._advance(math.inf)

    def _turn(self) -> int:
        """The number of messages that have come."""
        taken = self._feed.take()
        self._advance(time.monotonic())
        return taken

    def _advance(self, now: float) -> None:
        for step in self._feed.replay.advance(now):
            self._core.statistics.cycles += 1
            self._result.add(step)
            self._publisher.publish(step.targets, step.stamp)
            if self._core.policy_step is not None:
                self._publisher.tell_step(self._core.policy_step)
        self._result.lost, self._result.faults = self._feed.replay.lost, self._feed.replay.faults
        if (self._core.mode, self._core.fault) != self._told:
            self._told = (self._core.mode, self._core.fault)
            self._on_change()
