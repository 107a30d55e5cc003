"""A study from its settings to its results: what is done already is read, the rest is done, one job after another."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import msgspec
import numpy as np
import torch

from fcnet_core.errors import StudyError
from fcnet_core.files import write_whole
from fcnet_core.learning.trainer import check_bfloat16
from fcnet_study.folder import begin
from fcnet_study.report import Report, mean_and_range
from fcnet_study.walk_study.network import Networks
from fcnet_study.walk_study.settings import Architecture, WalkConfig
from fcnet_study.walk_study.training import Point, WalkJob

Curves = dict[Architecture, dict[int, list[Point]]]  # by seed


class WalkStudy:
    """A study in its folder. Raises FcnetError when the folder holds one with other settings of training, for
    processes among which the robots cannot be divided, and for a precision that the machine does not have.
    """

    def __init__(self, config: WalkConfig, folder: Path, processes: int) -> None:
        if config.training.robots % processes:
            advice = "choose another number of --processes"
            raise StudyError(f"{config.training.robots} robots cannot be divided among {processes} processes; {advice}")
        if config.training.precision == "bfloat16":
            check_bfloat16(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        self.config, self.folder, self.processes = config, folder, processes
        begin(folder, config.training)

    def run(self) -> Report:
        """Do what is not done yet, one seed after the other, with the results written after each job: the table."""
        for seed in self.config.seeds:
            for architecture in self.config.architectures:
                job = self._job(architecture, seed)
                if not job.is_done(self.config.steps):
                    job.run(self.config.training, self.config.steps, self.processes)
                    self._write()
        return self._write()

    def _job(self, architecture: Architecture, seed: int) -> WalkJob:
        return WalkJob(architecture, seed, self.folder / "jobs" / f"{architecture}-seed{seed}")

    def _write(self) -> Report:
        """Write results.md, results.json and results.png."""
        found = {
            architecture: {
                seed: job.curve()
                for seed in self.config.seeds
                if (job := self._job(architecture, seed)).is_done(self.config.steps)
            }
            for architecture in self.config.architectures
        }
        curves: Curves = {architecture: by_seed for architecture, by_seed in found.items() if by_seed}
        table = report(curves)
        content = asdict(table) | {"curves": msgspec.to_builtins(curves, str_keys=True)}
        write_whole(self.folder / "results.json", json.dumps(content, indent=1).encode())
        write_whole(self.folder / "results.md", table.markdown().encode())
        draw(curves, self.folder / "results.png")
        return table


def report(curves: Curves) -> Report:
    """The table of the last evaluations. A cell is the mean over the seeds, with the lowest and the highest."""
    rows: dict[str, tuple[str, ...]] = {}
    for architecture, by_seed in curves.items():
        last = [curve[-1] for curve in by_seed.values()]
        measures = (
            [point.mean_return for point in last],
            [max(point.mean_return for point in curve) for curve in by_seed.values()],
            [point.explored_return for point in last],
            [100 * point.fallen for point in last],
            [point.distance for point in last],
            [point.seconds / 60 for point in last],
        )
        size = sum(parameter.numel() for parameter in Networks(architecture).parameters())
        rows[architecture] = (
            f"{size:,}", f"{len(last)}", f"{last[0].steps:,}", *(mean_and_range(values) for values in measures)
        )  # fmt: skip
    columns = (
        "parameters of actor and critic", "seeds", "control steps", "return", "best return",
        "return with exploration", "fallen [%]", "distance [m]", "learned in [min]",
    )  # fmt: skip
    how = (
        "mean over the seeds (lowest to highest) of the last evaluation; in this suite's simulator and at its scale,"
        " not with the paper's 4096 environments"
    )
    return Report("What architectures learn by PPO on the A1-Walk task", columns, rows, how)


def draw(curves: Curves, path: Path) -> None:
    """Write the learning curves: means over the seeds, in a band from the lowest to the highest."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.5), layout="constrained")
    measures = {"mean_return": "return without exploration", "explored_return": "return with exploration"}
    for axes, (measure, label) in zip(figure.subplots(1, 2, sharey=True), measures.items(), strict=True):
        for architecture, by_seed in curves.items():
            steps = [point.steps for point in min(by_seed.values(), key=len)]
            returns = np.array(
                [[getattr(point, measure) for point in curve[: len(steps)]] for curve in by_seed.values()]
            )
            (line,) = axes.plot(steps, returns.mean(axis=0), marker="o", markersize=3, label=architecture)
            band = returns.min(axis=0), returns.max(axis=0)
            axes.fill_between(steps, *band, alpha=0.2, color=line.get_color(), linewidth=0)
        axes.set(xlabel="control steps of all robots", ylabel=label)
        axes.grid(alpha=0.3)
    figure.axes[0].legend()
    figure.savefig(path, dpi=120)
