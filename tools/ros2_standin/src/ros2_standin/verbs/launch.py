"""`ros2 launch`."""

from __future__ import annotations

import argparse
from pathlib import Path

from launch import LaunchContext, LaunchDescription, LaunchService
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.executable_in_package import find_prefix

from ..verb_error import VerbError

SUMMARY = "Run a launch file."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("-s", "--show-args", "--show-arguments", action="store_true", help="show the file's arguments")
    parser.add_argument("package", help="the package that has the launch file, or the path of a launch file")
    parser.add_argument("launch_file", nargs="?", help="the launch file's name")
    parser.add_argument("launch_arguments", nargs="*", metavar="name:=value", help="arguments of the launch file")


def run(arguments: argparse.Namespace) -> int:
    """Launch, or show the arguments."""
    path, texts = _find_launch_file(arguments)
    source = PythonLaunchDescriptionSource(str(path))
    if arguments.show_args:
        _show(source.get_launch_description(LaunchContext()).get_launch_arguments())
        return 0
    values = dict(_split(text) for text in texts)
    service = LaunchService(argv=texts)
    include = IncludeLaunchDescription(source, launch_arguments=values.items())
    service.include_launch_description(LaunchDescription([include]))
    return service.run()


def _find_launch_file(arguments: argparse.Namespace) -> tuple[Path, list[str]]:
    if Path(arguments.package).is_file():
        first = [] if arguments.launch_file is None else [arguments.launch_file]
        return Path(arguments.package), first + arguments.launch_arguments
    share = find_prefix(arguments.package) / "share" / arguments.package
    files = sorted(share.rglob("*.launch.py"))
    found = [path for path in files if path.name == arguments.launch_file]
    if not found:
        known = ", ".join(path.name for path in files) or "none"
        raise VerbError(f"package '{arguments.package}' has no launch file '{arguments.launch_file}'; it has: {known}")
    return found[0], arguments.launch_arguments


def _split(text: str) -> tuple[str, str]:
    name, separator, value = text.partition(":=")
    if not name or not separator or not value:
        raise VerbError(f"malformed launch argument '{text}': expected name:=value")
    return name, value


def _show(declared: list[DeclareLaunchArgument]) -> None:
    print("Arguments (pass arguments as '<name>:=<value>'):")
    for argument in declared:
        print(f"\n    '{argument.name}':\n        {argument.description}")
        if argument.default_value is not None:
            print(f"        (default: {' + '.join(part.describe() for part in argument.default_value)})")
    if not declared:
        print("\n  No arguments.")
