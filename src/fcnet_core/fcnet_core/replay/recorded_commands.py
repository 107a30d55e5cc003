"""What people and planners asked of a recorded robot: of several who spoke the one that the controller obeyed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from fcnet_core.command_arbiter import CommandArbiter
from fcnet_core.command_source import CommandSource
from fcnet_core.replay.recorded_run import CommandRecord, RecordedRun
from fcnet_core.replay.recording_notes import read_notes

Array = npt.NDArray[np.float64]
Event = tuple[float, Callable[[], object]]  # when [s], and what happens
AFTER = 1e-6  # [s] after its last moment a command is stale


def setpoints(run: RecordedRun, time: Array) -> Array:
    """What the controller was asked for (T, 9) in SETPOINT_FIELDS order, at each time [s] of the recorder's clock.

    It changes only when a message arrives or grows stale, and when the controller forgets what it was told.
    """
    notes = read_notes(run.custom)
    arbiter = CommandArbiter(notes.command_timeout)
    arbiter.set_style(*notes.style)
    events = list(_resets(run, arbiter))
    for record in run.commands:
        events += _messages(record, arbiter.add_source(record.source))
        events += _silences(record, notes.command_timeout)
    moments, wanted = [-np.inf], [arbiter.wanted(-np.inf)]
    for moment, happen in sorted(events, key=itemgetter(0)):
        happen()
        moments.append(moment)
        wanted.append(arbiter.wanted(moment))
    return np.array(wanted)[np.searchsorted(moments, time, side="right") - 1]


def _resets(run: RecordedRun, arbiter: CommandArbiter) -> Iterator[Event]:
    """A controller that leaves fault has forgotten what it was told."""
    changes = zip(pairwise(run.mode.modes), run.mode.received.tolist()[1:], strict=False)
    return ((moment, arbiter.clear) for (before, after), moment in changes if (before, after) == ("fault", "passive"))


def _messages(record: CommandRecord, source: CommandSource) -> Iterator[Event]:
    velocity, pose = record.velocity, record.pose
    for moment, (vx, vy, yaw_rate) in zip(velocity.received.tolist(), velocity.velocity.tolist(), strict=True):
        yield moment, partial(source.set_velocity, vx, vy, yaw_rate, moment)
    for moment, height, turn in zip(
        pose.received.tolist(), pose.height.tolist(), pose.orientation.tolist(), strict=True
    ):
        yield moment, partial(source.set_pose, height, tuple(turn), moment)


def _silences(record: CommandRecord, timeout: float) -> Iterator[Event]:
    """Moments when what was said last has grown stale."""
    for received in (record.velocity.received, record.pose.received):
        moments = np.sort(received)
        for moment in moments[np.diff(moments, append=np.inf) > timeout].tolist():
            yield moment + timeout + AFTER, _nothing


def _nothing() -> None:
    """Only time passes."""
