"""`ros2 topic hz`."""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections import deque
from typing import Any

SUMMARY = "Print the rate of a topic every second."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("topic_name", help="the topic")
    parser.add_argument("-w", "--window", type=int, default=10000, help="how many messages to average over")


def run(arguments: argparse.Namespace) -> int:
    """Print rates until interrupted."""
    import rclpy

    from ..graph_node import graph_node, wait_for_discovery
    from ..interface_type import load_interface
    from ..topic import absolute, matching_qos, type_of_topic

    times: deque[float] = deque(maxlen=arguments.window + 1)

    def note(_message: Any) -> None:
        times.append(time.monotonic())

    with graph_node() as node:
        topic = absolute(arguments.topic_name)
        message_class = load_interface(type_of_topic(node, topic), "msg")
        wait_for_discovery(node, 0.5)
        node.create_subscription(message_class, topic, note, matching_qos(node, topic), raw=True)
        shown = time.monotonic()
        while True:
            rclpy.spin_once(node, timeout_sec=0.2)
            if time.monotonic() - shown >= 1.0:
                shown = time.monotonic()
                print(_report(list(times)), flush=True)


def _report(times: list[float]) -> str:
    if len(times) < 2:
        return "no new messages"
    periods = [later - earlier for earlier, later in itertools.pairwise(times)]
    mean = sum(periods) / len(periods)
    deviation = math.sqrt(sum((period - mean) ** 2 for period in periods) / len(periods))
    return (
        f"average rate: {1 / mean:.3f}\n"
        f"\tmin: {min(periods):.3f}s max: {max(periods):.3f}s std dev: {deviation:.5f}s window: {len(times)}"
    )
