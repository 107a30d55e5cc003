"""The `fcnet` verbs that read bags and datasets."""

import argparse
from pathlib import Path

from fcnet_core.files import Positive, option


def add_source(parser: argparse.ArgumentParser, rate: bool = False) -> None:
    """Declare the options for reading a bag. rate: also that of the policy, for data."""
    parser.add_argument("--robot", metavar="NAME", help="robot name or file (default: the recorded robot)")
    parser.add_argument("--namespace", metavar="NS", help="namespace of the robot (default: the recorded one)")
    parser.add_argument("--topics", type=Path, metavar="YAML", help="topic map of a foreign bag, see config/bags/")
    if rate:
        help_text = "rate of the policy (default: 50)"
        parser.add_argument("--rate", type=option(Positive), default=50.0, metavar="HZ", help=help_text)
