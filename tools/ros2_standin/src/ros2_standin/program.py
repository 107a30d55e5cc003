"""The program `ros2`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable

from .verb import Verb, VerbError

# The module that has the verbs of each command: only the one asked for is imported.
MODULES = {
    "launch": "launch_verbs",
    "run": "launch_verbs",
    "topic": "graph_verbs",
    "service": "graph_verbs",
    "lifecycle": "graph_verbs",
    "bag": "bag_verbs",
}


def make_parser(commands: Iterable[str] = MODULES) -> argparse.ArgumentParser:
    """Return the parser of these commands."""
    parser = argparse.ArgumentParser(
        prog="ros2", description="fcnet's stand-in for ros2, where ROS 2 came as wheels.", allow_abbrev=False
    )
    top = parser.add_subparsers(metavar="command", required=True)
    for command in commands:
        verbs: tuple[Verb, ...] = importlib.import_module(f"ros2_standin.{MODULES[command]}").VERBS
        verbs = tuple(verb for verb in verbs if verb.name.split()[0] == command)
        group = top
        if verbs[0].name != command:
            helped = top.add_parser(command, help=f"verbs about a {command}", allow_abbrev=False)
            group = helped.add_subparsers(metavar="verb", required=True)
        for verb in verbs:
            name = verb.name.split()[-1]
            verb_parser = group.add_parser(name, help=verb.summary, description=verb.summary, allow_abbrev=False)
            for names, options in verb.arguments:
                verb_parser.add_argument(*names, **options)
            verb_parser.set_defaults(run=verb.run)
    return parser


def main() -> int:
    """Run the verb on the command line; 2 for a wrong command line, 1 for what cannot be done."""
    asked = [name for name in sys.argv[1:2] if name in MODULES]
    arguments = make_parser(asked or MODULES).parse_args()
    try:
        return arguments.run(arguments)
    except (VerbError, LookupError, FileNotFoundError) as error:
        print(f"ros2: {error.args[0] if error.args else error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
