"""What a training writes into its run's folder, and to the trackers, while it goes on and when it ends."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fcnet_core.errors import FcnetError
from fcnet_core.files import write_whole
from fcnet_core.model_file import PolicyModel, save_model
from fcnet_core.runs.folder import (
    Report,
    RunFacts,
    RunFolder,
    State,
    TrainingRun,
    append_report,
    read_facts,
    read_reports,
    write_facts,
    write_reports,
    write_settings,
)
from fcnet_core.runs.page import RELOAD, page
from fcnet_core.runs.trackers import Tracker, trackers

if TYPE_CHECKING:
    from fcnet_core.learning.imitation import Imitation
    from fcnet_core.learning.trainer import Progress


class Recorder:
    """Keeps the run's folder up to date; `record` is called at every report of the trainer.

    policy: the policy as it is now. `run` holds what was reported, also before an interruption.
    """

    def __init__(self, folder: RunFolder, run: TrainingRun, policy: Callable[[], PolicyModel]) -> None:
        self.run = run
        self._folder, self._policy = folder, policy
        self._trackers: Sequence[Tracker] = ()
        self._best: PolicyModel | None = None  # where that is the policy of the last report
        self._drawn = 0.0

    def begin(self, track: Sequence[str]) -> None:
        """Write settings, facts, and the reports so far; begin the trackers of these names."""
        write_settings(self._folder, self.run.settings)
        write_reports(self._folder, self.run.reports)
        write_facts(self._folder, self.run.facts)  # last: a folder that has them has all
        self._trackers = trackers(track, self.run, self._folder)
        self._draw()

    def record(self, progress: Progress) -> None:
        """Add a report, and keep the policy if its held-out error is the lowest so far."""
        measured = progress.held_out_error if progress.held_out_step == progress.step else None
        report = Report(progress.step, progress.loss, progress.learning_rate, measured, round(progress.seconds, 3))
        self.run.reports.append(report)
        append_report(self._folder, report)
        for tracker in self._trackers:
            tracker.log(report)
        self._best = None
        if measured is not None and self.run.best is report:
            self._best = self._policy()
            save_model(self._best, self._folder.best)
        if time.monotonic() - self._drawn > RELOAD:
            self._draw()

    def finish(self) -> PolicyModel:
        """Write the last policy, and return it; the checkpoint is not needed any more."""
        last = self._best or self._policy()
        save_model(last, self._folder.last)
        self._folder.checkpoint.unlink(missing_ok=True)
        return last

    def end(self, state: State, reason: str = "") -> None:
        """Write how the run stands, and close the trackers."""
        for tracker in self._trackers:
            tracker.close(state == "finished")
        self.run = dataclasses.replace(self.run, facts=replace(self.run.facts, state=state, reason=reason))
        write_facts(self._folder, self.run.facts)
        self._draw()

    def _draw(self) -> None:
        write_whole(self._folder.page, page([self.run], live=self.run.facts.state == "training").encode())
        self._drawn = time.monotonic()


@contextmanager
def recording(
    folder: RunFolder, imitation: Imitation, command_line: str, track: Sequence[str] = ()
) -> Iterator[Recorder]:
    """Yield the recorder of a run, new or continued, whose folder says afterwards how it ended.

    Raises FcnetError when the disk refuses, or a tracker.
    """
    config, progress, init = imitation.config, imitation.trainer.progress, imitation.init
    continued = folder.facts.is_file()
    facts = RunFacts(
        identity=read_facts(folder).identity if continued else uuid.uuid4().hex,
        robot=imitation.data.manifest.robot,
        policy_type=config.policy_type,
        parameters=config.policy_config.parameters,
        steps=progress.steps,
        command_line=command_line,
        started_from=init.fingerprint if init else None,
    )
    reports = [report for report in read_reports(folder) if report.step <= progress.step] if continued else []
    run = TrainingRun(str(folder.path), facts, config, reports)
    recorder = Recorder(folder, run, lambda: imitation.policy(command_line))
    try:
        recorder.begin(track)
        yield recorder
        recorder.end("finished" if progress.step == progress.steps else "interrupted")
    except BaseException as error:  # also a signal or an exit: the folder says how its run has ended, and it goes on
        with suppress(OSError):
            recorder.end("failed", str(error) if isinstance(error, FcnetError) else type(error).__name__)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise FcnetError(
                f"run {folder.path} could not be written ({error.strerror or error}); make room, then continue with"
                " --resume"
            ) from error
        raise
