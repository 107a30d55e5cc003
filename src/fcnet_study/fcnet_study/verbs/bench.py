"""fcnet bench: how fast policies step, as tables, JSON and figures."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from fcnet_core.files import Count, Positive, check_writable, option, write_whole
from fcnet_core.model_file import load_model, shipped_model
from fcnet_study import StudyError

SUMMARY = "measure how fast policies step, beside their peers, and how exactly"
EPILOG = """
All forms run in turn on one core, so that whatever else the machine does meets all of them; ratios are of processor
time, with their 10 to 90 % range over the rounds. Measure on an idle machine: load flatters compiled forms.

examples:
  fcnet bench step                                         # the shipped policy in every form
  fcnet bench step models/aliengo-mlp.safetensors --paced 50
  fcnet bench drift --drift-steps 10000000                 # a policy that runs for two days, against float64
  fcnet bench context --json context.json --figure context.png
"""
OF_A_POLICY = ("step", "drift")
DriftSteps = Annotated[int, Meta(ge=1000, le=10**8)]
LIBRARIES = ("torch", "onnxruntime", "matplotlib")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("what", choices=("step", "drift", "context", "layers", "hidden"), help="what to measure")
    parser.add_argument("model", nargs="?", type=Path, help="of step, drift: a policy file (default: the Aliengo's)")
    parser.add_argument("--rounds", type=option(Count), default=40, metavar="N", help="rounds (default: 40)")
    parser.add_argument("--steps", type=option(Count), default=50, metavar="N", help="of a round (default: 50)")
    parser.add_argument(
        "--drift-steps", type=option(DriftSteps), default=10**6, metavar="N", help="(default: 1,000,000)"
    )
    parser.add_argument("--paced", type=option(Positive), metavar="HZ", help="at this rate: caches go cold between")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table here")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table here")
    parser.add_argument("--figure", type=Path, metavar="PNG", help="of a size varied: write a figure here")


def run(args: argparse.Namespace) -> int:
    """Measure and print; 0 when all is measured."""
    if args.what in OF_A_POLICY and args.figure:
        raise StudyError("--figure draws a size varied: context, layers or hidden")
    if args.what not in OF_A_POLICY and args.model:
        raise StudyError(
            f"`fcnet bench {args.what}` makes its own policies; a file is for `fcnet bench step` and drift"
        )
    for path in (args.json, args.markdown, args.figure):
        if path:
            check_writable(path)
    for library in LIBRARIES:
        if find_spec(library) is None:
            raise StudyError(f"fcnet bench needs the Python package {library}; `sh tools/setup.sh test` installs it")
    import torch

    from fcnet_study.drift import measure_drift
    from fcnet_study.steps import Pace, time_forms
    from fcnet_study.sweeps import SWEEPS, run_sweep

    torch.set_num_threads(1)
    pace = Pace(args.rounds, args.steps, 1 / args.paced if args.paced else 0.0)
    if args.what in OF_A_POLICY:
        model = load_model(args.model or shipped_model("aliengo"))
        report = time_forms(model, pace) if args.what == "step" else measure_drift(model, args.drift_steps)
    else:
        swept = run_sweep(SWEEPS[args.what], pace)
        report = swept.report(pace)
        if args.figure:
            swept.draw(args.figure)
    print(report.text())
    if args.json:
        report.write_json(args.json)
    if args.markdown:
        write_whole(args.markdown, report.markdown().encode())
    return 0
