"""A short-lived node that observes the running system, and its Fast DDS settings.

A participant that starts can miss the answer to its first announcement; its next chance is the periodic announcement of
the participant that was there first. Fast DDS sends one every 3 s by default, here it is every 0.2 s.

Programs on one machine reach each other through shared memory, where Fast DDS queues 512 messages of all topics
together: 85 ms at 6000 messages a second. A loaded machine keeps the receiving thread waiting for longer. Of 6000
messages a second on two cores a recorder lost up to 3 % with that queue at a load of 10, and about 1 % with one of
16384 at a load of 5 to 8.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from . import VerbError

T = TypeVar("T")
NO_LOG_FILE = ["--ros-args", "--disable-external-lib-logs"]  # its folder may be read-only
DISCOVERY_SECONDS = 5.0
PUBLISHER_SECONDS = 1.0
RESPONSE_SECONDS = 30.0
VARIABLE = "FASTRTPS_DEFAULT_PROFILES_FILE"
VARIABLES = (VARIABLE, "FASTDDS_DEFAULT_PROFILES_FILE")
PROFILE = Path(__file__).with_name("fastdds_queue.xml")


@contextlib.contextmanager
def graph_node(name: str = "") -> Iterator[Node]:
    """Make a node with `name`, or a unique one, and these settings, unless the user has set profiles."""
    own = not any(variable in os.environ for variable in VARIABLES)
    if own:
        os.environ[VARIABLE] = str(PROFILE)
    try:
        rclpy.init(args=NO_LOG_FILE, signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
    except RuntimeError as error:
        raise VerbError(f"ROS cannot start: {error}; see `env | grep ROS`") from error
    name = name or f"ros2_standin_{os.getpid()}"
    node = rclpy.create_node(name, enable_rosout=False, start_parameter_services=False)
    if own:
        del os.environ[VARIABLE]
    try:
        yield node
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def wait_for(node: Node, find: Callable[[], T], seconds: float = DISCOVERY_SECONDS) -> T:
    """Return the first true result of `find`, or the last one after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := find()) and time.monotonic() < deadline:
        rclpy.spin_once(node, timeout_sec=0.05)
    return found


def wait_for_discovery(node: Node, quiet: float = 1.0) -> None:
    """Wait until the known topics and services have not changed for `quiet` [s]; there is no daemon that knows them.

    Nodes on a busy machine may be late: while no other node is known, wait for DISCOVERY_SECONDS.
    """
    known, start = -1, time.monotonic()
    changed = start
    while time.monotonic() < (changed + quiet if len(node.get_node_names()) > 1 else start + DISCOVERY_SECONDS):
        rclpy.spin_once(node, timeout_sec=0.1)
        names = len(node.get_topic_names_and_types()) + len(node.get_service_names_and_types())
        if names != known:
            known, changed = names, time.monotonic()


def offered_profiles(node: Node, topic: str) -> list[QoSProfile]:
    """Return the profiles of a topic's publishers once there is one; an empty list after PUBLISHER_SECONDS."""
    found = wait_for(node, lambda: node.get_publishers_info_by_topic(topic), PUBLISHER_SECONDS)
    return [info.qos_profile for info in found]


def call_service(node: Node, service_class: Any, name: str, request: Any) -> Any:
    """Return the response; VerbError if no node offers the service or no response comes."""
    client = node.create_client(service_class, name)
    if not client.wait_for_service(timeout_sec=DISCOVERY_SECONDS):
        raise VerbError(f"no node offers the service '{name}': check its name, and whether its node runs")
    future = client.call_async(request)
    rclpy.spin_until_future_complete(node, future, timeout_sec=RESPONSE_SECONDS)
    if not future.done():
        raise VerbError(f"the service '{name}' has not responded within {RESPONSE_SECONDS:g} s")
    return future.result()


def absolute(name: str) -> str:
    """Return the name with its leading slash."""
    return name if name.startswith("/") else f"/{name}"


def receiving_profile(offered: Sequence[QoSProfile], depth: int = 10) -> QoSProfile:
    """Return a profile that receives from every publisher, latched messages included."""
    profile = QoSProfile(depth=depth, reliability=ReliabilityPolicy.BEST_EFFORT)
    if offered and all(other.reliability == ReliabilityPolicy.RELIABLE for other in offered):
        profile.reliability = ReliabilityPolicy.RELIABLE
    if offered and all(other.durability == DurabilityPolicy.TRANSIENT_LOCAL for other in offered):
        profile.durability = DurabilityPolicy.TRANSIENT_LOCAL
    return profile
