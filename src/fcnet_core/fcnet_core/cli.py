"""The `fcnet` program: it finds its verbs among the installed packages, so that each package can bring its own."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from types import ModuleType

VERB_GROUP = "fcnet.verbs"  # modules with SUMMARY, EPILOG, add_arguments(parser) and run(args)
USAGE_ERROR = 2
INTERRUPTED = 130
WORKFLOW = """
A policy comes about in three steps: `collect` lets an expert walk in simulation and records it, `train` imitates the
recording, `evaluate` measures the policy in closed loop. `info` shows what a policy file holds, `export` turns it
into ONNX for other programs. `replay` measures policies on the bags of a robot, `dataset` and `relabel` make training
data of them, `compare` shows trainings side by side. `fcnet VERB --help` explains each.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `fcnet` with these arguments (default: the command line's) and return its exit status.

    0 success, 1 a verb's own failure, 2 wrong use or unusable input, 130 interrupted by Ctrl-C.
    """
    verbs = {entry.name: entry for entry in entry_points(group=VERB_GROUP)}
    packages = {entry.module.partition(".")[0] for entry in verbs.values()}
    try:
        given = list(sys.argv[1:] if arguments is None else arguments)
        wanted = set(given[:1]) & set(verbs) or set(verbs)  # the others' libraries take longer to load than to answer
        parser = _parser({name: verbs[name].load() for name in sorted(wanted)})
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
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), USAGE_ERROR)
    except ValueError as error:
        if type(error).__module__.partition(".")[0] not in packages:
            raise  # not one of the suite's sentences, but a defect that wants its traceback
        return _fail(str(error), USAGE_ERROR)


def _parser(verbs: dict[str, ModuleType]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fcnet",
        description="Make, measure and inspect walking policies of the Fourier Controller Network.",
        epilog=WORKFLOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
