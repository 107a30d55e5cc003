"""fcnet spectrum: where the energy of recorded signals is."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from fcnet_core.errors import StudyError
from fcnet_core.files import check_writable, option, write_whole

SUMMARY = "show over which modes of a window the energy of recorded signals is spread"
EPILOG = """
The Fourier Controller Network keeps the m lowest modes of each window of n steps. This shows how much of the energy of
joint and body signals that is, of training data or of the walking sections of a bag.

examples:
  fcnet spectrum data/aliengo --figure spectrum.png
  fcnet spectrum docs/examples/aliengo_walk --json spectrum.json
"""
Window = Annotated[int, Meta(ge=2, le=2**16)]
Modes = Annotated[int, Meta(ge=1, le=2**15)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("source", type=Path, metavar="DATA_OR_BAG", help="a data folder, or a bag")
    parser.add_argument("--window", type=option(Window), default=64, metavar="N", help="steps (default: 64)")
    parser.add_argument("--modes", type=option(Modes), default=10, metavar="M", help="that are kept (default: 10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table here")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table here")
    parser.add_argument("--figure", type=Path, metavar="PNG", help="write a figure here")


def run(args: argparse.Namespace) -> int:
    """Transform and print; 0 when it is done."""
    from fcnet_study.spectrum import spectrum_of

    if args.modes > (args.window + 1) // 2:
        raise StudyError(f"a window of {args.window} steps has at most {(args.window + 1) // 2} modes; lower --modes")
    if args.figure and find_spec("matplotlib") is None:
        raise StudyError("--figure needs the Python package matplotlib; `sh tools/setup.sh test` installs it")
    check_writable(args.json, args.markdown, args.figure)
    spectrum = spectrum_of(args.source, args.window)
    report = spectrum.report(args.source, args.modes)
    print(report.text())
    if args.json:
        report.write_json(args.json)
    if args.markdown:
        write_whole(args.markdown, report.markdown().encode())
    if args.figure:
        spectrum.draw(args.figure, args.modes)
    return 0
