"""The program `ros2`."""

import argparse
import importlib
import os
import re
import sys

from . import VerbError

# The commands of each module; only the module of the given command is imported.
MODULES = {
    "launch_verbs": ("launch", "run"),
    "graph_verbs": ("topic", "service"),
    "param_verbs": ("param",),
    "bag_verbs": ("bag",),
}
# What importing rclpy or starting it would answer by ending the process, or with words of rcl.
ENVIRONMENT = {
    "RMW_IMPLEMENTATION": ("rmw_fastrtps_cpp", "rmw_fastrtps_cpp, the only one in the wheels"),
    "ROS_DOMAIN_ID": (r"0*(\d\d?|1\d\d|2[0-2]\d|23[0-2])", "a whole number from 0 to 232"),
}


def main() -> int:
    """Run the verb on the command line; return 2 for a wrong command line, 1 for an error."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.reconfigure(errors="replace")  # characters that the terminal cannot show
    for name, (pattern, expected) in ENVIRONMENT.items():
        if (text := os.environ.get(name)) and not re.fullmatch(pattern, text, re.ASCII):
            print(f"ros2: {name} is {text!r}, expected {expected}; change it, or `unset {name}`", file=sys.stderr)
            return 1
    summary = "fcnet's stand-in for ros2, for machines where ROS 2 came as wheels."
    parser = argparse.ArgumentParser(prog="ros2", description=summary, allow_abbrev=False)
    commands = parser.add_subparsers(metavar="command", required=True)
    asked = [module for module, names in MODULES.items() if {*names} & {*sys.argv[1:2]}]
    for module in asked or MODULES:
        importlib.import_module(f"ros2_standin.{module}").add_commands(commands)
    arguments = parser.parse_args()
    try:
        return arguments.run(arguments)
    except BrokenPipeError:  # the reader of the output has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (VerbError, LookupError, OSError) as error:
        reason = error if isinstance(error, OSError) else error.args[0] if error.args else error
        print(f"ros2: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
