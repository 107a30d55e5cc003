"""`ros2 launch` and `ros2 run`."""

import argparse
import os
import runpy
from pathlib import Path
from typing import Any

from launch import LaunchDescription, Launching
from launch.actions import DeclareLaunchArgument
from launch_ros import find_executable, find_prefix

from . import VerbError, add_verb


def _launch(arguments: argparse.Namespace) -> int:
    path, texts = _find_launch_file(arguments.package, arguments.rest)
    description = _load(path)
    declared = {entity.name: entity for entity in description.entities if isinstance(entity, DeclareLaunchArgument)}
    if arguments.show_args:
        print("Arguments (pass arguments as '<name>:=<value>'):")
        for found in declared.values():
            print(f"\n    '{found.name}':\n        {found.description}")
            if found.default_value is not None:
                print(f"        (default: '{found.default_value}')")
        return 0
    values: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition(":=")
        if not name or not value:
            raise VerbError(f"malformed launch argument '{text}': expected name:=value")
        if name not in declared:
            known = ", ".join(declared) or "none"
            raise VerbError(f"launch argument '{name}' is not declared by {path.name}, which takes: {known}")
        values[name] = value
    return Launching(description, values).run()


def _find_launch_file(package: str, rest: list[str]) -> tuple[Path, list[str]]:
    if Path(package).is_file():
        return Path(package), rest
    files = sorted((find_prefix(package) / "share" / package).rglob("*.launch.py"))
    for path in files:
        if [path.name] == rest[:1]:
            return path, rest[1:]
    known = ", ".join(path.name for path in files) or "none"
    raise VerbError(f"package '{package}' has no launch file '{' '.join(rest[:1])}'; it has: {known}")


def _load(path: Path) -> LaunchDescription:
    """Run a launch file, in Python, and return its description."""
    try:
        description: LaunchDescription = runpy.run_path(str(path))["generate_launch_description"]()
    except Exception as error:
        raise VerbError(f"launch file {path} cannot be used: {error}") from error
    return description


def _run(arguments: argparse.Namespace) -> int:
    """Become the executable: its exit code, its signals and its terminal are its own."""
    program = str(find_executable(arguments.package, arguments.executable))
    os.execv(program, [program, *arguments.argv])


def add_commands(commands: Any) -> None:
    """Add `launch` and `run`."""
    verb = add_verb(commands, "launch", _launch, "Run a launch file.")
    verb.add_argument("-s", "--show-args", "--show-arguments", action="store_true", help="show the file's arguments")
    verb.add_argument("package", help="the package that has the launch file, or the path of a launch file")
    verb.add_argument("rest", nargs="*", metavar="name:=value", help="a package's launch file, and arguments for it")

    verb = add_verb(commands, "run", _run, "Run an executable of a package.", "package", "executable")
    verb.add_argument("argv", nargs=argparse.REMAINDER, help="the executable's arguments")
