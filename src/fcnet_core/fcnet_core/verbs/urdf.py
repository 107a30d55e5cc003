"""fcnet urdf: write a robot as URDF, for RViz, Foxglove and other programs."""

from __future__ import annotations

import argparse
from pathlib import Path

from fcnet_core.files import write_whole
from fcnet_core.robot import load_robot
from fcnet_core.urdf import robot_urdf

SUMMARY = "write a robot as URDF, for RViz and Foxglove, from config/robots"
EPILOG = """
example:
  fcnet urdf aliengo --output aliengo.urdf
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("robot", metavar="ROBOT", help="name of a file in config/robots, or the path of one")
    parser.add_argument("--output", type=Path, metavar="FILE", help="file to write; without it, to stdout")


def run(args: argparse.Namespace) -> int:
    """Write the URDF; 0 when it is written."""
    text = robot_urdf(load_robot(args.robot))
    if args.output is None:
        print(text, end="")
    else:
        write_whole(args.output, text.encode())
    return 0
