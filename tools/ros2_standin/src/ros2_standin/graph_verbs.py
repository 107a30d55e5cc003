"""Verbs about topics, services and managed nodes."""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections import deque
from typing import Any

import rclpy
import yaml
from rclpy.node import Node

from . import VerbError, add_command, add_verb
from .graph import (
    DISCOVERY_SECONDS,
    absolute,
    call_service,
    graph_node,
    receiving_profile,
    wait_for_discovery,
    wait_for_publishers,
)
from .interfaces import as_plain, fill_message, load_interface

WINDOW = 10000  # messages over which a rate is measured
TRANSITIONS = ("configure", "activate", "deactivate", "cleanup", "shutdown")


def _list(arguments: argparse.Namespace) -> int:
    with graph_node() as node:
        wait_for_discovery(node)
        for name, types in sorted(node.get_topic_names_and_types()):
            print(f"{name} [{', '.join(types)}]" if arguments.show_types else name)
    return 0


def _type_of_topic(node: Node, name: str) -> str:
    """Return the type that others use for the topic; VerbError if none does."""
    deadline = time.monotonic() + DISCOVERY_SECONDS
    while not (types := dict(node.get_topic_names_and_types()).get(name)):
        if time.monotonic() > deadline:
            raise VerbError(f"topic '{name}' does not exist: see `ros2 topic list`, or give its type")
        rclpy.spin_once(node, timeout_sec=0.05)
    return types[0]


def _echo(arguments: argparse.Namespace) -> int:
    seen: list[Any] = []

    def show(message: Any) -> None:
        if arguments.once and seen:
            return
        seen.append(None)
        print(yaml.safe_dump(as_plain(message), sort_keys=False, width=10**9) + "---", flush=True)

    with graph_node() as node:
        topic = absolute(arguments.topic_name)
        message_class = load_interface(arguments.message_type or _type_of_topic(node, topic), "msg")
        offered = wait_for_publishers(node, topic)
        node.create_subscription(message_class, topic, show, receiving_profile(offered, depth=10))
        while not (arguments.once and seen):
            rclpy.spin_once(node, timeout_sec=0.2)
    return 0


def _info(arguments: argparse.Namespace) -> int:
    with graph_node() as node:
        topic = absolute(arguments.topic_name)
        kind = _type_of_topic(node, topic)
        wait_for_discovery(node)
        print(f"Type: {kind}")
        ends = {
            "Publisher": node.get_publishers_info_by_topic(topic),
            "Subscription": node.get_subscriptions_info_by_topic(topic),
        }
        for side, infos in ends.items():
            print(f"{side} count: {len(infos)}")
            for info in infos if arguments.verbose else ():
                print(f"  {info.node_namespace.rstrip('/')}/{info.node_name}")
    return 0


def _hz(arguments: argparse.Namespace) -> int:
    """Print the rate of messages every second, until Ctrl-C; without a publisher print a message."""
    intervals: deque[float] = deque(maxlen=WINDOW)
    received: list[float] = []  # when the newest message was

    def take(_content: bytes) -> None:
        now = time.monotonic()
        intervals.extend(now - before for before in received)
        received[:] = [now]

    with graph_node() as node:
        topic = absolute(arguments.topic_name)
        waits = False
        while not (offered := wait_for_publishers(node, topic)):
            if not waits:
                print(f"WARNING: topic [{topic}] does not appear to be published yet", flush=True)
            waits = True
        message_class = load_interface(_type_of_topic(node, topic), "msg")
        node.create_subscription(message_class, topic, take, receiving_profile(offered, depth=10), raw=True)
        shown, due = 0.0, time.monotonic() + 1.0
        while True:
            rclpy.spin_once(node, timeout_sec=max(0.0, due - time.monotonic()))
            if time.monotonic() < due:
                continue
            due += 1.0
            if intervals and received[0] != shown:
                shown = received[0]
                print(_rate_of(list(intervals)), flush=True)


