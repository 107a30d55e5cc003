"""The table of a study, with a row for every variant and share, and its figure with the spread of the seeds."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fcnet_core.bench import ResultTable
from papers.fcnet.study_jobs import Trained
from papers.fcnet.study_settings import Plan
from papers.shared import mean_and_range
from quadruped_sim.evaluation.results import Evaluation, mean_return

Values = list[float]  # one for each seed


@dataclass(frozen=True)
class Results:
    """Training and evaluation by job, the expert's evaluation, and the median step [s] by variant, so far."""

    plan: Plan
    trained: dict[str, Trained]
    walked: dict[str, Evaluation]
    expert: Evaluation
    latency: dict[str, float]

    def of(self, variant: str, share: float) -> dict[str, Trained]:
        """Return the jobs of one variant and share, of every seed."""
        return {name: one for name, one in self.trained.items() if (one.variant, one.share) == (variant, share)}

    def returns(self, variant: str, share: float) -> Values:
        """Return the mean return of every evaluated seed, as a percentage of the expert's."""
        walks = [self.walked[name].scenarios for name in self.of(variant, share) if name in self.walked]
        found = [mean_return(scores, self.expert.scenarios) for scores in walks]
        return [100 * one for one in found if one is not None]

    def leading(self, share: float, count: int) -> list[str]:
        """Return the variants with the highest return on a share of the data."""

        def highest(variant: str) -> float:
            return max(self.returns(variant, share), default=-math.inf)

        return sorted(self.plan.config.variants, key=highest, reverse=True)[:count]


def table(results: Results) -> ResultTable:
    """Return the results so far. A cell is the mean over the seeds, with the lowest and the highest."""
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
        f" relative to the expert's with the same commands, over {len(results.expert.scenarios)} scenarios of"
        f" {config.episodes} episodes"
    )
    return ResultTable("Policies trained on parts of the data", columns, rows, how, machine={})


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
    walks = [results.walked[name].scenarios for name in results.of(variant, share) if name in results.walked]
    return [100 * sum(s.falls for s in w.values()) / sum(s.episodes for s in w.values()) for w in walks]


MEASURES: Mapping[str, Callable[[Results, str, float], Values]] = {
    "validation error [mrad]": _errors,
    "falls [%]": _falls,
    "return [%]": Results.returns,
}


def draw(results: Results, path: Path) -> None:
    """Write the figure: a panel for each measure, against the share of the data, or by variant if there is one share.

    A line has a band from the lowest to the highest seed.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.2), layout="constrained")
    config = results.plan.config
    shares = sorted(config.shares)
    for axes, (label, values) in zip(figure.subplots(1, len(MEASURES)), MEASURES.items(), strict=True):
        axes.set(ylabel=label)
        axes.grid(alpha=0.3)
        if len(shares) == 1:
            for place, variant in enumerate(config.variants):
                several = values(results, variant, shares[0])
                axes.plot([place] * len(several), several, "o", color="C0")
            axes.set_xticks(range(len(config.variants)), list(config.variants), rotation=90)
            continue
        for variant in config.variants:
            found = {100 * share: several for share in shares if (several := values(results, variant, share))}
            means = [sum(several) / len(several) for several in found.values()]
            (line,) = axes.plot(list(found), means, marker="o", label=variant)
            low, high = ([pick(several) for several in found.values()] for pick in (min, max))
            axes.fill_between(list(found), low, high, alpha=0.2, color=line.get_color(), linewidth=0)
        axes.set(xscale="log", xlabel="share of the data [%]")
        axes.set_xticks([100 * share for share in shares], [f"{100 * share:g}" for share in shares])
        axes.minorticks_off()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if labels:
        figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 5))
    figure.savefig(path, dpi=120)
