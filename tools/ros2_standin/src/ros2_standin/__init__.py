"""The few verbs of `ros2` that fcnet uses, for machines where ROS 2 came as wheels."""

import argparse
from collections.abc import Callable
from typing import Any

Run = Callable[[argparse.Namespace], int]


class VerbError(Exception):
    """A request that cannot be fulfilled; the text has the reason and the remedy."""


def add_command(commands: Any, name: str) -> Any:
    """Add a command that has verbs, such as "topic", and return the group of its verbs."""
    helped = commands.add_parser(name, help=f"verbs about a {name}", allow_abbrev=False)
    return helped.add_subparsers(metavar="verb", required=True)


def add_verb(verbs: Any, name: str, run: Run, summary: str, *arguments: str) -> argparse.ArgumentParser:
    """Add a verb, such as "list", with required arguments, and return its parser; `run` returns the exit code."""
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=summary, description=summary, allow_abbrev=False)
    parser.set_defaults(run=run)
    for argument in arguments:
        parser.add_argument(argument, help=f"the {argument.replace('_', ' ')}")
    return parser
