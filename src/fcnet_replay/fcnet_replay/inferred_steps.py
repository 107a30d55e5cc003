"""The steps of a policy in a bag that does not record them, inferred from states, commands and targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from fcnet_core.command import COMMAND_SIZE, CommandArbiter, CommandShaper, CommandSource
from fcnet_replay.recording_notes import read_notes
from fcnet_replay.run import CommandRecord, RecordedRun, StepRecord, newest

# What a robot's sensors and its commander said, over time: the input of every replay.

Array = npt.NDArray[np.float64]
SIMULTANEOUS = 1e-6  # [s] two times nearer than this are the same


@dataclass(frozen=True)
class StateAt:
    """One row of TimedStates; a fcnet_core.observation.MeasuredState."""

    joint_position: Array
    joint_velocity: Array
    orientation: Array
    angular_velocity: Array


@dataclass(frozen=True)
class TimedStates:
    """T states. time (T,) [s], increasing; joint_position and joint_velocity (T, 12) in JOINT_NAMES order [rad, rad/s];
    orientation (T, 4) x, y, z, w; angular_velocity (T, 3) [rad/s] in the body frame; setpoint (T, 9) in SETPOINT_FIELDS
    order; first (T,): rows at which memory must start cold, because what came before is another episode or lost.
    """

    time: Array
    joint_position: Array
    joint_velocity: Array
    orientation: Array
    angular_velocity: Array
    setpoint: Array
    first: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.time)

    def at(self, row: int) -> StateAt:
        """The state in one row."""
        return StateAt(
            self.joint_position[row], self.joint_velocity[row], self.orientation[row], self.angular_velocity[row]
        )

    def rows_at(self, rate: float) -> npt.NDArray[np.int64]:
        """Which rows a controller of `rate` [Hz] would have used: at each of its cycles the newest there was.

        Cycles count from the first row and anew from every row that is marked first, so that these are always used.
        """
        starts = np.union1d([0], np.flatnonzero(self.first))
        ends = np.append(starts[1:], len(self))
        return np.concatenate([start + self._newest(start, end, rate) for start, end in zip(starts, ends, strict=True)])

    def _newest(self, start: int, end: int, rate: float) -> npt.NDArray[np.int64]:
        time = self.time[start:end] - self.time[start]
        cycles = np.arange(int(np.floor((time[-1] + SIMULTANEOUS) * rate)) + 1) / rate
        return np.searchsorted(time, cycles + SIMULTANEOUS, side="right") - 1


# What people and planners asked of a recorded robot: of several who spoke the one that the controller obeyed.

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


# The steps of a policy in a bag that does not tell them: counted from the target with which walking began.
#
# A controller moves its gait clock on once for every step, so the phase follows from the number of targets, however
# irregularly they came; from their times it would not.

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
SLIP = 2.5  # periods by which targets may be fewer than time allows: as much as the gait's phase may be wrong
MISCOUNT = 1.5  # periods; a controller counts its cycles while a target is on its way
PAUSE = 5.0  # periods without a target, after which the policy starts cold
STALE = 0.1  # [s] an older state is none: the controller would not have walked on it


@dataclass(frozen=True)
class CountedSteps:
    """K steps, in order. begun (K,): the bag holds the beginning of their walk; whole (K,): no targets of that walk are
    missing so far. The gait's phase is the recorded one where both are so; elsewhere it is counted from the first
    target that there is. A stamp is NaN where there is no state from shortly before.
    """

    steps: StepRecord
    begun: Mask
    whole: Mask

    @property
    def phase_known(self) -> Mask:
        """Steps (K,) of which the gait's phase is the recorded one."""
        return self.begun & self.whole


def counted_steps(run: RecordedRun, shaper: CommandShaper) -> CountedSteps:
    """One step for every target that was sent while walking, or, where the controller ran n times as fast as a policy
    of the shaper's period steps, for every n-th; without recorded modes, for all the time that targets were sent.
    """
    period = shaper.clock.period
    walks = _walks_of_modes(run, period) if run.mode.modes else _walks_of_targets(run, period)
    rate = read_notes(run.custom).control_rate
    cycles = [_cycles(run, walk, period, rate) for walk in walks]
    held = np.append(False, (np.diff(run.targets.position, axis=0) == 0).all(axis=1)).tolist()
    parts = [_step_rows(held, walk, each) for walk, each in zip(walks, cycles, strict=True)]
    rows = np.concatenate([np.empty(0, dtype=np.int64), *parts])
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    lacking = run.cycles.cycles - np.searchsorted(run.targets.received, run.cycles.received, side="right")
    whole = [_whole(run, part, lacking, period, each) for part, each in zip(parts, cycles, strict=True)]
    return CountedSteps(
        _steps(run, rows, np.isin(np.arange(len(rows)), [0, *ends.tolist()]), shaper),
        np.repeat([walk.begun for walk in walks], [len(part) for part in parts]).astype(np.bool_),
        np.concatenate([np.zeros(0, dtype=np.bool_), *whole]),
    )


def _steps(run: RecordedRun, rows: Rows, first: Mask, shaper: CommandShaper) -> StepRecord:
    """The steps whose targets are in these rows; first (K,): those with which walks begin."""
    time, received, before = run.targets.stamp[rows], run.targets.received[rows], np.maximum(rows - 1, 0)
    return StepRecord(
        target_stamp=time,
        previous_stamp=run.targets.stamp[np.where(_sent(run)[before], before, rows)],
        joints_stamp=_seen(run.joints.stamp, time),
        imu_stamp=_seen(run.imu.stamp, time),
        cold=first | np.append(True, np.diff(received) > PAUSE * shaper.clock.period)[: len(rows)],
        command=_commands(setpoints(run, received), first, shaper),
    )


