"""`ros2 topic echo`."""

from __future__ import annotations

import argparse
import functools
from typing import Any

SUMMARY = "Print the messages of a topic."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("topic_name", help="the topic")
    parser.add_argument("message_type", nargs="?", help="its type, unless it is known already")
    parser.add_argument("--once", action="store_true", help="print one message and end")
    parser.add_argument("--field", help="print only this field, nested ones with dots")


def run(arguments: argparse.Namespace) -> int:
    """Print messages until interrupted, or one."""
    import rclpy

    from ..graph_node import graph_node, wait_for_discovery
    from ..interface_type import load_interface
    from ..topic import absolute, matching_qos, type_of_topic

    seen: list[Any] = []

    def show(message: Any) -> None:
        if not (arguments.once and seen):
            seen.append(None)
            print(_text(message, arguments.field) + "---", flush=True)

    with graph_node() as node:
        topic = absolute(arguments.topic_name)
        message_class = load_interface(arguments.message_type or type_of_topic(node, topic), "msg")
        wait_for_discovery(node, 0.5)
        node.create_subscription(message_class, topic, show, matching_qos(node, topic))
        while not (arguments.once and seen):
            rclpy.spin_once(node, timeout_sec=0.2)
    return 0


def _text(message: Any, field: str | None) -> str:
    import yaml

    from ..message_text import as_plain, message_as_text
    from ..verb_error import VerbError

    if field is None:
        return message_as_text(message)
    try:
        value = as_plain(functools.reduce(getattr, field.split("."), message))
    except AttributeError as error:
        raise VerbError(f"the message has no field '{field}'") from error
    return f"{value}\n" if isinstance(value, (str, bool, int, float)) else yaml.safe_dump(value, sort_keys=False)
