"""The folder of a training run: its name, its files, and how they are read and written.

RUN/settings.yaml          the settings as used: `fcnet train --config` of it, with its --init, repeats the run
RUN/run.json               robot, policy type, command line and state: RunFacts
RUN/metrics.csv            a row for every report: Report
RUN/events.out.tfevents.*  the same for TensorBoard
RUN/checkpoint.ckpt        state for --resume, until the run has finished
RUN/best.safetensors       the policy with the lowest held-out error
RUN/last.safetensors       the policy at the end
RUN/evaluation.json, .md   of `fcnet evaluate RUN`
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import msgspec
import yaml
from msgspec import Struct

from fcnet_core.errors import FcnetError
from fcnet_core.files import check_writable, read_file, write_whole
from fcnet_core.learning.config import TrainConfig, load_train_config
from fcnet_core.model_file import RUN_POLICIES

Kind = TypeVar("Kind")
RUNS = Path("runs")  # where runs without --out are made
LARGEST_RESULTS = 2**28  # [bytes] of a file
State = Literal["training", "finished", "interrupted", "failed"]


class RunFacts(Struct, frozen=True):
    """The content of run.json. steps: optimiser steps of the whole run; started_from: fingerprint of the policy of
    --init; reason: the error message of a failed run.
    """

    robot: str
    policy_type: str
    parameters: int
    steps: int
    command_line: str
    started_from: str | None = None
    state: State = "training"
    reason: str = ""


class Report(NamedTuple):
    """A row of metrics.csv, see trainer.Progress; held_out_error [rad] is empty if it was not measured."""

    step: int
    loss: float
    learning_rate: float
    held_out_error: float | None
    seconds: float


class Falls(Struct, frozen=True):
    """The part of a scenario's score (quadruped_sim/evaluation) by which runs are compared."""

    episodes: int
    falls: int


class _Evaluation(Struct, frozen=True):
    scenarios: dict[str, Falls]


class RunFolder:
    """The paths in a run's folder, which may not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings, self.facts, self.metrics = path / "settings.yaml", path / "run.json", path / "metrics.csv"
        self.checkpoint, self.evaluation = path / "checkpoint.ckpt", path / "evaluation.json"
        self.best, self.last = (path / name for name in RUN_POLICIES)


@dataclass(frozen=True)
class TrainingRun:
    """The contents of a run's folder. evaluation: falls by scenario, empty if the run was not evaluated."""

    name: str
    facts: RunFacts
    settings: TrainConfig
    reports: list[Report]
    evaluation: dict[str, Falls] = field(default_factory=dict)

    @property
    def held_out(self) -> list[Report]:
        """The reports that have a held-out error."""
        return [report for report in self.reports if report.held_out_error is not None]

    @property
    def best(self) -> Report | None:
        """The report with the lowest held-out error; the first one if several are equal."""
        return min(self.held_out, key=lambda report: report.held_out_error or 0.0, default=None)


def check_place(path: Path | None, resume: bool) -> None:
    """Raise FcnetError if no run can be made, or continued, in the folder `path` (None: in RUNS); write nothing."""
    if path and path.suffix == ".safetensors":
        folder = RunFolder(path.with_suffix(""))
        raise FcnetError(
            f"--out {path} must name the run's folder: write --out {folder.path}, and the policy will be {folder.last}"
        )
    if path and path.is_dir() and any(path.iterdir()) and not resume:
        raise FcnetError(f"{path} is not empty; name another folder with --out, or continue its run with --resume")
    check_writable(RunFolder(path or RUNS / "new").facts)


def new_run(robot: str, policy_type: str) -> Path:
    """Make a folder with the next free number for this robot and policy type, and return it."""
    number = max(_numbered(robot, policy_type), default=0)
    while True:
        number += 1
        path = RUNS / f"{_stem(robot, policy_type)}-{number}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:  # another training was faster
            continue
        return path


