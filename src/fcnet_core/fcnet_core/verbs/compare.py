"""fcnet compare: training runs side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from fcnet_core.bench.table import text_table
from fcnet_core.runs.comparison import sections
from fcnet_core.runs.folder import TrainingRun, read_run
from fcnet_core.verbs import STDOUT, add_json, check_json, write_json

SUMMARY = "compare training runs: errors, time, settings that differ, evaluations"
EPILOG = """
RUN is a folder that `fcnet train` wrote. Falls are shown after `fcnet evaluate RUN`. TensorBoard shows the
curves: tensorboard --logdir runs

example:
  fcnet compare runs/aliengo-fcnet-1 runs/aliengo-mlp-1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a training run")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the tables; 0 if every folder could be read."""
    check_json(args.json)
    runs = [read_run(path) for path in args.runs]
    write_json([_facts(run) for run in runs], args.json)
    if args.json != STDOUT:
        names = [run.name for run in runs]
        print("\n\n".join(text_table([heading, *names], rows) for heading, rows in sections(runs).items()))
    return 0


def _facts(run: TrainingRun) -> dict[str, Any]:
    return {
        "run": run.name,
        **to_builtins(run.facts),
        "settings": run.settings.entries,
        "last": run.reports[-1]._asdict() if run.reports else None,
        "best": run.best._asdict() if run.best else None,
        "evaluation": to_builtins(run.evaluation),
    }
