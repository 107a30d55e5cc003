"""The program `ros2`."""

from __future__ import annotations

import argparse
import importlib
import sys

from . import VerbError

# The module that adds each command; only the module of the given command is imported.
MODULES = {
    "launch": "launch_verbs",
    "run": "launch_verbs",
    "topic": "graph_verbs",
    "service": "graph_verbs",
    "param": "param_verbs",
    "bag": "bag_verbs",
}


def main() -> int:
    """Run the verb on the command line; return 2 for a wrong command line, 1 for an error."""
    parser = argparse.ArgumentParser(
        prog="ros2",
        description="fcnet's stand-in for ros2, for machines where ROS 2 came as wheels.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="command", required=True)
    asked = [MODULES[name] for name in sys.argv[1:2] if name in MODULES]
    for module in asked or dict.fromkeys(MODULES.values()):
        importlib.import_module(f"ros2_standin.{module}").add_commands(commands)
    arguments = parser.parse_args()
    try:
        return arguments.run(arguments)
    except (VerbError, LookupError, FileNotFoundError) as error:
        print(f"ros2: {error.args[0] if error.args else error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
