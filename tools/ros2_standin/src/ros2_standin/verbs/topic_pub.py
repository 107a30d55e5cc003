"""`ros2 topic pub`."""

from __future__ import annotations

import argparse
import time

SUMMARY = "Publish a message again and again."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("topic_name", help="the topic")
    parser.add_argument("message_type", help="its type, for example geometry_msgs/msg/Twist")
    parser.add_argument("values", nargs="?", default="{}", help='the fields in YAML, for example "{linear: {x: 0.5}}"')
    parser.add_argument("-r", "--rate", type=_positive, default=1.0, metavar="HZ", help="messages a second (1)")
    count = parser.add_mutually_exclusive_group()
    count.add_argument("-1", "--once", action="store_true", help="publish one message, after somebody listens")
    count.add_argument("-t", "--times", type=int, default=0, metavar="N", help="publish N messages")


def _positive(text: str) -> float:
    value = float(text)
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Publish until interrupted, or as many messages as asked for."""
    from ..graph_node import graph_node, wait_until
    from ..interface_type import load_interface
    from ..message_text import fill_message

    message = load_interface(arguments.message_type, "msg")()
    fill_message(message, arguments.values)
    times = 1 if arguments.once else arguments.times
    with graph_node() as node:
        publisher = node.create_publisher(type(message), arguments.topic_name, 10)
        if times:
            sentence = f"nobody listens to '{arguments.topic_name}': start a subscriber first"
            wait_until(node, lambda: publisher.get_subscription_count() > 0, sentence)
        next_time, sent = time.monotonic(), 0
        while not times or sent < times:
            publisher.publish(message)
            sent += 1
            print(f"publishing #{sent}: {message}\n", flush=True)
            next_time += 1.0 / arguments.rate
            time.sleep(max(0.0, next_time - time.monotonic()))
        if times:
            time.sleep(0.2)  # what was sent last is still on its way
    return 0