def unfinished_run(robot: str, policy_type: str) -> Path:
    """Return the newest numbered run that has a checkpoint. Raises FcnetError if there is none."""
    numbered = _numbered(robot, policy_type)
    unfinished = [number for number, path in numbered.items() if RunFolder(path).checkpoint.exists()]
    if not unfinished:
        raise FcnetError(
            f"there is no unfinished run {RUNS / _stem(robot, policy_type)}-N to resume; name it with --out, or leave"
            " out --resume"
        )
    return numbered[max(unfinished)]


def read_run(path: Path) -> TrainingRun:
    """Read a run's folder. Raises FcnetError if it is not one, or if a file in it is damaged."""
    folder = RunFolder(path)
    if not folder.facts.is_file():
        raise FcnetError(f"{path} is not the folder of a training run; give one that `fcnet train` wrote")
    evaluation = _decoded(folder.evaluation, _Evaluation).scenarios if folder.evaluation.is_file() else {}
    settings = load_train_config(folder.settings)
    return TrainingRun(str(path), _decoded(folder.facts, RunFacts), settings, read_reports(folder), evaluation)


def write_facts(folder: RunFolder, facts: RunFacts) -> None:
    """Write run.json whole or not at all."""
    write_whole(folder.facts, msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n")


def write_settings(folder: RunFolder, settings: TrainConfig) -> None:
    """Write settings.yaml, complete except for unset entries."""
    entries = {name: value for name, value in settings.entries.items() if value is not None}
    write_whole(folder.settings, yaml.safe_dump(entries, sort_keys=False).encode())


def read_reports(folder: RunFolder) -> list[Report]:
    """Read the rows of metrics.csv, without an incomplete last one. Raises FcnetError if the file is damaged."""
    text = read_file(folder.metrics, "metrics", LARGEST_RESULTS).decode(errors="replace")
    heads, *rows = [line.split(",") for line in text.split("\n")[:-1]] or [[]]
    try:
        if heads != list(Report._fields):
            raise msgspec.ValidationError(f"its columns are {', '.join(heads)}, expected {', '.join(Report._fields)}")
        return [msgspec.convert([cell or None for cell in row], Report, strict=False) for row in rows]
    except msgspec.ValidationError as error:
        raise FcnetError(f"{folder.metrics} is damaged ({error}); restore it from another copy") from error


def write_reports(folder: RunFolder, reports: list[Report]) -> None:
    """Replace metrics.csv, whole or not at all."""
    write_whole(folder.metrics, _rows([Report._fields, *reports]).encode())


def append_report(folder: RunFolder, report: Report) -> None:
    """Add a row to metrics.csv."""
    with folder.metrics.open("a") as file:
        file.write(_rows([report]))


def _rows(rows: Iterable[Iterable[object]]) -> str:
    return "".join(",".join("" if cell is None else str(cell) for cell in row) + "\n" for row in rows)


def _stem(robot: str, policy_type: str) -> str:
    """Return the folder's name without its number. A task's name, such as fcnet/Aliengo-v0, may contain a slash."""
    return re.sub(r"[^\w.-]+", "-", f"{robot}-{policy_type}").lstrip(".-")


def _numbered(robot: str, policy_type: str) -> dict[int, Path]:
    """Return the folders of the runs of this robot and policy type, by number."""
    pattern = re.compile(re.escape(_stem(robot, policy_type)) + r"-(\d{1,9})")
    found = ((pattern.fullmatch(path.name), path) for path in (RUNS.iterdir() if RUNS.is_dir() else ()))
    return {int(match[1]): path for match, path in found if match}


def _decoded(path: Path, kind: type[Kind]) -> Kind:
    try:
        return msgspec.json.decode(read_file(path, "file", LARGEST_RESULTS), type=kind)
    except ValueError as error:
        raise FcnetError(f"{path} is damaged ({error}); restore it from another copy, or delete it") from error
