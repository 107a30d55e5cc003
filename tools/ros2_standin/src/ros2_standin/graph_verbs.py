"""Verbs about topics and services."""

import argparse
import itertools
import time
from collections import deque
from typing import Any

import numpy as np
import rclpy
import yaml
from rclpy.node import Node

from . import VerbError, add_command, add_verb
from .graph import absolute, call_service, graph_node, offered_profiles, receiving_profile, wait_for, wait_for_discovery
from .interfaces import as_plain, fill_message, load_interface

WINDOW = 10000  # messages over which a rate is measured


def _list(arguments: argparse.Namespace) -> int:
    with graph_node() as node:
        wait_for_discovery(node)
        for name, types in sorted(node.get_topic_names_and_types()):
            print(f"{name} [{', '.join(types)}]" if arguments.show_types else name)
    return 0


def _type_of_topic(node: Node, name: str) -> str:
    """Return the type that others use for the topic; VerbError if none does."""
    types = wait_for(node, lambda: dict(node.get_topic_names_and_types()).get(name))
    if not types:
        raise VerbError(f"topic '{name}' does not exist: see `ros2 topic list`, or give its type")
    return str(types[0])


def _echo(arguments: argparse.Namespace) -> int:
    received: deque[Any] = deque()
    with graph_node() as node:
        topic = absolute(arguments.topic_name)
        message_class = load_interface(arguments.message_type or _type_of_topic(node, topic), "msg")
        profile = receiving_profile(offered_profiles(node, topic))
        node.create_subscription(message_class, topic, lambda message: received.append(message), profile)
        while True:
            rclpy.spin_once(node, timeout_sec=0.2)
            while received:
                plain = as_plain(received.popleft())
                print(yaml.safe_dump(plain, sort_keys=False, width=10**9) + "---", flush=True)
                if arguments.once:
                    return 0


def _info(arguments: argparse.Namespace) -> int:
    with graph_node() as node:
        topic = absolute(arguments.topic_name)
        kind = _type_of_topic(node, topic)
        wait_for_discovery(node)
        print(f"Type: {kind}")
        ends = node.get_publishers_info_by_topic(topic), node.get_subscriptions_info_by_topic(topic)
        for side, infos in zip(("Publisher", "Subscription"), ends, strict=True):
            print(f"{side} count: {len(infos)}")
            for info in infos if arguments.verbose else ():
                print(f"  {info.node_namespace.rstrip('/')}/{info.node_name}")
    return 0


def _hz(arguments: argparse.Namespace) -> int:
    """Print the rate of messages every second, until Ctrl-C; without a publisher a message."""
    received: deque[float] = deque(maxlen=WINDOW)  # [s]
    shown = 0.0
    with graph_node() as node:
        topic = absolute(arguments.topic_name)
        while not (offered := offered_profiles(node, topic)):
            print(f"WARNING: topic [{topic}] does not appear to be published yet", flush=True)
        message_class = load_interface(_type_of_topic(node, topic), "msg")
        profile = receiving_profile(offered)
        node.create_subscription(message_class, topic, lambda _: received.append(time.monotonic()), profile, raw=True)
        for due in itertools.count(time.monotonic() + 1.0):
            while (rest := due - time.monotonic()) > 0:
                rclpy.spin_once(node, timeout_sec=rest)
            if len(received) > 1 and received[-1] != shown:
                shown = received[-1]
                gaps = np.diff(received)
                spread = f"min: {gaps.min():.3f}s max: {gaps.max():.3f}s std dev: {gaps.std():.5f}s"
                print(f"average rate: {1.0 / gaps.mean():.3f}\n\t{spread} window: {len(gaps)}", flush=True)
    return 0


def _publish(arguments: argparse.Namespace) -> int:
    if not 0.0 < arguments.rate < float("inf"):
        raise VerbError(f"--rate is {arguments.rate}: expected a positive number")
    message = load_interface(arguments.message_type, "msg")()
    fill_message(message, arguments.values)
    with graph_node() as node:
        publisher = node.create_publisher(type(message), arguments.topic_name, 10)
        start = time.monotonic()
        for number in itertools.count(1):
            publisher.publish(message)
            print(f"publishing #{number}: {message}\n", flush=True)
            time.sleep(max(0.0, start + number / arguments.rate - time.monotonic()))
    return 0


def _call(arguments: argparse.Namespace) -> int:
    service_class = load_interface(arguments.service_type, "srv")
    request = service_class.Request()
    fill_message(request, arguments.values)
    with graph_node() as node:
        print(f"requester: making request: {request!r}\n", flush=True)
        print(f"response:\n{call_service(node, service_class, arguments.service_name, request)!r}\n", flush=True)
    return 0


def add_commands(commands: Any) -> None:
    """Add `topic` and `service`."""
    topic, service = add_command(commands, "topic"), add_command(commands, "service")
    verb = add_verb(topic, "list", _list, "List the topics.")
    verb.add_argument("-t", "--show-types", action="store_true", help="show the types too")

    summary = "Print a topic's type and the number of its publishers and subscriptions."
    verb = add_verb(topic, "info", _info, summary, "topic_name")
    verb.add_argument("-v", "--verbose", action="store_true", help="name the nodes that publish and subscribe")

    verb = add_verb(topic, "echo", _echo, "Print the messages of a topic.", "topic_name")
    verb.add_argument("message_type", nargs="?", help="its type, unless it is known already")
    verb.add_argument("--once", action="store_true", help="print one message and end")

    add_verb(topic, "hz", _hz, "Print at which rate messages of a topic arrive.", "topic_name")

    publish = add_verb(topic, "pub", _publish, "Publish a message again and again.", "topic_name", "message_type")
    publish.add_argument("-r", "--rate", type=float, default=1.0, metavar="HZ", help="messages a second (1)")
    call = add_verb(service, "call", _call, "Call a service and print its response.", "service_name", "service_type")
    for verb in (publish, call):
        verb.add_argument("values", nargs="?", default="{}", help='the fields in YAML, such as "{linear: {x: 0.5}}"')