@dataclass(frozen=True)
class _Walk:
    """Targets from row `begin` to before `end`; begun: whether `begin` is its first."""

    begin: int
    end: int
    begun: bool


def _walks_of_modes(run: RecordedRun, period: float) -> list[_Walk]:
    """A mode is told just after its first target. A first one of `walking` had been so, nobody knows for how long."""
    order = np.argsort(run.mode.received, kind="stable").tolist()
    received, told = run.targets.received, np.append(run.mode.received[order], np.inf)
    rows = np.maximum(np.searchsorted(received, told, side="right") - 1, 0)
    rows[-1] = len(received)
    sent = _sent(run)
    walks = []
    for change, mode in enumerate(run.mode.modes[place] for place in order):
        begin = int(rows[change])
        end = begin + _last(sent[begin : rows[change + 1]])  # a controller that is stopped damps and changes no mode
        if mode == "walking" and end - begin > 1:
            walks.append(_Walk(begin, end, change > 0 and abs(told[change] - received[begin]) <= SLIP * period))
    return walks


def _last(sent: Mask) -> int:
    """How many of them there are up to the last that is true."""
    return int(np.append(0, np.flatnonzero(sent) + 1)[-1])


def _walks_of_targets(run: RecordedRun, period: float) -> list[_Walk]:
    """Between pauses and damping; what the robot did meanwhile, and whether it walked, nobody knows."""
    sent = _sent(run)
    parts = np.flatnonzero((np.diff(run.targets.received) > PAUSE * period) | (np.diff(sent) != 0)) + 1
    bounds = [0, *parts.tolist(), len(sent)]
    return [_Walk(begin, end, False) for begin, end in pairwise(bounds) if end - begin > 1 and sent[begin]]


def _sent(run: RecordedRun) -> Mask:
    """Targets (N,) that hold positions; others ask for damping."""
    sent: Mask = np.logical_and.reduce(np.isfinite(run.targets.position), axis=1)
    return sent


def _step_rows(held: list[bool], walk: _Walk, cycles: int) -> Rows:
    """Between two steps the policy's targets hold: one that is found held comes after the step, because the bag lacks
    one of the targets held before it. held: whether a target is the one before it.
    """
    if cycles == 1:
        return np.arange(walk.begin, walk.end)
    rows, row = [], walk.begin
    while row < walk.end:
        late = next((late for late in range(cycles // 2 + 1) if not held[row - late]), 0)
        rows.append(row - late)
        row += cycles - late
    return np.array(rows)


def _seen(stamps: Array, time: Array) -> Array:
    """The newest of the stamps at each time; NaN where even that is stale."""
    rows = newest(stamps, time)
    return np.where((rows >= 0) & (time - stamps[rows] <= STALE), stamps[rows], np.nan)


def _cycles(run: RecordedRun, walk: _Walk, period: float, rate: float | None) -> int:
    """Control cycles, and so targets, for every step of a policy; rate [Hz] of the controller, if known."""
    usual = 1.0 / rate if rate else float(np.median(np.diff(run.targets.received[walk.begin : walk.end])))
    return max(round(period / usual), 1) if usual > 0 else 1


def _whole(run: RecordedRun, rows: Rows, lacking: Rows, period: float, cycles: int) -> Mask:
    """Of the steps of a walk those until which the bag lacks no targets: they came as time allows, or as many as the
    controller says to have sent.

    lacking: how many more it had sent than there are, up to a constant, whenever it said so.
    """
    received, told = run.targets.received[rows], run.cycles.received
    slip = (received - received[0]) / period - np.arange(len(rows))
    newest_told = np.searchsorted(told, received, side="right") - 1
    if newest_told[0] < 0:  # nobody knows how many there were before the walk
        return _until(np.abs(slip) <= SLIP)
    next_told = np.minimum(newest_told + 1, len(told) - 1)
    right = [np.abs(lacking[when] - lacking[newest_told[0]]) <= MISCOUNT * cycles for when in (newest_told, next_told)]
    step_then = np.maximum(np.searchsorted(received, told[newest_told], side="right") - 1, 0)
    since = np.abs(slip - slip[step_then]) <= SLIP
    return _until((right[1] & (next_told > newest_told)) | (right[0] & since))


def _until(good: Mask) -> Mask:
    """Those before the first that is not good."""
    until: Mask = np.logical_and.accumulate(good)
    return until


def _commands(wanted: Array, first: Mask, shaper: CommandShaper) -> Array:
    commands = np.empty((len(wanted), COMMAND_SIZE))
    for step, begins in enumerate(first.tolist()):
        if begins:
            shaper.reset()
        commands[step] = shaper.step(wanted[step])[0]
    return commands


# The states of a bag without targets, for a policy that is told its own.

def lone_states(run: RecordedRun) -> TimedStates:
    """Every joint state that can be one, with the newest IMU and the commands of its time; cold after every gap."""
    finite = np.isfinite(run.joints.position).all(axis=1) & np.isfinite(run.joints.velocity).all(axis=1)
    later = run.joints.stamp > np.maximum.accumulate(np.append(-np.inf, run.joints.stamp[:-1]))
    imu = newest(run.imu.stamp, run.joints.stamp)
    told = np.isfinite(run.imu.orientation[imu]).all(axis=1) & np.isfinite(run.imu.angular_velocity[imu]).all(axis=1)
    rows = np.flatnonzero(finite & later & told & (imu >= 0))
    time = run.joints.stamp[rows]
    return TimedStates(
        time,
        run.joints.position[rows],
        run.joints.velocity[rows],
        run.imu.orientation[imu[rows]],
        run.imu.angular_velocity[imu[rows]],
        setpoints(run, run.joints.received[rows]),
        np.append(True, np.diff(time) > STALE)[: len(time)],
    )
