"""What the arguments of all launch files have in common: declared, read, and refused with a sentence where unknown."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from launch import LaunchContext
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration

BOOLEANS = ("true", "false")
LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")

Arguments = Mapping[str, tuple[str, str]]  # name: default, description


def declared(arguments: Arguments) -> list[DeclareLaunchArgument]:
    """The arguments, for a launch description."""
    return [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in arguments.items()
    ]


def given(context: LaunchContext, arguments: Arguments, launch_file: str) -> dict[str, str]:
    """The arguments as given to this launch file. Raises ValueError for one that it does not know.

    Upstream's `ros2 launch` takes any argument; a misspelt one shall not pass unnoticed. Arguments of a launch file
    that includes this one are that file's business.
    """
    if any(argument.endswith(launch_file) for argument in sys.argv):
        written = {argument.split(":=")[0] for argument in sys.argv if ":=" in argument}
        if unknown := sorted((written & set(context.launch_configurations)) - set(arguments)):
            raise ValueError(f"unknown launch argument {', '.join(unknown)}; known are {', '.join(arguments)}")
    return {name: LaunchConfiguration(name).perform(context) for name in arguments}


def refuse_other_than(known: Iterable[str], name: str, chosen: Mapping[str, str]) -> None:
    """Raise ValueError where the argument `name` is none of the known words."""
    if chosen[name] not in known:
        raise ValueError(
            f"launch argument {name}:={chosen[name]} is not known; choose {' or '.join(filter(None, known))}"
        )


def refuse_other_than_positive(name: str, chosen: Mapping[str, str]) -> None:
    """Raise ValueError where the argument `name` is no finite number above zero."""
    if not number(chosen[name]) > 0.0:
        raise ValueError(f"launch argument {name}:={chosen[name]} must be a positive number")


def refuse_other_than_port(kind: str, name: str, chosen: Mapping[str, str]) -> None:
    """Raise ValueError where the argument `name` is neither empty nor a port of this kind, such as UDP."""
    if chosen[name] and not (chosen[name].isdecimal() and int(chosen[name]) < 65536):
        raise ValueError(f"launch argument {name}:={chosen[name]} is no {kind} port; give a number up to 65535")


def number(text: str) -> float:
    """The finite number that the text is, or NaN."""
    try:
        found = float(text)
    except ValueError:
        return float("nan")
    return found if abs(found) < float("inf") else float("nan")
