"""Tables that compare training runs: a column a run, a row a fact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fcnet_core.runs.folder import Falls, Report, TrainingRun

MISSING = "–"


def sections(runs: Sequence[TrainingRun]) -> dict[str, list[list[str]]]:
    """Return the tables that have rows, by heading: results, settings that differ, evaluations."""
    results = [[name, *map(result, runs)] for name, result in RESULTS.items()]
    return {
        heading: rows
        for heading, rows in {
            "Results": results,
            "Settings that differ": _differences([_settings(run) for run in runs]),
            "Falls in closed loop": _evaluations(runs),
        }.items()
        if rows
    }


def duration(seconds: float) -> str:
    """Format a duration, such as 4.2 s, 3 min 20 s or 1 h 05 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return "{} min {:02d} s".format(*divmod(int(seconds), 60))
    return "{} h {:02d} min".format(*divmod(int(seconds / 60), 60))


def _state(run: TrainingRun) -> str:
    facts = run.facts
    return f"{facts.state}: {facts.reason}" if facts.reason else facts.state


def _held_out(report: Report | None) -> str:
    return MISSING if report is None else f"{report.held_out_error:.4f} rad"


def _last(run: TrainingRun, shown: Callable[[Report], str]) -> str:
    return shown(run.reports[-1]) if run.reports else MISSING


RESULTS: dict[str, Callable[[TrainingRun], str]] = {
    "robot or task": lambda run: run.facts.robot,
    "policy": lambda run: run.facts.policy_type,
    "parameters": lambda run: f"{run.facts.parameters:,}",
    "state": _state,
    "steps": lambda run: f"{run.reports[-1].step if run.reports else 0:,} of {run.facts.steps:,}",
    "time in training": lambda run: _last(run, lambda report: duration(report.seconds)),
    "last loss": lambda run: _last(run, lambda report: f"{report.loss:.4g}"),
    "last held-out error": lambda run: _held_out(run.held_out[-1] if run.held_out else None),
    "lowest held-out error": lambda run: _held_out(run.best),
    "at step": lambda run: f"{run.best.step:,}" if run.best else MISSING,
}


def _settings(run: TrainingRun) -> dict[str, Any]:
    """Return the settings by name, those of the network as config.NAME, without the policy type (see RESULTS)."""
    entries = run.settings.entries
    del entries["policy_type"]
    return entries | {f"config.{name}": value for name, value in entries.pop("config").items()}


def _differences(settings: Sequence[dict[str, Any]]) -> list[list[str]]:
    names = dict.fromkeys(name for one in settings for name in one)
    rows = [[name, *(_brief(one.get(name)) for one in settings)] for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]


def _brief(value: Any) -> str:
    if value is None:
        return MISSING
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _evaluations(runs: Sequence[TrainingRun]) -> list[list[str]]:
    """Return a row for every scenario in which any of the runs was evaluated."""
    names = dict.fromkeys(name for run in runs for name in run.evaluation)
    return [[name, *(_falls(run.evaluation.get(name)) for run in runs)] for name in names]


def _falls(scenario: Falls | None) -> str:
    return f"{scenario.falls} of {scenario.episodes}" if scenario else MISSING
