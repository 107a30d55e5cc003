"""`ros2 service list`."""

from __future__ import annotations

import argparse

SUMMARY = "List the services."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("-t", "--show-types", action="store_true", help="show the types too")


def run(arguments: argparse.Namespace) -> int:
    """Print the services, one a line."""
    from ..graph_node import graph_node, wait_for_discovery

    with graph_node() as node:
        wait_for_discovery(node)
        for name, types in sorted(node.get_service_names_and_types()):
            if not name.startswith(f"/{node.get_name()}/"):
                print(f"{name} [{', '.join(types)}]" if arguments.show_types else name)
    return 0
