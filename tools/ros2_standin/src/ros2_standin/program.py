"""The program `ros2`."""

from __future__ import annotations

import argparse
import importlib
import sys

from .verb_error import VerbError

VERBS = (
    "launch",
    "run",
    "topic list",
    "topic echo",
    "topic hz",
    "topic pub",
    "service list",
    "service call",
    "node list",
    "lifecycle get",
    "lifecycle set",
    "bag record",
    "bag play",
    "bag info",
    "bag reindex",
)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs."""
    parser = argparse.ArgumentParser(
        prog="ros2", description="fcnet's stand-in for ros2, where ROS 2 came as wheels.", allow_abbrev=False
    )
    commands = parser.add_subparsers(metavar="command", required=True)
    groups: dict[str, argparse._SubParsersAction[argparse.ArgumentParser]] = {}
    for verb in VERBS:
        module = importlib.import_module(f"ros2_standin.verbs.{verb.replace(' ', '_')}")
        *group, name = verb.split()
        if group and group[0] not in groups:
            group_parser = commands.add_parser(group[0], help=f"verbs about a {group[0]}", allow_abbrev=False)
            groups[group[0]] = group_parser.add_subparsers(metavar="verb", required=True)
        parent = groups[group[0]] if group else commands
        verb_parser = parent.add_parser(name, help=module.SUMMARY, description=module.SUMMARY, allow_abbrev=False)
        module.add_arguments(verb_parser)
        verb_parser.set_defaults(run=module.run)
    return parser


def main() -> int:
    """Run the verb on the command line; 2 for a wrong command line, 1 for what cannot be done."""
    arguments = make_parser().parse_args()
    try:
        return arguments.run(arguments)
    except (VerbError, LookupError, FileNotFoundError) as error:
        print(f"ros2: {error.args[0] if error.args else error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
