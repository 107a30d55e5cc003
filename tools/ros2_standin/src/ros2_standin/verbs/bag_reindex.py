"""`ros2 bag reindex`."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "Make a bag readable again that was not ended properly."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("bag_path", type=Path, help="the bag's folder")


def run(arguments: argparse.Namespace) -> int:
    """Write metadata.yaml anew; tell what was repaired."""
    from ..bag.reindex import reindex
    from ..verb_error import VerbError

    try:
        repaired = reindex(arguments.bag_path)
    except OSError as error:
        raise VerbError(f"cannot reindex '{arguments.bag_path}': {error.strerror or error}") from error
    for sentence in repaired:
        print(sentence)
    print(f"Reindexed '{arguments.bag_path}'")
    return 0
