"""`ros2 lifecycle get`."""

from __future__ import annotations

import argparse

SUMMARY = "Print the state of a managed node."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("node_name", help="the node")


def run(arguments: argparse.Namespace) -> int:
    """Print the state's name and number."""
    from ..graph_node import graph_node
    from ..interface_type import load_interface
    from ..service_caller import call_service
    from ..topic import absolute

    service_class = load_interface("lifecycle_msgs/srv/GetState", "srv")
    with graph_node() as node:
        name = f"{absolute(arguments.node_name)}/get_state"
        state = call_service(node, service_class, name, service_class.Request()).current_state
    print(f"{state.label} [{state.id}]")
    return 0
