"""What every program of the suite does first, so that the computer's settings do not end it later."""

from __future__ import annotations

import io
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2]
NO_HOME = "/nonexistent"  # as Debian names it


def prepare_process() -> None:
    """Prepare standard streams and HOME.

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
    return 2
