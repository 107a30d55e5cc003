"""The folder of a training run: its name, its files, and how they are read and written.

RUN/settings.yaml          the settings as used: `fcnet train --config` of it, with its --init, repeats the run
RUN/run.json               robot, policy type, command line and state: RunFacts
RUN/metrics.csv            a row for every report: Report
RUN/events.out.tfevents.*  the same for TensorBoard
RUN/checkpoint.ckpt        state for --resume, until the run has finished
RUN/best.safetensors       the policy with the lowest held-out error
RUN/last.safetensors       the policy at the end
RUN/evaluation.json, .md   of `fcnet evaluate RUN`

A tracker, named by `fcnet train --track MODULE:FUNCTION`, receives the reports too. It is a user's function, called
with the run's folder and settings; it returns a context manager that yields a function of the optimiser step and the
values by name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec
import yaml
from msgspec import Struct, structs

from fcnet_core.errors import FcnetError
from fcnet_core.files import check_writable, read_file, write_whole, writing
from fcnet_core.learning.config import TrainConfig, load_train_config
from fcnet_core.model_file import RUN_POLICIES, PolicyModel, save_model

if TYPE_CHECKING:
    from fcnet_core.learning.imitation import Imitation
    from fcnet_core.learning.trainer import Progress

Kind = TypeVar("Kind")
Log = Callable[[int, dict[str, float]], None]
Tracker = Callable[[Path, dict[str, Any]], AbstractContextManager[Log]]
RUNS = Path("runs")  # where runs without --out are made
LARGEST_RESULTS = 2**28  # [bytes] of a file


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
    state: Literal["training", "finished", "interrupted", "failed"] = "training"
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
    scenarios: dict[str, Falls] = {}
    subject: dict[str, Any] = {}


class RunFolder:
    """The paths in a run's folder, which may not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings, self.facts, self.metrics = path / "settings.yaml", path / "run.json", path / "metrics.csv"
        self.checkpoint, self.evaluation = path / "checkpoint.ckpt", path / "evaluation.json"
        self.best, self.last = (path / name for name in RUN_POLICIES)

    def write_facts(self, facts: RunFacts) -> None:
        """Write run.json whole or not at all."""
        write_whole(self.facts, msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n")

    def write(self, run: TrainingRun) -> None:
        """Write settings, complete except for unset entries, reports and facts."""
        settings = {name: value for name, value in run.settings.entries.items() if value is not None}
        write_whole(self.settings, yaml.safe_dump(settings, sort_keys=False).encode())
        write_whole(self.metrics, _rows([Report._fields, *run.reports]).encode())
        self.write_facts(run.facts)  # last: a folder with run.json is complete

    def append(self, report: Report) -> None:
        """Add a row to metrics.csv."""
        with writing(self.metrics), self.metrics.open("a", encoding="utf-8") as file:
            file.write(_rows([report]))

    def reports(self) -> list[Report]:
        """Read the rows of metrics.csv, without an incomplete last one. Raises FcnetError if the file is damaged."""
        text = read_file(self.metrics, "metrics", LARGEST_RESULTS).decode(errors="replace")
        heads, *rows = [line.split(",") for line in text.split("\n")[:-1]] or [[]]
        try:
            if heads != list(Report._fields):
                columns = ", ".join(Report._fields)
                raise msgspec.ValidationError(f"its columns are {', '.join(heads)}, expected {columns}")
            return [msgspec.convert([cell or None for cell in row], Report, strict=False) for row in rows]
        except msgspec.ValidationError as error:
            raise FcnetError(f"{self.metrics} is damaged ({error}); restore it from another copy") from error


@dataclass
class TrainingRun:
    """The contents of a run's folder. evaluation: falls by scenario and sensors, empty if the run was not evaluated."""

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
        raise FcnetError(f"--out {path} is no folder: write --out {folder.path}, and the policy will be {folder.last}")
    if path and path.is_dir() and any(path.iterdir()) and not resume:
        raise FcnetError(f"{path} is not empty; name another folder with --out, or continue its run with --resume")
    with writing(path or RUNS.absolute(), "name another folder with --out"):
        check_writable(RunFolder(path or RUNS / "new").facts)


def new_run(robot: str, policy_type: str) -> Path:
    """Make a folder with the next free number for this robot and policy type, and return it."""
    stem, numbered = _numbered(robot, policy_type)
    number = max(numbered, default=0)
    while True:
        number += 1
        path = RUNS / f"{stem}-{number}"
        with suppress(FileExistsError):  # another training was faster
            path.mkdir(parents=True)
            return path


def unfinished_run(robot: str, policy_type: str) -> Path:
    """Return the newest numbered run that has a checkpoint. Raises FcnetError if there is none."""
    stem, numbered = _numbered(robot, policy_type)
    unfinished = [number for number, path in numbered.items() if RunFolder(path).checkpoint.exists()]
    if not unfinished:
        raise FcnetError(f"there is no unfinished run {RUNS / stem}-N; name it with --out, or leave out --resume")
    return numbered[max(unfinished)]


def _numbered(robot: str, policy_type: str) -> tuple[str, dict[int, Path]]:
    """Return the name, without its number, of the runs of this robot and policy type, and their folders by number."""
    stem = re.sub(r"[^\w.-]+", "-", f"{robot}-{policy_type}").lstrip(".-")  # a task is such as fcnet/Aliengo-v0
    pattern = re.compile(re.escape(stem) + r"-(\d{1,9})")
    found = ((pattern.fullmatch(path.name), path) for path in (RUNS.iterdir() if RUNS.is_dir() else ()))
    return stem, {int(match[1]): path for match, path in found if match}


def read_run(path: Path) -> TrainingRun:
    """Read a run's folder. Raises FcnetError if it is not one, or if a file in it is damaged."""
    folder = RunFolder(path)
    if not folder.facts.is_file():
        raise FcnetError(f"{path} is not the folder of a training run; give one that `fcnet train` wrote")
    found = _decoded(folder.evaluation, _Evaluation) if folder.evaluation.is_file() else _Evaluation()
    sensors = f", {found.subject['sensors']} sensors" if "sensors" in found.subject else ""  # others have other rows
    evaluation = {name + sensors: falls for name, falls in found.scenarios.items()}
    settings = load_train_config(folder.settings)
    return TrainingRun(str(path), _decoded(folder.facts, RunFacts), settings, folder.reports(), evaluation)


def _decoded(path: Path, kind: type[Kind]) -> Kind:
    try:
        return msgspec.json.decode(read_file(path, "file", LARGEST_RESULTS), type=kind)
    except ValueError as error:
        raise FcnetError(f"{path} is damaged ({error}); restore it from another copy, or delete it") from error


def _rows(rows: Iterable[Iterable[object]]) -> str:
    return "".join(",".join("" if cell is None else str(cell) for cell in row) + "\n" for row in rows)


class Recorder:
    """Keeps the run's folder up to date; call `record` at every report of the trainer.

    policy: returns the current policy; logs: receive every report. `run` has all reports, also from before an
    interruption.
    """

    def __init__(self, folder: RunFolder, run: TrainingRun, policy: Callable[[], PolicyModel], logs: list[Log]) -> None:
        self.run = run
        self._folder, self._policy, self._logs = folder, policy, logs
        folder.write(run)

    def record(self, progress: Progress) -> None:
        """Add a report, and save the policy if its held-out error is the lowest so far."""
        measured = progress.held_out_error if progress.held_out_step == progress.step else None
        report = Report(progress.step, progress.loss, progress.learning_rate, measured, round(progress.seconds, 3))
        self.run.reports.append(report)
        self._folder.append(report)
        values = {"loss": report.loss, "held_out_error": measured, "learning_rate": report.learning_rate}
        for log in self._logs:
            log(report.step, {name: value for name, value in values.items() if value is not None})
        if measured is not None and self.run.best is report:
            save_model(self._policy(), self._folder.best)

    def finish(self) -> PolicyModel:
        """Save the last policy, remove the checkpoint, and return the policy."""
        last = self._policy()
        save_model(last, self._folder.last)
        self._folder.checkpoint.unlink(missing_ok=True)
        return last

    def end(self, state: str, reason: str = "") -> None:
        """Write the state of the run."""
        self.run.facts = structs.replace(self.run.facts, state=state, reason=reason)
        self._folder.write_facts(self.run.facts)


@contextmanager
def recording(
    folder: RunFolder, imitation: Imitation, command_line: str, tracker: Tracker | None = None
) -> Iterator[Recorder]:
    """Yield the recorder of a new or continued run; at the end write the state of the run into run.json.

    Raises FcnetError if the folder cannot be written.
    """
    from fcnet_core.policies.export import exported_step

    config, progress, init = imitation.config, imitation.trainer.progress, imitation.init
    exported_step(config.policy_config)  # cached: every policy of the run has it, and a fault shows before training
    facts = RunFacts(
        robot=imitation.data.manifest.robot,
        policy_type=config.policy_type,
        parameters=config.policy_config.parameters,
        steps=progress.steps,
        command_line=command_line,
        started_from=init.fingerprint if init else None,
    )
    continued = folder.facts.is_file()
    reports = [report for report in folder.reports() if report.step <= progress.step] if continued else []
    run = TrainingRun(str(folder.path), facts, config, reports)
    recorder: Recorder | None = None
    try:
        with writing(folder.path, f"make room, then continue with --out {folder.path} --resume"):
            with ExitStack() as stack:
                logs = [stack.enter_context(_tensorboard(folder.path, reports[-1].step + 1 if reports else None))]
                if tracker:
                    logs.append(stack.enter_context(tracker(folder.path, config.entries)))
                recorder = Recorder(folder, run, lambda: imitation.policy(command_line), logs)
                yield recorder
            recorder.end("finished" if progress.step == progress.steps else "interrupted")
    except BaseException as error:  # also a signal or an exit
        if recorder:
            with suppress(OSError):
                recorder.end("failed", str(error) if isinstance(error, FcnetError) else type(error).__name__)
        raise


def load_tracker(name: str) -> Tracker:
    """Import the function MODULE:FUNCTION, also from the working directory. Raises FcnetError if there is none."""
    module, _, function = name.partition(":")
    sys.path.append(str(Path.cwd()))
    try:
        tracker: Tracker = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        expected = "expected MODULE:FUNCTION, see docs/training.md"
        raise FcnetError(f"--track {name} cannot be used ({error}); {expected}") from error
    finally:
        sys.path.pop()
    return tracker


@contextmanager
def _tensorboard(folder: Path, purge_step: int | None) -> Iterator[Log]:
    """Event files in the folder; `purge_step` hides the reports of an interrupted run after its checkpoint."""
    from torch.utils.tensorboard import SummaryWriter

    def log(step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    with SummaryWriter(str(folder), purge_step=purge_step) as writer:
        yield log
