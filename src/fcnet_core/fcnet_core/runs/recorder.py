"""Write the folder of a training run, and send its reports to TensorBoard and a tracker.

A tracker is a user's function, named by `fcnet train --track MODULE:FUNCTION`. It is called with the run's folder and
settings and returns a context manager that yields a function of the optimiser step and the values by name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from fcnet_core.errors import FcnetError
from fcnet_core.model_file import PolicyModel, save_model
from fcnet_core.runs.folder import (
    Report,
    RunFacts,
    RunFolder,
    State,
    TrainingRun,
    append_report,
    read_reports,
    write_facts,
    write_reports,
    write_settings,
)

if TYPE_CHECKING:
    from fcnet_core.learning.imitation import Imitation
    from fcnet_core.learning.trainer import Progress

Log = Callable[[int, dict[str, float]], None]
Tracker = Callable[[Path, dict[str, Any]], AbstractContextManager[Log]]


class Recorder:
    """Keeps the run's folder up to date; call `record` at every report of the trainer.

    policy: returns the current policy; logs: receive every report. `run` has all reports, also from before an
    interruption.
    """

    def __init__(self, folder: RunFolder, run: TrainingRun, policy: Callable[[], PolicyModel], logs: list[Log]) -> None:
        self.run = run
        self._folder, self._policy, self._logs = folder, policy, logs
        write_settings(folder, run.settings)
        write_reports(folder, run.reports)
        write_facts(folder, run.facts)  # last: a folder with run.json is complete

    def record(self, progress: Progress) -> None:
        """Add a report, and save the policy if its held-out error is the lowest so far."""
        measured = progress.held_out_error if progress.held_out_step == progress.step else None
        report = Report(progress.step, progress.loss, progress.learning_rate, measured, round(progress.seconds, 3))
        self.run.reports.append(report)
        append_report(self._folder, report)
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

    def end(self, state: State, reason: str = "") -> None:
        """Write the state of the run."""
        self.run = replace(self.run, facts=structs.replace(self.run.facts, state=state, reason=reason))
        write_facts(self._folder, self.run.facts)


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
    reports = [report for report in read_reports(folder) if report.step <= progress.step] if continued else []
    run = TrainingRun(str(folder.path), facts, config, reports)
    recorder: Recorder | None = None
    try:
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
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise FcnetError(
                f"run {folder.path} could not be written ({error.strerror or error}); make room, then continue with"
                " --resume"
            ) from error
        raise


def load_tracker(name: str) -> Tracker:
    """Import the function MODULE:FUNCTION, also from the working directory. Raises FcnetError if there is none."""
    module, _, function = name.partition(":")
    sys.path.append(str(Path.cwd()))
    try:
        tracker: Tracker = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise FcnetError(
            f"--track {name} cannot be used ({error}); expected MODULE:FUNCTION, see docs/training.md"
        ) from error
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
