"""The `fcnet` program. Its verbs are entry points of the installed packages, so that each package can add its own."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points

from fcnet_core import __version__
from fcnet_core.errors import FcnetError

VERB_GROUP = "fcnet.verbs"  # entry points: modules with SUMMARY, EPILOG, add_arguments(parser) and run(args)
USAGE_ERROR = 2
INTERRUPTED = 130
DESCRIPTION = "Train, evaluate and inspect walking policies, such as the Fourier Controller Network."
WORKFLOW = """
A policy is made in three steps: `collect` records an expert that walks in simulation, `train` imitates the recording,
and `evaluate` measures the policy in closed loop. `fcnet VERB --help` describes a verb and shows examples.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `fcnet` with these arguments (default: the command line's) and return its exit status.

    0 success, 1 a verb's own failure, 2 wrong use or unusable input, 130 interrupted by Ctrl-C.
    """
    try:
        given = list(sys.argv[1:] if arguments is None else arguments)
        parser = program(given[0] if given else "")
        args = parser.parse_args(given)
        if "run" not in args:
            parser.print_help()
            return USAGE_ERROR
        return args.run(args)
    except KeyboardInterrupt:
        return _fail("interrupted; what was already written is kept", INTERRUPTED)
    except BrokenPipeError:  # the reader of the output, such as head, has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except FcnetError as error:
        return _fail(str(error), USAGE_ERROR)
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), USAGE_ERROR)


def program(verb: str = "") -> argparse.ArgumentParser:
    """Return the parser of `fcnet` with only that verb, to load only its libraries, or with all verbs.

    Raises FcnetError if there is no such verb.
    """
    entries = {entry.name: entry for entry in sorted(entry_points(group=VERB_GROUP), key=lambda entry: entry.name)}
    if verb == "--version":
        entries = {}
    elif verb and not verb.startswith("-"):
        if verb not in entries:
            near = get_close_matches(verb, entries, n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(entries)}"
            raise FcnetError(f"there is no verb {verb!r}; {advice}")
        entries = {verb: entries[verb]}
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="fcnet",
        usage="fcnet [-h] [--version] VERB ...",
        description=DESCRIPTION,
        epilog=WORKFLOW,
        formatter_class=plain,
    )
    parser.add_argument("--version", action="version", version=f"fcnet {__version__}")
    choices = parser.add_subparsers(title="verbs", metavar="VERB", parser_class=argparse.ArgumentParser)
    for name, entry in entries.items():
        module = entry.load()
        verb_parser = choices.add_parser(
            name,
            prog=f"fcnet {name}",
            help=module.SUMMARY,
            description=f"{module.SUMMARY[0].upper()}{module.SUMMARY[1:]}.",
            epilog=module.EPILOG,
            formatter_class=plain,
        )
        module.add_arguments(verb_parser)
        verb_parser.set_defaults(run=module.run)
    return parser


def _fail(sentence: str, status: int) -> int:
    print(f"fcnet: {sentence}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
