"""fcnet urdf: write a robot as URDF, for RViz, Foxglove and other programs."""

import argparse
from pathlib import Path

from fcnet_core.files import write_whole
from fcnet_core.robot import load_robot
from fcnet_core.urdf import robot_urdf

SUMMARY = "write a robot of config/robots as URDF, for RViz and Foxglove"
EPILOG = """
example:
  fcnet urdf aliengo -o aliengo.urdf
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("robot", metavar="ROBOT", help="a name of `fcnet list robots`, or the path of a robot file")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="the URDF file (default: standard output)")


def run(args: argparse.Namespace) -> int:
    """Write the URDF; return 0."""
    text = robot_urdf(load_robot(args.robot))
    if args.out is None:
        print(text, end="")
    else:
        write_whole(args.out, text.encode())
    return 0
