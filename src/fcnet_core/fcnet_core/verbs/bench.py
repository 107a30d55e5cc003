"""fcnet bench: the duration of a control step in every runtime."""

import argparse
from dataclasses import asdict

from fcnet_core.files import Count, Positive, option
from fcnet_core.model_file import load_model
from fcnet_core.verbs import add_json, check_json, write_json

SUMMARY = "measure the duration of a policy's control step in every runtime"
EPILOG = """
The runtimes are ONNX Runtime and, for FCNet and the Transformer, numba with weights in full and in half precision. They
take turns on one core. The last column is the speed-up over ONNX Runtime: the ratio of the CPU times, as median, 10th
and 90th percentile over the rounds. Measure on an idle machine: under load the compiled runtimes look better than they
are. A file of format 1 needs `fcnet export --format 2` first. For comparison, papers/fcnet/published_step.py
measures the control step of FCNet's published code in eager PyTorch.

examples:
  fcnet bench step                                         # the shipped policy of the Aliengo
  fcnet bench step models/aliengo-mlp.safetensors --paced 50
  fcnet bench step aliengo aliengo-transformer --json step.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("what", choices=("step",), help="step: one control step")
    models = "policy files, or names of `fcnet list models` (default: aliengo)"
    parser.add_argument("models", nargs="*", metavar="MODEL", help=models)
    parser.add_argument("--rounds", type=option(Count), default=40, metavar="N", help="number of rounds (default: 40)")
    parser.add_argument("--steps", type=option(Count), default=50, metavar="N", help="steps per round (default: 50)")
    parser.add_argument("--paced", type=option(Positive), metavar="HZ", help="step rate; the pauses leave caches cold")
    add_json(parser, "one table per model")


def run(args: argparse.Namespace) -> int:
    """Measure and print one table per model; return 0."""
    check_json(args.json)
    models = {name: load_model(name) for name in args.models or ["aliengo"]}
    from fcnet_core.bench import Pace, forms, time_forms

    pace = Pace(args.rounds, args.steps, 1 / args.paced if args.paced else 0.0)
    tables = {}
    for name, model in models.items():
        tables[name] = time_forms(model, forms(model), pace)
        if args.json != "-":
            print(tables[name].text())
    write_json({name: asdict(table) for name, table in tables.items()}, args.json)
    return 0
