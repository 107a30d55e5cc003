"""The `fcnet` program: it finds its verbs among the installed packages, so that each package can bring its own."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from types import ModuleType

from fcnet_core import __version__
from fcnet_core.errors import FcnetError

VERB_GROUP = "fcnet.verbs"  # modules with SUMMARY, EPILOG, add_arguments(parser) and run(args)
USAGE_ERROR = 2
INTERRUPTED = 130
WORKFLOW = """
A policy comes about in three steps: `collect` lets an expert walk in simulation and records it, `train` imitates the
recording, `evaluate` measures the policy in closed loop. `info` shows what a policy file holds, `export` turns it
into ONNX for other programs. `replay` measures policies on the bags of a robot, `dataset` and `relabel` make training
data of them. `compare` shows trainings side by side, `list` names what there is to choose from.
`fcnet VERB --help` explains each.
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
    except BrokenPipeError:  # the reader of our output, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except FcnetError as error:
        return _fail(str(error), USAGE_ERROR)
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), USAGE_ERROR)


def program(verb: str = "") -> argparse.ArgumentParser:
    """The parser of `fcnet` with that verb alone, whose libraries are loaded, or with all where none is given.

    Raises FcnetError for a verb that there is not.
    """
    verbs = {entry.name: entry for entry in entry_points(group=VERB_GROUP)}
    if verb == "--version":
        return _parser({})
    if not verb or verb.startswith("-"):
        return _parser({name: verbs[name].load() for name in sorted(verbs)})
    if verb not in verbs:
        near = get_close_matches(verb, verbs, n=1)
        advice = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(sorted(verbs))}"
        raise FcnetError(f"there is no verb {verb!r}; {advice}")
    return _parser({verb: verbs[verb].load()})


def _parser(verbs: dict[str, ModuleType]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fcnet",
        description="Make, measure and inspect walking policies of the Fourier Controller Network.",
        epilog=WORKFLOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fcnet {__version__}")
    choices = parser.add_subparsers(title="verbs", metavar="VERB")
    for name, verb in verbs.items():
        verb_parser = choices.add_parser(
            name,
            help=verb.SUMMARY,
            description=f"{verb.SUMMARY[0].upper()}{verb.SUMMARY[1:]}.",
            epilog=verb.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        verb.add_arguments(verb_parser)
        verb_parser.set_defaults(run=verb.run)
    return parser


def _fail(sentence: str, status: int) -> int:
    print(f"fcnet: {sentence}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
