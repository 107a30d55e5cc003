"""`ros2 service call`."""

from __future__ import annotations

import argparse

SUMMARY = "Call a service and print its answer."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("service_name", help="the service")
    parser.add_argument("service_type", help="its type, for example std_srvs/srv/Trigger")
    parser.add_argument("values", nargs="?", default="{}", help='the fields in YAML, for example "{data: true}"')


def run(arguments: argparse.Namespace) -> int:
    """Print request and answer."""
    from ..graph_node import graph_node
    from ..interface_type import load_interface
    from ..message_text import fill_message
    from ..service_caller import call_service

    service_class = load_interface(arguments.service_type, "srv")
    request = service_class.Request()
    fill_message(request, arguments.values)
    with graph_node() as node:
        print(f"requester: making request: {request!r}\n", flush=True)
        print(f"response:\n{call_service(node, service_class, arguments.service_name, request)!r}\n", flush=True)
    return 0
