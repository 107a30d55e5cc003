"""`ros2 run`."""

from __future__ import annotations

import argparse
import os

from launch_ros.executable_in_package import find_executable

SUMMARY = "Run an executable of a package."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("package", help="the package")
    parser.add_argument("executable", help="its executable")
    parser.add_argument("argv", nargs=argparse.REMAINDER, help="what the executable is given")


def run(arguments: argparse.Namespace) -> int:
    """Become the executable: its exit code, its signals and its terminal are its own."""
    program = str(find_executable(arguments.package, arguments.executable))
    os.execv(program, [program, *arguments.argv])
