"""Withholds the start of a robot until the recorder of its launch receives what a node publishes.

A recorder subscribes to a topic after it has discovered its publisher, and receives nothing that was published before.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rclpy.node import Node

from fcnet_ros.parameters import parameter
from fcnet_ros.program import Stop

RECORDER = "rosbag2_recorder"  # the node of `ros2 bag record`
LAUNCH_TIMEOUT = 10.0  # [s] that launch files give as recorder_timeout where they record
CHECK_PERIOD = 0.05  # [s]


@dataclass(frozen=True)
class RecorderParameters:
    """Of every node that waits for a recorder."""

    recorder_timeout: float = parameter(
        0.0, "longest time [s] for which an automatic start waits until `ros2 bag record` subscribes", (0.0, 60.0)
    )


class RecorderGate:
    """Open once RECORDER subscribes to every one of `topics`, or after `timeout` [s]; at once where that is 0.

    topics: as the node's publishers name them, which exist already. The node that publishes is the one to look: once it
    has discovered the subscription, what it publishes reaches the recorder. `is_open` may be read by any thread.
    """

    def __init__(self, node: Node, topics: Sequence[str], timeout: float) -> None:
        self._node = node
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._missing = [node.resolve_topic_name(topic) for topic in topics]
        self.is_open = timeout <= 0.0

    def check(self) -> bool:
        """Return `is_open` after looking for subscriptions that are still missing; log how the waiting ended."""
        if self.is_open:
            return True
        self._missing = [topic for topic in self._missing if not self._is_recorded(topic)]
        if not self._missing:
            self._node.get_logger().info("the recorder has subscribed; starting")
        elif time.monotonic() > self._deadline:
            self._node.get_logger().warning(
                f"no recorder has subscribed to {', '.join(self._missing)} within {self._timeout:g} s; starting: "
                "a recording lacks the beginning"
            )
        else:
            return False
        self.is_open = True
        return True

    def wait(self, stop: Stop) -> None:
        """Check until it is open or `stop` is set."""
        while not self.check() and not stop.is_set():
            time.sleep(CHECK_PERIOD)

    def _is_recorded(self, topic: str) -> bool:
        return any(info.node_name == RECORDER for info in self._node.get_subscriptions_info_by_topic(topic))
