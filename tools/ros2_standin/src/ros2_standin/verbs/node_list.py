"""`ros2 node list`."""

from __future__ import annotations

import argparse

SUMMARY = "List the nodes."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the verb takes no arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Print the nodes, one a line."""
    from ..graph_node import graph_node, wait_for_discovery

    with graph_node() as node:
        wait_for_discovery(node)
        names = {f"{space.rstrip('/')}/{name}" for name, space in node.get_node_names_and_namespaces()}
        for name in sorted(names - {f"/{node.get_name()}"}):
            print(name)
    return 0
