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


def make_parser(names: Iterable[str] = MODULES) -> argparse.ArgumentParser:
    """Return the parser of the commands called so."""
    parser = argparse.ArgumentParser(
        prog="ros2", description="fcnet's stand-in for ros2, where ROS 2 came as wheels.", allow_abbrev=False
    )
    commands = parser.add_subparsers(metavar="command", required=True)
    for name in names:
        verbs: tuple[Verb, ...] = importlib.import_module(f"ros2_standin.{MODULES[name]}").VERBS
        if any(verb.name == name for verb in verbs):
            parent, prefix = commands, ""
        else:
            group = commands.add_parser(name, help=f"verbs about a {name}", allow_abbrev=False)
            parent, prefix = group.add_subparsers(metavar="verb", required=True), f"{name} "
        for verb in verbs:
            if verb.name == name or (prefix and verb.name.startswith(prefix)):
                verb_parser = parent.add_parser(
                    verb.name.removeprefix(prefix), help=verb.summary, description=verb.summary, allow_abbrev=False
                )
                verb.add_arguments(verb_parser)
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
