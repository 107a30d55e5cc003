"""What every program of the suite does first, so that the computer's settings cannot end it later."""

from __future__ import annotations

import io
import os
import sys
import traceback
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2]
NO_HOME = "/nonexistent"  # as Debian names it


def prepare_process() -> None:
    """Prepare standard streams and HOME.

    Characters that a terminal cannot show are replaced. Closed streams are connected to nothing: a file opened later
    would get a stream's number, and its output. Without a home folder, HOME names none, so that no library makes a
    folder called `~`.
    """
    if not os.environ.get("HOME"):
        os.environ.pop("HOME", None)
        home = os.path.expanduser("~")  # noqa: PTH111 Path's raises an error if there is none
        os.environ["HOME"] = NO_HOME if home == "~" else home
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(number, True)
    os.close(number)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def report_foreign_import(error: ImportError) -> int:
    """Print that a library in a folder of PYTHONPATH, such as another distribution's, cannot be imported, and return 2.

    Raises the error again if it has another cause.
    """
    file = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    folders = map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    folder = next((folder for folder in folders if file.is_relative_to(folder)), None)
    if folder is None or SOURCES in file.resolve().parents:
        raise error
    name, reason = file.relative_to(folder).parts[0], " ".join(str(error).split())
    print(f"{name} cannot be imported from {folder} ({reason:.200}); remove it from PYTHONPATH", file=sys.stderr)
    return 2
