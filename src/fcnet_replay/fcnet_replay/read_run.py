"""Reads a run from a bag."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import itemgetter

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.command import COMMAND_SIZE, CommandArbiter
from fcnet_core.observation import SCALARS
from fcnet_core.remote import Source, load_remote_map
from fcnet_replay.bags.bag import Bag
from fcnet_replay.bags.contents import MessageBatch
from fcnet_replay.errors import ReplayError
from fcnet_replay.recording_notes import RecordingNotes, read_notes
from fcnet_replay.run import (
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
from fcnet_replay.topic_map import OWN, TopicSource
from fcnet_replay.topic_reader import MODES, TopicReader

MANY = 12  # topics in an error
Found = Mapping[str, Mapping[str, Array]]  # the arrays of each record by quantity
Event = tuple[float, Callable[[], object]]  # when [s], and what happens
AFTER = 1e-6  # [s] beyond its timeout a command is stale


def read_run(bag: Bag, namespace: str = "", sources: Mapping[str, TopicSource] = OWN) -> Run:
    """Read the topics of one robot. Raises ReplayError when the bag has no joint_states or no imu/data, and the error
    of fcnet_core where config/remote.yaml cannot be used.
    """
    commanders = load_remote_map().sources
    kinds = {commander.velocity: "cmd_vel" for commander in commanders}
    kinds |= {commander.pose: "cmd_pose" for commander in commanders}
    sources = {**{topic: replace(OWN[kind], topic=topic) for topic, kind in kinds.items()}, **sources}
    prefix = f"/{namespace.strip('/')}/".replace("//", "/")
    topics = {
        record: source.topic if source.topic[0] == "/" else prefix + source.topic for record, source in sources.items()
    }
    contents = bag.contents
    readers = {
        record: TopicReader(kinds.get(record, record), source, contents.definitions)
        for record, source in sources.items()
    }
    cycles = _CycleCounts(namespace)
    wanted: dict[str, list[TopicReader | _CycleCounts]] = {_CycleCounts.TOPIC: [cycles]}
    for record, topic in topics.items():
        wanted.setdefault(topic, []).append(readers[record])
    for batch in bag.batches(frozenset(wanted)):
        for reader in wanted[batch.topic]:
            reader.add(batch)
    found = {record: reader.finish() for record, reader in readers.items()}
    problems = [*contents.problems, *_left_out(topics, readers)]
    for record in ("joint_states", "imu/data"):
        if not len(found[record]["received"]):
            raise ReplayError(_without(bag, topics[record], problems))
    for record, arrays in found.items():
        if "stamp" in arrays and (unknown := np.isnan(arrays["stamp"])).any():
            arrays["stamp"] = np.where(unknown, arrays["received"], arrays["stamp"])
            what = f"messages of {topics[record]} have no stamp; when they were received is used instead"
            problems.append(f"{unknown.sum()} {what}")
    notes = read_notes(bag.custom)
    step, mode = found["policy_step"]["step"], found["mode"]
    target, previous, joints, imu, cold = step[:, : len(SCALARS)].T
    modes = ModeRecord(mode["received"], tuple(MODES[int(number)] for number in mode["mode"]))
    silent = [
        kind
        for kind in ("cmd_vel", "cmd_pose")
        if not any(len(found[topic]["received"]) for topic, other in kinds.items() if other == kind)
    ]
    return Run(
        JointRecord(**found["joint_states"]),
        ImuRecord(**found["imu/data"]),
        TargetRecord(**found["joint_trajectory"]),
        SetpointRecord(partial(_setpoints, commanders, found, modes, notes)),
        OdometryRecord(**found["odom"]),
        steps=StepRecord(target, previous, joints, imu, cold > 0.5, step[:, -COMMAND_SIZE:]),
        mode=modes,
        cycles=cycles.record(),
        period=1.0 / notes.control_rate if notes.control_rate else None,
        notes=notes,
        problems=tuple(problems),
        silent=tuple(silent),
    )


def _left_out(topics: Mapping[str, str], readers: Mapping[str, TopicReader]) -> list[str]:
    return [
        f"{count} messages of {topics[record]} are left out: {sentence}"
        for record, reader in readers.items()
        for sentence, count in reader.problems.items()
    ] + [
        f"{reader.damaged} messages of {topics[record]} hold numbers that cannot be, which are damaged or left out"
        for record, reader in readers.items()
        if reader.damaged
    ]


def _without(bag: Bag, topic: str, problems: list[str]) -> str:
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


def _setpoints(
    commanders: Sequence[Source], found: Found, mode: ModeRecord, notes: RecordingNotes
) -> tuple[Array, Array]:
    """What the controller was asked for, decided between the sources by the controller's own CommandArbiter.

    It changes only when a message arrives or grows stale, and when the controller leaves fault, which clears it.
    """
    arbiter = CommandArbiter(notes.command_timeout)
    arbiter.set_style(*notes.style)
    changes = zip(pairwise(mode.modes), mode.received.tolist()[1:], strict=False)
    events: list[Event] = [(time, arbiter.clear) for change, time in changes if change == ("fault", "passive")]
    for commander in commanders:
        source = arbiter.add_source(commander.name)
        velocity, pose = found[commander.velocity], found[commander.pose]
        said = (velocity[name].tolist() for name in ("forward", "sideways", "yaw_rate", "received"))
        events += [(values[-1], partial(source.set_velocity, *values)) for values in zip(*said, strict=True)]
        given = (pose[name].tolist() for name in ("height", "orientation", "received"))
        events += [(values[-1], partial(source.set_pose, *values)) for values in zip(*given, strict=True)]
        for received in (velocity["received"], pose["received"]):
            times = np.sort(received)
            last = times[np.diff(times, append=np.inf) > notes.command_timeout]
            events += [(time + notes.command_timeout + AFTER, lambda: None) for time in last.tolist()]
    changed, values = [-np.inf], [arbiter.wanted(-np.inf)]
    for time, happen in sorted(events, key=itemgetter(0)):
        happen()
        changed.append(time)
        values.append(arbiter.wanted(time))
    return np.array(changed), np.array(values)


class _CycleCounts:
    """Finds how many cycles the controller of `namespace` says it has run in serialised messages: with each it sends
    targets, so that a bag that lacks some gives itself away, and a cycle that was missed is not taken for one that the
    bag lacks. To decode the many texts of a DiagnosticArray would take longer than the replay.
    """

    TOPIC = "/diagnostics"  # of all robots
    KIND = "diagnostic_msgs/msg/DiagnosticArray"
    LITTLE_ENDIAN = b"\x00\x01"
    LONGEST = 18  # digits
    MOST = 100_000  # messages: a day at one a second

    def __init__(self, namespace: str) -> None:
        controller = f"{namespace.strip('/')}/controller: control".lstrip("/")
        self._status, self._key = (
            struct.pack("<I", len(text) + 1) + text + b"\0" for text in (controller.encode(), b"cycles")
        )
        self._found: list[tuple[float, int]] = []

    def add(self, batch: MessageBatch) -> None:
        """Take messages of TOPIC."""
        if batch.kind != self.KIND or len(self._found) + len(batch.size) > self.MOST:
            return
        for received, message in zip(batch.received.tolist(), batch.messages(), strict=True):
            status = message.find(self._status)
            key = message.find(self._key, status + len(self._status))
            if not message.startswith(self.LITTLE_ENDIAN) or min(status, key) < 0:
                continue
            place = key + len(self._key)
            place += -place % 4  # CDR aligns the length of the value
            digits = message[place + 4 : place + 4 + self.LONGEST].partition(b"\0")[0]
            if digits.isdigit():
                self._found.append((received * 1e-9, int(digits)))

    def record(self) -> CycleRecord:
        """All that was found, in the order of their reception."""
        self._found.sort()
        received, count = ([entry[part] for entry in self._found] for part in (0, 1))
        return CycleRecord(np.array(received, dtype=np.float64), np.array(count, dtype=np.int64))
