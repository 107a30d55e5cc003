"""fcnet compare: training runs side by side."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from fcnet_core.learning.runs import Report, TrainingRun, read_run
from fcnet_core.verbs import STDOUT, add_json, check_json, text_table, write_json

SUMMARY = "compare training runs: errors, time, settings that differ, evaluations"
EPILOG = """
RUN is a folder that `fcnet train` wrote. Falls are compared if `fcnet evaluate RUN` has evaluated the runs. TensorBoard
shows the curves: tensorboard --logdir runs

example:
  fcnet compare runs/aliengo-fcnet-1 runs/aliengo-mlp-1
"""
MISSING = "–"
LOWEST = "{0.held_out_error:.4f} rad at step {0.step:,}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a training run")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the tables; return 0."""
    check_json(args.json)
    runs = [read_run(path) for path in args.runs]
    write_json([_facts(run) for run in runs], args.json)
    if args.json != STDOUT:
        tables = {
            "Results": [[name, *map(result, runs)] for name, result in RESULTS.items()],
            "Settings that differ": _differences(runs),
            "Falls in closed loop": _falls(runs),
        }
        names = [run.name for run in runs]
        print("\n\n".join(text_table([heading, *names], rows) for heading, rows in tables.items() if rows))
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


def _last(reports: list[Report], form: str) -> str:
    """Format the last report, if there is one."""
    return form.format(*reports[-1:]) if reports else MISSING


RESULTS: dict[str, Callable[[TrainingRun], str]] = {
    "robot or task": lambda run: run.facts.robot,
    "policy": lambda run: run.facts.policy_type,
    "parameters": lambda run: f"{run.facts.parameters:,}",
    "state": lambda run: ": ".join(filter(None, (run.facts.state, run.facts.reason))),
    "steps": lambda run: f"{_last(run.reports, '{0.step:,}')} of {run.facts.steps:,}",
    "time in training": lambda run: _last(run.reports, "{0.seconds:,.0f} s"),
    "last loss": lambda run: _last(run.reports, "{0.loss:.4g}"),
    "last validation error": lambda run: _last(run.held_out, "{0.held_out_error:.4f} rad"),
    "lowest validation error": lambda run: _last([run.best] if run.best else [], LOWEST),
}


def _differences(runs: list[TrainingRun]) -> list[list[str]]:
    """Return a row for each setting that differs, settings of the network as config.NAME; RESULTS has the type."""
    settings: list[dict[str, Any]] = []
    for run in runs:
        entries = run.settings.entries
        network = {f"config.{name}": value for name, value in entries.pop("config").items()}
        settings.append({name: value for name, value in (entries | network).items() if name != "policy_type"})
    names = dict.fromkeys(name for one in settings for name in one)
    rows = [[name, *(_brief(one.get(name)) for one in settings)] for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]


def _brief(value: Any) -> str:
    if value is None:
        return MISSING
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _falls(runs: list[TrainingRun]) -> list[list[str]]:
    """Return a row for each scenario in which any of the runs was evaluated."""
    names = dict.fromkeys(name for run in runs for name in run.evaluation)
    scores = {name: [run.evaluation.get(name) for run in runs] for name in names}
    return [[name, *(f"{s.falls} of {s.episodes}" if s else MISSING for s in row)] for name, row in scores.items()]
