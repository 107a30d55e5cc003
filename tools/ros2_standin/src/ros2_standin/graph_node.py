"""A short-lived node that looks at the running system."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence

import rclpy
from rclpy.node import Node

from .participant_profile import participant_profile
from .verb_error import VerbError

DISCOVERY_SECONDS = 5.0


@contextlib.contextmanager
def graph_node(name: str = "", arguments: Sequence[str] = (), queue: int | None = None) -> Iterator[Node]:
    """Give a node with `name`, or one of its own, and ROS arguments such as remappings.

    queue: see participant_profile.
    """
    with participant_profile(queue):
        rclpy.init(args=[], signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
        node = rclpy.create_node(
            name or f"ros2_standin_{os.getpid()}",
            cli_args=list(arguments),
            enable_rosout=False,
            start_parameter_services=False,
        )
    try:
        yield node
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def wait_for_discovery(node: Node, quiet: float = 1.5) -> None:
    """Let other nodes become known, until nothing new has come for `quiet` seconds; there is no daemon that knows them.

    Nodes on a busy machine may answer late: while there seems to be nobody, it waits for DISCOVERY_SECONDS.
    """
    known, begun = -1, time.monotonic()
    changed = begun
    while time.monotonic() < (changed + quiet if len(node.get_node_names()) > 1 else begun + DISCOVERY_SECONDS):
        rclpy.spin_once(node, timeout_sec=0.1)
        names = len(node.get_topic_names_and_types()) + len(node.get_service_names_and_types())
        if names != known:
            known, changed = names, time.monotonic()


def wait_until(node: Node, known: Callable[[], bool], sentence: str) -> None:
    """Spin until `known()`; VerbError with `sentence` after DISCOVERY_SECONDS."""
    until = time.monotonic() + DISCOVERY_SECONDS
    while not known():
        if time.monotonic() > until:
            raise VerbError(sentence)
        rclpy.spin_once(node, timeout_sec=0.05)
