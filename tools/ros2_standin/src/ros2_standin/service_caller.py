"""Calling services."""

from __future__ import annotations

from typing import Any

import rclpy
from rclpy.node import Node

from .graph_node import DISCOVERY_SECONDS
from .verb_error import VerbError

ANSWER_SECONDS = 30.0


def call_service(node: Node, service_class: Any, name: str, request: Any) -> Any:
    """Return the answer; VerbError if nobody offers the service or no answer comes."""
    client = node.create_client(service_class, name)
    if not client.wait_for_service(timeout_sec=DISCOVERY_SECONDS):
        raise VerbError(f"nobody offers the service '{name}': see `ros2 service list`")
    future = client.call_async(request)
    rclpy.spin_until_future_complete(node, future, timeout_sec=ANSWER_SECONDS)
    if not future.done():
        raise VerbError(f"the service '{name}' gave no answer within {ANSWER_SECONDS:g} s")
    return future.result()
