"""`ros2 launch` and `ros2 run`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from launch import LaunchContext, LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription, declared_arguments
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.packages import find_executable, find_prefix

from . import VerbError, add_verb


def _launch(arguments: argparse.Namespace) -> int:
    path, texts = _find_launch_file(arguments)
    source = PythonLaunchDescriptionSource(str(path))
    if arguments.show_args:
        _show(source.get_launch_description(LaunchContext()))
        return 0
    service = LaunchService()
    values = list(map(_argument, texts))
    service.include_launch_description(LaunchDescription([IncludeLaunchDescription(source, launch_arguments=values)]))
    return service.run()


def _argument(text: str) -> tuple[str, str]:
    name, separator, value = text.partition(":=")
    if not name or not separator or not value:
        raise VerbError(f"malformed launch argument '{text}': expected name:=value")
    return name, value


def _find_launch_file(arguments: argparse.Namespace) -> tuple[Path, list[str]]:
    if Path(arguments.package).is_file():
        first = [] if arguments.launch_file is None else [arguments.launch_file]
        return Path(arguments.package), first + arguments.launch_arguments
    files = sorted((find_prefix(arguments.package) / "share" / arguments.package).rglob("*.launch.py"))
    for path in files:
        if path.name == arguments.launch_file:
            return path, arguments.launch_arguments
    known = ", ".join(path.name for path in files) or "none"
    raise VerbError(f"package '{arguments.package}' has no launch file '{arguments.launch_file}'; it has: {known}")


def _show(description: LaunchDescription) -> None:
    print("Arguments (pass arguments as '<name>:=<value>'):")
    declared = declared_arguments(description)
    for found in declared:
        print(f"\n    '{found.name}':\n        {found.description}")
        if isinstance(found.default_value, str):
            print(f"        (default: '{found.default_value}')")
    if not declared:
        print("\n  No arguments.")


def _run(arguments: argparse.Namespace) -> int:
    """Become the executable: its exit code, its signals and its terminal are its own."""
    program = str(find_executable(arguments.package, arguments.executable))
    os.execv(program, [program, *arguments.argv])


def add_commands(commands: Any) -> None:
    """Add `launch` and `run`."""
    verb = add_verb(commands, "launch", _launch, "Run a launch file.")
    verb.add_argument("-s", "--show-args", "--show-arguments", action="store_true", help="show the file's arguments")
    verb.add_argument("package", help="the package that has the launch file, or the path of a launch file")
    verb.add_argument("launch_file", nargs="?", help="the launch file's name")
    verb.add_argument("launch_arguments", nargs="*", metavar="name:=value", help="arguments of the launch file")

    verb = add_verb(commands, "run", _run, "Run an executable of a package.")
    verb.add_argument("package", help="the package")
    verb.add_argument("executable", help="its executable")
    verb.add_argument("argv", nargs=argparse.REMAINDER, help="the executable's arguments")
