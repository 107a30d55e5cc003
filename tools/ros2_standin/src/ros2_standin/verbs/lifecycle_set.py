"""`ros2 lifecycle set`."""

from __future__ import annotations

import argparse

SUMMARY = "Let a managed node change its state."
TRANSITIONS = ("configure", "activate", "deactivate", "cleanup", "shutdown")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("node_name", help="the node")
    parser.add_argument("transition", choices=TRANSITIONS, help="what it shall do")


def run(arguments: argparse.Namespace) -> int:
    """Ask for the transition; 1 if the node refuses."""
    from ..graph_node import graph_node
    from ..interface_type import load_interface
    from ..service_caller import call_service
    from ..topic import absolute

    service_class = load_interface("lifecycle_msgs/srv/ChangeState", "srv")
    request = service_class.Request()
    request.transition.label = arguments.transition
    with graph_node() as node:
        answer = call_service(node, service_class, f"{absolute(arguments.node_name)}/change_state", request)
    print("Transitioning successful" if answer.success else "Transitioning failed")
    return 0 if answer.success else 1