def _rate_of(intervals: list[float]) -> str:
    mean = statistics.fmean(intervals)
    return (
        f"average rate: {1.0 / mean if mean else 0.0:.3f}\n\tmin: {min(intervals):.3f}s max: {max(intervals):.3f}s "
        f"std dev: {statistics.pstdev(intervals):.5f}s window: {len(intervals)}"
    )


def _publish(arguments: argparse.Namespace) -> int:
    message = load_interface(arguments.message_type, "msg")()
    fill_message(message, arguments.values)
    with graph_node() as node:
        publisher = node.create_publisher(type(message), arguments.topic_name, 10)
        next_time = time.monotonic()
        for number in itertools.count(1):
            publisher.publish(message)
            print(f"publishing #{number}: {message}\n", flush=True)
            next_time += 1.0 / arguments.rate
            time.sleep(max(0.0, next_time - time.monotonic()))
    return 0


def _call(arguments: argparse.Namespace) -> int:
    service_class = load_interface(arguments.service_type, "srv")
    request = service_class.Request()
    fill_message(request, arguments.values)
    with graph_node() as node:
        print(f"requester: making request: {request!r}\n", flush=True)
        print(f"response:\n{call_service(node, service_class, arguments.service_name, request)!r}\n", flush=True)
    return 0


def _transition(arguments: argparse.Namespace) -> int:
    service_class = load_interface("lifecycle_msgs/srv/ChangeState", "srv")
    request = service_class.Request()
    request.transition.label = arguments.transition
    with graph_node() as node:
        response = call_service(node, service_class, f"{absolute(arguments.node_name)}/change_state", request)
    print("Transitioning successful" if response.success else "Transitioning failed")
    return 0 if response.success else 1


def add_commands(commands: Any) -> None:
    """Add `topic`, `service` and `lifecycle`."""
    topic = add_command(commands, "topic")
    verb = add_verb(topic, "list", _list, "List the topics.")
    verb.add_argument("-t", "--show-types", action="store_true", help="show the types too")

    verb = add_verb(topic, "info", _info, "Print a topic's type and the number of its publishers and subscriptions.")
    verb.add_argument("topic_name", help="the topic")
    verb.add_argument("-v", "--verbose", action="store_true", help="name the nodes that publish and subscribe")

    verb = add_verb(topic, "echo", _echo, "Print the messages of a topic.")
    verb.add_argument("topic_name", help="the topic")
    verb.add_argument("message_type", nargs="?", help="its type, unless it is known already")
    verb.add_argument("--once", action="store_true", help="print one message and end")

    values_help = 'the fields in YAML, for example "{linear: {x: 0.5}}"'
    verb = add_verb(topic, "hz", _hz, "Print at which rate messages of a topic arrive.")
    verb.add_argument("topic_name", help="the topic")

    verb = add_verb(topic, "pub", _publish, "Publish a message again and again.")
    verb.add_argument("topic_name", help="the topic")
    verb.add_argument("message_type", help="its type, for example geometry_msgs/msg/Twist")
    verb.add_argument("values", nargs="?", default="{}", help=values_help)
    verb.add_argument("-r", "--rate", type=positive, default=1.0, metavar="HZ", help="messages a second (1)")

    verb = add_verb(add_command(commands, "service"), "call", _call, "Call a service and print its response.")
    verb.add_argument("service_name", help="the service")
    verb.add_argument("service_type", help="its type, for example std_srvs/srv/Trigger")
    verb.add_argument("values", nargs="?", default="{}", help=values_help)

    verb = add_verb(add_command(commands, "lifecycle"), "set", _transition, "Let a managed node change its state.")
    verb.add_argument("node_name", help="the managed node")
    verb.add_argument("transition", choices=TRANSITIONS, help="the transition")


def positive(text: str) -> float:
    """Return the finite number above zero that an argument of the command line is."""
    value = float(text)
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value
