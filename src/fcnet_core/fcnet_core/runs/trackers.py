"""Where the metrics of a training go besides its own folder: TensorBoard always, other services where they are asked
for. A further service is a class with the two methods of Tracker, and its line in TRACKERS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import msgspec

from fcnet_core.errors import FcnetError
from fcnet_core.runs.folder import Report, RunFolder, TrainingRun

PROJECT = "fcnet"  # in the words of MLflow: experiment


class Tracker(Protocol):
    """Takes the reports of one run as they come."""

    def log(self, report: Report) -> None: ...

    def close(self, finished: bool) -> None: ...


class TensorBoard:
    """Event files in the run's folder; what an interrupted run had after its checkpoint is not shown any more."""

    def __init__(self, run: TrainingRun, folder: RunFolder) -> None:
        from torch.utils.tensorboard import SummaryWriter

        purge = run.reports[-1].step + 1 if run.reports else None
        self._writer = SummaryWriter(str(folder.path), purge_step=purge)

    def log(self, report: Report) -> None:
        for name, value in _scalars(report).items():
            self._writer.add_scalar(name, value, report.step)
        self._writer.flush()

    def close(self, finished: bool) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A run of the project `fcnet`; WANDB_MODE=offline keeps it in the run's folder, for `wandb sync`."""

    def __init__(self, run: TrainingRun, folder: RunFolder) -> None:
        wandb = import_module("wandb")
        name, identity = folder.path.name, run.facts.identity
        try:
            self._run = wandb.init(
                project=PROJECT, name=name, id=identity, resume="allow", dir=str(folder.path), config=_settings(run)
            )
        except wandb.Error as error:
            raise FcnetError(
                f"Weights & Biases cannot be used: {error}; call `wandb login`, or set WANDB_MODE=offline"
            ) from error

    def log(self, report: Report) -> None:
        self._run.log(_scalars(report), step=report.step)

    def close(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)


class MLflow:
    """A run of the experiment `fcnet`, at MLFLOW_TRACKING_URI."""

    def __init__(self, run: TrainingRun, folder: RunFolder) -> None:
        self._mlflow = mlflow = import_module("mlflow")
        try:
            mlflow.set_experiment(PROJECT)
            same = f"tags.fcnet_run = '{run.facts.identity}'"
            if found := mlflow.search_runs(experiment_names=[PROJECT], filter_string=same, output_format="list"):
                mlflow.start_run(run_id=found[0].info.run_id)
            else:
                mlflow.start_run(run_name=folder.path.name, tags={"fcnet_run": run.facts.identity})
                mlflow.log_params(_settings(run))
        except mlflow.MlflowException as error:
            raise FcnetError(
                f"MLflow cannot be used: {error}; set MLFLOW_TRACKING_URI to a server or folder"
            ) from error

    def log(self, report: Report) -> None:
        self._mlflow.log_metrics(_scalars(report), step=report.step)

    def close(self, finished: bool) -> None:
        self._mlflow.end_run("FINISHED" if finished else "KILLED")


TRACKERS: dict[str, tuple[Callable[[TrainingRun, RunFolder], Tracker], str]] = {  # by module: what pip installs
    "wandb": (WeightsAndBiases, "wandb==0.31.0"),
    "mlflow": (MLflow, "mlflow==3.17.2"),
}


def check_trackers(names: Sequence[str]) -> None:
    """Raise FcnetError where the package of one of TRACKERS is not installed."""
    for name in names:
        if find_spec(name) is None:
            raise FcnetError(f"--track {name} needs a Python package: pip install {TRACKERS[name][1]}")


def trackers(names: Sequence[str], run: TrainingRun, folder: RunFolder) -> list[Tracker]:
    """TensorBoard and those of TRACKERS that are named, begun or continued."""
    return [TensorBoard(run, folder), *(TRACKERS[name][0](run, folder) for name in dict.fromkeys(names))]


def _scalars(report: Report) -> dict[str, float]:
    """What is drawn over the steps; the held-out error only where it was measured."""
    values = {"loss": report.loss, "held_out_error": report.held_out_error, "learning_rate": report.learning_rate}
    return {name: value for name, value in values.items() if value is not None}


def _settings(run: TrainingRun) -> dict[str, Any]:
    """The settings, each entry of the network's configuration by itself."""
    entries: dict[str, Any] = msgspec.to_builtins(run.settings)
    return entries | {f"config.{name}": value for name, value in entries.pop("config").items()}
