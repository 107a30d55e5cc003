"""fcnet bench: how fast policies step and train, as tables, JSON and figures."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from fcnet_core.errors import StudyError
from fcnet_core.files import Count, Positive, check_writable, option, write_whole
from fcnet_core.model_file import load_model, shipped_model

SUMMARY = "measure how fast policies step, attend and train, beside their peers, and how exactly"
EPILOG = """
All forms run in turn on one core, so that whatever else the machine does meets all of them; ratios are of processor
time, with their 10 to 90 % range over the rounds. Measure on an idle machine: load flatters compiled forms.

examples:
  fcnet bench step                                         # the shipped policy in every form
  fcnet bench step models/aliengo-mlp.safetensors --paced 50
  fcnet bench drift --drift-steps 10000000                 # a policy that runs for two days, against float64
  fcnet bench context --json context.json --figure context.png
  fcnet bench train --bf16 --figure train.png              # steps of training, at n = 64, 256 and 1024
  fcnet bench memory                                       # of a convolution in training
  fcnet bench attention --figure attention.png             # without the pairs that a body's mask excludes
"""
OF_A_POLICY = ("step", "drift")
DRAWN = ("context", "layers", "hidden", "train", "attention")
PACES = {"train": (5, 1), "attention": (40, 10)}  # rounds and steps where none are given
DriftSteps = Annotated[int, Meta(ge=1000, le=10**8)]
LIBRARIES = ("torch", "onnxruntime", "matplotlib")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("what", choices=(*OF_A_POLICY, *DRAWN, "memory"), help="what to measure")
    parser.add_argument("model", nargs="?", type=Path, help="of step, drift: a policy file (default: the Aliengo's)")
    parser.add_argument("--rounds", type=option(Count), metavar="N", help="rounds (default: 40; of train: 5)")
    parser.add_argument(
        "--steps", type=option(Count), metavar="N", help="of a round (default: 50; of train: 1, of attention: 10)"
    )
    parser.add_argument(
        "--drift-steps", type=option(DriftSteps), default=10**6, metavar="N", help="(default: 1,000,000)"
    )
    parser.add_argument("--paced", type=option(Positive), metavar="HZ", help="at this rate: caches go cold between")
    parser.add_argument("--bf16", action="store_true", help="of train: with products of matrices in bfloat16, too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table here")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table here")
    parser.add_argument(
        "--figure", type=Path, metavar="PNG", help="of a size varied, train, attention: write a figure here"
    )


def run(args: argparse.Namespace) -> int:
    """Measure and print; 0 when all is measured."""
    if args.figure and args.what not in DRAWN:
        raise StudyError(f"--figure draws a size varied, training or attention: {', '.join(DRAWN)}")
    for name in ("bf16", "paced"):
        if getattr(args, name) and (args.what == "train") != (name == "bf16"):
            raise StudyError(f"--{name} is not for `fcnet bench {args.what}`; leave it out")
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

    from fcnet_study.benchmarks.drift import measure_drift
    from fcnet_study.benchmarks.memory import measure_memory
    from fcnet_study.benchmarks.sparse_attention import AttentionTimes, time_attention
    from fcnet_study.benchmarks.steps import Pace, time_forms
    from fcnet_study.benchmarks.sweeps import SWEEPS, Swept, run_sweep
    from fcnet_study.benchmarks.train_steps import TrainingTimes, time_training

    torch.set_num_threads(1)
    rounds, steps = PACES.get(args.what, (40, 50))
    pace = Pace(args.rounds or rounds, args.steps or steps, 1 / args.paced if args.paced else 0.0)
    if args.what in OF_A_POLICY:
        model = load_model(args.model or shipped_model("aliengo"))
        report = time_forms(model, pace) if args.what == "step" else measure_drift(model, args.drift_steps)
    elif args.what == "memory":
        report = measure_memory()
    else:
        measured: AttentionTimes | TrainingTimes | Swept
        if args.what == "attention":
            measured = time_attention(pace)
        else:
            measured = time_training(pace, args.bf16) if args.what == "train" else run_sweep(SWEEPS[args.what], pace)
        report = measured.report(pace)
        if args.figure:
            measured.draw(args.figure)
    print(report.text())
    if args.json:
        report.write_json(args.json)
    if args.markdown:
        write_whole(args.markdown, report.markdown().encode())
    return 0
