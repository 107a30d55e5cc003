"""Reads a run from a bag."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from operator import itemgetter

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.control.command import COMMAND_SIZE, CommandArbiter
from fcnet_core.errors import ReplayError
from fcnet_core.names import (
    CMD_POSE,
    CMD_VEL,
    CONTROL,
    CONTROLLER,
    DIAGNOSTICS,
    IMU,
    JOINT_STATES,
    JOINT_TRAJECTORY,
    ODOM,
    HealthKey,
    Mode,
    full_name,
    status_name,
)
from fcnet_core.observation import SCALARS
from fcnet_core.remote import Source, load_remote_map
from fcnet_replay.bags.bag import Bag
from fcnet_replay.bags.contents import MessageBatch
from fcnet_replay.diagnostics import status_values
from fcnet_replay.problem import Problem
from fcnet_replay.recording_notes import RecordingNotes
from fcnet_replay.run import (
    NO_MODES,
    NO_ODOMETRY,
    NO_STEPS,
    NO_TARGETS,
    CycleRecord,
    ImuRecord,
    JointRecord,
    ModeRecord,
    OdometryRecord,
    Run,
    SetpointRecord,
    StepRecord,
    TargetRecord,
)
from fcnet_replay.topic_map import MODES, OWN, PoseSource, TopicMap, TopicSource, VelocitySource
from fcnet_replay.topic_reader import TopicReader

MANY = 12  # topics in an error
AFTER = 1e-6  # [s] beyond its timeout a command is stale
COUNT = re.compile(r"[0-9]{1,18}")  # of cycles, in text
MOST_CYCLES = 100_000  # messages that count cycles: a day at one a second

Found = Mapping[str, Mapping[str, Array]]  # the arrays of each source by quantity; none where there are no messages
Event = tuple[float, Callable[[], object]]  # when [s], and what happens


def read_run(bag: Bag, namespace: str | None = None, topic_map: TopicMap = OWN) -> Run:
    """Read the topics of one robot, by default of the one in the namespace that the recorder noted.

    Raises ReplayError when the bag has no joint_states or no imu/data, and FcnetError where config/remote.yaml cannot
    be used.
    """
    notes, commanders = bag.notes, load_remote_map().sources
    namespace = (notes.namespace if namespace is None else namespace).strip("/")
    sources: dict[str, TopicSource] = {
        **{commander.velocity: VelocitySource(commander.velocity) for commander in commanders},
        **{commander.pose: PoseSource(commander.pose) for commander in commanders},
        **topic_map.sources(),
    }
    readers = {
        record: TopicReader(full_name(source.topic, namespace), source, bag.contents.definitions)
        for record, source in sources.items()
    }
    cycles: list[tuple[float, int]] = []
    for batch in bag.batches(frozenset({DIAGNOSTICS.name, *(reader.name for reader in readers.values())})):
        if batch.topic == DIAGNOSTICS.name and len(cycles) + len(batch.size) <= MOST_CYCLES:
            cycles += _cycle_counts(batch, namespace)
        for reader in readers.values():
            if reader.name == batch.topic:
                reader.add(batch)
    found = {record: reader.finish() for record, reader in readers.items()}
    problems = [*bag.contents.problems]
    for reader in readers.values():
        problems += reader.problems()
    for record in (JOINT_STATES.name, IMU.name):
        if not found[record]:
            raise ReplayError(_without(bag, readers[record].name, problems))
    for record, arrays in found.items():
        if "stamp" in arrays and (unknown := np.isnan(arrays["stamp"])).any():
            arrays["stamp"] = np.where(unknown, arrays["received"], arrays["stamp"])
            what = f"messages of {readers[record].name} have no stamp; when they were received is used instead"
            problems.append(Problem("no_stamp", f"{unknown.sum()} {what}"))
    modes = _modes(found["mode"])
    return Run(
        JointRecord(**found[JOINT_STATES.name]),
        ImuRecord(**found[IMU.name]),
        TargetRecord(**found[JOINT_TRAJECTORY.name]) if found[JOINT_TRAJECTORY.name] else NO_TARGETS,
        SetpointRecord(partial(_setpoints, commanders, found, modes, notes)),
        OdometryRecord(**found[ODOM.name]) if found[ODOM.name] else NO_ODOMETRY,
        steps=_steps(found["policy_step"]),
        mode=modes,
        cycles=_cycles(cycles),
        period=1.0 / notes.control_rate if notes.control_rate else None,
        notes=notes,
        problems=tuple(problems),
        silent=tuple(
            kind
            for kind, topics in (
                (CMD_VEL.name, [commander.velocity for commander in commanders]),
                (CMD_POSE.name, [commander.pose for commander in commanders]),
            )
            if not any(found[topic] for topic in topics)
        ),
    )


def _without(bag: Bag, topic: str, problems: list[Problem]) -> str:
    """Why nothing can be replayed, and what the bag has instead."""
    if problems:
        return f"{bag.path} holds no usable {topic}, without which nothing can be replayed: {problems[0]}"
    present = sorted(bag.contents.topics)
    more = f" and {len(present) - MANY} more" if len(present) > MANY else ""
    found = f"it has {', '.join(present[:MANY])}{more}" if present else "it has no topics at all"
    return (
        f"{bag.path} holds no {topic}, without which nothing can be replayed; {found}: "
        "name the robot's namespace, or give a topic map"
    )


def _modes(arrays: Mapping[str, Array]) -> ModeRecord:
    if not arrays:
        return NO_MODES
    order = np.argsort(arrays["received"], kind="stable")
    return ModeRecord(arrays["received"][order], tuple(MODES[int(number)] for number in arrays["mode"][order]))


def _steps(arrays: Mapping[str, Array]) -> StepRecord:
    if not arrays:
        return NO_STEPS
    target, previous, joints, imu, cold = arrays["step"][:, : len(SCALARS)].T
    return StepRecord(target, previous, joints, imu, cold > 0.5, arrays["step"][:, -COMMAND_SIZE:])


def _setpoints(
    commanders: Sequence[Source], found: Found, mode: ModeRecord, notes: RecordingNotes
) -> tuple[Array, Array]:
    """What the controller was asked for, decided between the sources by the controller's own CommandArbiter.

    It changes only when a message arrives or grows stale, and when the controller leaves fault, which clears it.
    """
    arbiter = CommandArbiter(notes.command_timeout)
    arbiter.set_style(*notes.style)
    changes = zip(pairwise(mode.modes), mode.received.tolist()[1:], strict=False)
    events: list[Event] = [(time, arbiter.clear) for change, time in changes if change == (Mode.FAULT, Mode.PASSIVE)]
    for commander in commanders:
        source = arbiter.add_source(commander.name)
        takers: tuple[tuple[str, tuple[str, ...], Callable[..., object]], ...] = (
            (commander.velocity, ("forward", "sideways", "yaw_rate", "received"), source.set_velocity),
            (commander.pose, ("height", "orientation", "received"), source.set_pose),
        )
        for topic, quantities, take in takers:
            if arrays := found[topic]:
                messages = zip(*(arrays[name].tolist() for name in quantities), strict=True)
                events += [(message[-1], partial(take, *message)) for message in messages]
                times = np.sort(arrays["received"])
                last = times[np.diff(times, append=np.inf) > notes.command_timeout]
                events += [(time + notes.command_timeout + AFTER, lambda: None) for time in last.tolist()]
    changed, values = [-np.inf], [arbiter.wanted(-np.inf)]
    for time, happen in sorted(events, key=itemgetter(0)):
        happen()
        changed.append(time)
        values.append(arbiter.wanted(time))
    return np.array(changed), np.array(values)


def _cycle_counts(batch: MessageBatch, namespace: str) -> Iterator[tuple[float, int]]:
    """Yield when [s] the controller of `namespace` reported how many cycles it has run.

    Each cycle sends targets, so the counts show targets that the bag lacks and cycles that the controller missed.
    """
    name = status_name(full_name(CONTROLLER, namespace), CONTROL)
    for received, message in zip(batch.received.tolist(), batch.messages(), strict=True):
        count = status_values(message, name).get(HealthKey.CYCLES, "")
        if COUNT.fullmatch(count):
            yield received * 1e-9, int(count)


def _cycles(counts: list[tuple[float, int]]) -> CycleRecord:
    received, count = zip(*sorted(counts), strict=True) if counts else ((), ())
    return CycleRecord(np.array(received, dtype=np.float64), np.array(count, dtype=np.int64))
