"""Training runs side by side: tables whose rows are facts and whose columns are the runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fcnet_core.runs.folder import Falls, Report, TrainingRun

MISSING = "–"


def sections(runs: Sequence[TrainingRun]) -> dict[str, list[list[str]]]:
    """Tables by heading, without those that have no rows: results, settings that differ, evaluations."""
    results = [[name, *(tell(run) for run in runs)] for name, tell in RESULTS.items()]
    return {
        heading: rows
        for heading, rows in {
            "Results": results,
            "Settings that differ": _differences([_settings(run) for run in runs]),
            "Falls in closed loop": _evaluations(runs),
        }.items()
        if rows
    }


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table for a terminal: names to the left, values to the right."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in [heads, *rows]
    )


def duration(seconds: float) -> str:
    """Such as 4.2 s, 3 min 20 s or 1 h 05 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return "{} min {:02d} s".format(*divmod(int(seconds), 60))
    return "{} h {:02d} min".format(*divmod(int(seconds / 60), 60))


def standing(run: TrainingRun) -> str:
    """How the run stands."""
    facts = run.facts
    return f"{facts.state}: {facts.reason}" if facts.reason else facts.state


def _held_out(report: Report | None) -> str:
    return MISSING if report is None else f"{report.held_out_error:.4f} rad"


def _last(run: TrainingRun, tell: Callable[[Report], str]) -> str:
    return tell(run.reports[-1]) if run.reports else MISSING


RESULTS: dict[str, Callable[[TrainingRun], str]] = {
    "robot or task": lambda run: run.facts.robot,
    "policy": lambda run: run.facts.policy_type,
    "parameters": lambda run: f"{run.facts.parameters:,}",
    "state": standing,
    "steps": lambda run: f"{run.reports[-1].step if run.reports else 0:,} of {run.facts.steps:,}",
    "time in training": lambda run: _last(run, lambda report: duration(report.seconds)),
    "last loss": lambda run: _last(run, lambda report: f"{report.loss:.4g}"),
    "last held-out error": lambda run: _held_out(run.held_out[-1] if run.held_out else None),
    "lowest held-out error": lambda run: _held_out(run.best),
    "at step": lambda run: f"{run.best.step:,}" if run.best else MISSING,
}


def _settings(run: TrainingRun) -> dict[str, Any]:
    """By name, those of the network's configuration as config.NAME; the policy type stands among the results."""
    entries: dict[str, Any] = msgspec.to_builtins(run.settings)
    del entries["policy_type"], entries["config"]
    config = msgspec.to_builtins(run.settings.policy_config)
    return entries | {f"config.{name}": value for name, value in config.items()}


def _differences(settings: Sequence[dict[str, Any]]) -> list[list[str]]:
    names = dict.fromkeys(name for one in settings for name in one)
    rows = [[name, *(_brief(one.get(name)) for one in settings)] for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]


def _brief(value: Any) -> str:
    if value is None:
        return MISSING
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _evaluations(runs: Sequence[TrainingRun]) -> list[list[str]]:
    """Falls of episodes in every scenario that any of the runs was evaluated in."""
    names = dict.fromkeys(name for run in runs for name in run.evaluation)
    return [[name, *(_falls(run.evaluation.get(name)) for run in runs)] for name in names]


def _falls(scenario: Falls | None) -> str:
    return f"{scenario.falls} of {scenario.episodes}" if scenario else MISSING
