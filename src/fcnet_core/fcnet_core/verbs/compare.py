"""fcnet compare: training runs side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from fcnet_core.files import check_writable, write_whole
from fcnet_core.runs.comparison import sections, text_table
from fcnet_core.runs.folder import read_run
from fcnet_core.runs.page import page

SUMMARY = "compare training runs: errors, time, settings that differ, evaluations"
EPILOG = """
A run is a folder that `fcnet train` wrote; `fcnet evaluate RUN` adds the falls of its best policy.

examples:
  fcnet compare runs/aliengo-fcnet-1 runs/aliengo-mlp-1
  fcnet compare runs/aliengo-* -o compare.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a training run")
    parser.add_argument("-o", "--out", type=Path, metavar="HTML", help="write curves and tables as one page, too")


def run(args: argparse.Namespace) -> int:
    """Print the tables; 0 when every folder could be read."""
    check_writable(args.out)
    runs = [read_run(path) for path in args.runs]
    if args.out:
        write_whole(args.out, page(runs).encode())
    names = [run.name for run in runs]
    print("\n\n".join(text_table([heading, *names], rows) for heading, rows in sections(runs).items()))
    return 0
