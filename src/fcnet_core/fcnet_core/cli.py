"""The `fcnet` program, and what every program of the suite does first and at an import that fails.

Verbs are entry points of the installed packages, so that each package can add its own.
"""

import argparse
import io
import os
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path

from fcnet_core import __version__
from fcnet_core.errors import FcnetError
from fcnet_core.files import REMEDIES, expanded

VERB_GROUP = "fcnet.verbs"  # entry points: modules with SUMMARY, EPILOG, add_arguments(parser) and run(args)
_OPTION = re.compile(r"(--[\w-]+=|-\w(?=[~$])|)(.*)", re.DOTALL)  # the part before a path, as in -o~/run
SOURCES = Path(__file__).resolve().parents[2]
NO_HOME = "/nonexistent"  # as Debian names it
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
    prepare_process()
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        return _fail("interrupted; what was already written is kept", INTERRUPTED)
    except BrokenPipeError:  # the reader of the output, such as head, has exited
        return 1
    except FcnetError as error:
        return _fail(str(error), USAGE_ERROR)
    except ImportError as error:
        return report_foreign_import(error)
    except OSError as error:
        place = error.filename or ("standard output cannot be written" if error.errno in REMEDIES else "")
        return _fail(f"{place}: {error.strerror}" if place else str(error), USAGE_ERROR)


def prepare_process() -> None:
    """Prepare standard streams and HOME, so that the computer's settings do not end the program later.

    Characters that a terminal cannot show are replaced. Closed streams are connected to nothing, as a file that is
    opened later would get a stream's number. Without a home folder HOME names none: no library makes a folder `~`.
    """
    if not os.environ.get("HOME"):
        os.environ.pop("HOME", None)
        os.environ["HOME"] = os.path.expanduser("~").replace("~", NO_HOME, 1)  # noqa: PTH111 Path's raises an error
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(number, True)
    os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # of a file that became a pipe after Python's start
                stream.reconfigure(errors="replace")


def report_foreign_import(error: ImportError) -> int:
    """Print which folder of PYTHONPATH has an unusable library, such as another distribution's, and return 2.

    Raises the error again if it has another cause.
    """
    file = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    folders = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    folder = next((folder for folder in folders if file.is_relative_to(folder)), None)
    if folder is None or SOURCES in file.resolve().parents:
        raise error
    print(f"{folder} in PYTHONPATH has libraries that cannot be used ({error}); remove it there", file=sys.stderr)
    return USAGE_ERROR


def _run(given: list[str]) -> int:
    try:
        parser = program(given[0] if given else "")
        args = parser.parse_args([_expanded(argument) for argument in given])
        if "run" not in args:
            parser.print_help()
            return USAGE_ERROR
        return args.run(args)
    finally:
        try:
            sys.stdout.flush()  # while an error can be reported: at its end, Python would print a traceback
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python tries again
            raise


def _expanded(argument: str) -> str:
    """Return an argument with the home folder in its path, which shells leave in `--out=~/run`."""
    option, path = _OPTION.fullmatch(argument).groups()  # type: ignore[union-attr]  # matches every text
    return option + expanded(path)


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
    plain, usage = argparse.RawDescriptionHelpFormatter, "fcnet [-h] [--version] VERB ..."
    parser = argparse.ArgumentParser("fcnet", usage, DESCRIPTION, WORKFLOW, formatter_class=plain)
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
