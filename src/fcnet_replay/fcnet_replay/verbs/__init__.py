"""The `fcnet` verbs that read bags and datasets."""

import argparse
from pathlib import Path


def add_source(parser: argparse.ArgumentParser) -> None:
    """Declare the options for reading a bag."""
    parser.add_argument("--robot", metavar="NAME", help="robot name or file (default: the recorded robot)")
    parser.add_argument("--namespace", metavar="NS", help="namespace of the robot (default: the recorded one)")
    parser.add_argument("--topics", type=Path, metavar="YAML", help="topic map of a foreign bag, see config/bags/")
