"""What a study found: a table with a row for every variant and share, and a figure with the spread of the seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fcnet_study.data_study.study import Results
from fcnet_study.report import Report, mean_and_range
from quadruped_sim.evaluation.results import mean_return
from quadruped_sim.evaluation.score import Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Values = list[float]  # one for each seed


def report(results: Results) -> Report:
    """The table of what has been done so far. A cell is the mean over the seeds, with the lowest and the highest."""
    config = results.plan.config
    rows = {
        f"{variant}, {100 * share:g} %": _row(results, variant, share)
        for share in config.shares
        for variant in config.variants
        if results.of(variant, share)
    }
    columns = ("parameters", "learning rate", "seeds", *MEASURES, "step [us]", "trained in [min]")
    how = (
        f"mean over the seeds (lowest to highest) after {config.steps:,} steps of the optimiser; falls, and return"
        f" relative to the expert's where both get the same commands, over {len(results.expert.scenarios)} scenarios of"
        f" {config.episodes} episodes"
    )
    return Report("What policies learn from how much data", columns, rows, how)


def _row(results: Results, variant: str, share: float) -> tuple[str, ...]:
    jobs = results.of(variant, share).values()
    one = next(iter(jobs))
    diverged = sum(job.validation_error is None for job in jobs)
    return (
        f"{one.parameters:,}",
        f"{one.learning_rate:g}",
        f"{len(jobs)}" + (f", {diverged} diverged" if diverged else ""),
        *(mean_and_range(values(results, variant, share)) for values in MEASURES.values()),
        f"{1e6 * results.latency[variant]:.1f}",
        f"{sum(job.seconds for job in jobs) / len(jobs) / 60:.1f}",
    )


def _errors(results: Results, variant: str, share: float) -> Values:
    jobs = results.of(variant, share).values()
    return [1e3 * job.validation_error for job in jobs if job.validation_error is not None]


def _falls(results: Results, variant: str, share: float) -> Values:
    found = _scores(results, variant, share)
    return [
        100 * sum(score.falls for score in scores.values()) / sum(score.episodes for score in scores.values())
        for scores in found
    ]


def _returns(results: Results, variant: str, share: float) -> Values:
    found = _scores(results, variant, share)
    shares = [mean_return(scores, results.expert.scenarios) for scores in found]
    return [100 * share for share in shares if share is not None]


def _scores(results: Results, variant: str, share: float) -> list[Mapping[str, Score]]:
    """Scores by scenario, of every seed that was evaluated."""
    names = results.of(variant, share)
    return [results.walked[name].scenarios for name in names if name in results.walked]


MEASURES: dict[str, Callable[[Results, str, float], Values]] = {
    "validation error [mrad]": _errors,
    "falls [%]": _falls,
    "return [%]": _returns,
}


def draw(results: Results, path: Path) -> None:
    """Write the figure: a panel for each measure, against the share of the data, or by variant where there is one."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.2), layout="constrained")
    for axes, (label, values) in zip(figure.subplots(1, len(MEASURES)), MEASURES.items(), strict=True):
        axes.set(ylabel=label)
        axes.grid(alpha=0.3)
        if len(results.plan.config.shares) > 1:
            _against_share(axes, results, values)
        else:
            _by_variant(axes, results, values)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if labels:
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    figure.savefig(path, dpi=120)


def _against_share(axes: Axes, results: Results, values: Callable[[Results, str, float], Values]) -> None:
    """A line for each variant, with a band from the lowest to the highest seed."""
    config = results.plan.config
    for variant in config.variants:
        found = {100 * share: values(results, variant, share) for share in sorted(config.shares)}
        found = {share: several for share, several in found.items() if several}
        shares, several = list(found), list(found.values())
        (line,) = axes.plot(shares, [sum(one) / len(one) for one in several], marker="o", label=variant)
        low, high = [min(one) for one in several], [max(one) for one in several]
        axes.fill_between(shares, low, high, alpha=0.2, color=line.get_color(), linewidth=0)
    ticks = [100 * share for share in sorted(config.shares)]
    axes.set(xscale="log", xlabel="share of the data [%]")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def _by_variant(axes: Axes, results: Results, values: Callable[[Results, str, float], Values]) -> None:
    """A point for each seed of each variant."""
    config = results.plan.config
    for place, variant in enumerate(config.variants):
        several = values(results, variant, config.shares[0])
        axes.plot([place] * len(several), several, "o", color="C0")
    axes.set_xticks(range(len(config.variants)), list(config.variants), rotation=90)
