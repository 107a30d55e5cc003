"""`ros2 bag info`."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "Print what a bag holds."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("bag_path", type=Path, help="the bag's folder, or one of its files")
    parser.add_argument("-s", "--storage", default="", help="refuse bags stored otherwise: mcap or sqlite3")
    parser.add_argument("-t", "--topic-name", action="store_true", help="print the names of the topics only")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the custom data too")


def run(arguments: argparse.Namespace) -> int:
    """Print the report, or the topics, one a line."""
    from ..bag.bag_reader import open_bag
    from ..bag.bag_report import report

    with open_bag(arguments.bag_path, arguments.storage) as bag:
        if arguments.topic_name:
            for name in sorted(bag.reader.topics):
                print(name)
        else:
            print(report(bag, arguments.verbose))
    return 0
