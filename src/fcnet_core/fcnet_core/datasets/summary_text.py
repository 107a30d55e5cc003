"""A summary as text for a terminal, and as figures for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fcnet_core.dataset import Manifest
from fcnet_core.datasets.drift import Drift, Reference
from fcnet_core.datasets.summary import NAMES, Summary
from fcnet_core.observation import ACTION_SIZE, LAYOUT, OBSERVATION_SIZE
from fcnet_core.robot import JOINT_NAMES, Robot

BARS = " ▁▂▃▄▅▆▇█"
MANY = 20  # drifted entries told
FIELDS = {**LAYOUT, "action": slice(OBSERVATION_SIZE, OBSERVATION_SIZE + ACTION_SIZE)}


def summary_lines(manifest: Manifest, summary: Summary, robot: Robot, every_entry: bool) -> Iterator[str]:
    """Sizes, spread, coverage and saturation; every_entry: a line for each of the 82 entries, not for each field."""
    yield (
        f"{manifest.robot}, {manifest.control_rate:g} Hz: {summary.steps:,} steps ({summary.seconds / 3600:.3g} h) in "
        f"{summary.episodes:,} episodes, {summary.sequences:,} sequences, {summary.shards:,} shards"
    )
    yield f"\n{'entry':<30}{'mean':>10}{'std':>10}{'min':>10}{'max':>10}"
    yield from _entries(summary) if every_entry else _fields(summary)
    yield f"\ncommands, share of steps over each one's range (walking: {summary.walking:.0%})"
    for field, shares in summary.coverage.items():
        limits = robot.commands[field]
        bars = "always 0" if summary.idle[field] else f"[{_bars(shares)}]"
        yield f"{field:<12}{limits.lowest:>7g} {bars:^14} {limits.highest:<7g}"
    yield f"\ntargets at a joint limit: {summary.any_at_limit:.2%} of the steps"
    for joint in np.argsort(-summary.at_limit)[:3]:
        if summary.at_limit[joint]:
            yield f"  {JOINT_NAMES[joint]:<20}{summary.at_limit[joint]:.2%}"


def drift_lines(reference: Reference, drift: Sequence[Drift]) -> Iterator[str]:
    """Which entries are not as in the other, and how."""
    if not drift:
        yield f"\nno drift against {reference.name}"
        return
    yield f"\ndrift against {reference.name}: {len(drift)} of {len(reference.mean)} entries"
    yield f"{'entry':<36}{'shift [std]':>12}{'std ratio':>12}"
    for entry in drift[:MANY]:
        beyond = "  has values that the policy sees clipped" if entry.clipped else ""
        yield f"{entry.name:<36}{entry.shift:>+12.2f}{entry.ratio:>12.2f}{beyond}"
    if len(drift) > MANY:
        yield f"and {len(drift) - MANY} more; --json tells all"


def summary_figures(
    manifest: Manifest, summary: Summary, reference: Reference | None, drift: Sequence[Drift]
) -> dict[str, Any]:
    """Everything as numbers and texts, fit for JSON."""
    spread = summary.spread
    figures: dict[str, Any] = {
        "robot": manifest.robot,
        "control_rate": manifest.control_rate,
        **{name: getattr(summary, name) for name in ("shards", "sequences", "episodes", "steps", "seconds", "walking")},
        "entries": {
            name: dict(zip(("mean", "std", "min", "max"), map(float, figures), strict=True))
            for name, *figures in zip(NAMES, spread.mean, spread.std, spread.lowest, spread.highest, strict=True)
        },
        "coverage": {field: shares.tolist() for field, shares in summary.coverage.items()},
        "at_limit": dict(zip(JOINT_NAMES, summary.at_limit.tolist(), strict=True)),
        "any_at_limit": summary.any_at_limit,
    }
    if reference is not None:
        figures["drift"] = {"against": reference.name, "entries": [vars(entry) for entry in drift]}
    return figures


def _fields(summary: Summary) -> Iterator[str]:
    """Entries of all joints taken together, others each for itself."""
    for field, entries in FIELDS.items():
        if "joint" not in field and "action" not in field:
            yield from _entries(summary, entries)
            continue
        spread = summary.spread
        mean = spread.mean[entries].mean()
        std = np.sqrt((spread.std[entries] ** 2 + spread.mean[entries] ** 2).mean() - mean**2)
        yield _line(field, mean, std, spread.lowest[entries].min(), spread.highest[entries].max())


def _entries(summary: Summary, chosen: slice = slice(None)) -> Iterator[str]:
    spread = summary.spread
    figures = zip(NAMES, spread.mean, spread.std, spread.lowest, spread.highest, strict=True)
    for name, *numbers in list(figures)[chosen]:
        if "unused" not in name:
            yield _line(name, *numbers)


def _line(name: str, *numbers: float) -> str:
    return f"{name:<30}" + "".join(f"{number:>10.3f}" for number in numbers)


def _bars(shares: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    """One character for each share; the smallest that is not nothing can be seen."""
    height = np.ceil(shares / shares.max() * (len(BARS) - 1)).astype(int)
    return "".join(BARS[level] for level in height)
