"""Reads a recorded run from a bag."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from fcnet_core.command import COMMAND_SIZE, CommandArbiter
from fcnet_core.observation import SCALARS, SIZE
from fcnet_core.remote import Source, load_remote_map
from fcnet_replay.bags.bag import Bag
from fcnet_replay.bags.message_batch import BagError, MessageBatch
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
from fcnet_replay.topic_reader import (
    JOINTS,
    MODES,
    Picker,
    TopicReader,
    pick_imu,
    pick_joints,
    pick_mode,
    pick_odometry,
    pick_pose,
    pick_step,
    pick_targets,
    pick_velocity,
)

# How many cycles a controller says it has run: with each it sends targets, so that a bag that lacks some gives itself
# away, and a cycle that was missed is not taken for one that the bag lacks.

TOPIC = "/diagnostics"  # of all robots
KIND = "diagnostic_msgs/msg/DiagnosticArray"
LITTLE_ENDIAN = b"\x00\x01"
ENCAPSULATION = 4  # [bytes] before the content of every message; alignment counts from there
LONGEST = 18  # digits
MOST = 100_000  # messages: a day at one a second


class CycleCounts:
    """Finds them in serialised messages; looking at each of their many texts would take longer than the replay.

    namespace: of the robot.
    """

    def __init__(self, namespace: str) -> None:
        controller = f"{namespace.strip('/')}/controller: control".lstrip("/")
        self._status, self._key = _text(controller.encode()), _text(b"cycles")
        self._found: list[tuple[float, int]] = []

    def add(self, batch: MessageBatch) -> None:
        """Take messages of TOPIC."""
        if batch.kind != KIND or len(self._found) + len(batch.size) > MOST:
            return
        for received, message in zip(batch.received.tolist(), batch.messages(), strict=True):
            if (count := self._count(message)) is not None:
                self._found.append((received * 1e-9, count))

    def record(self) -> CycleRecord:
        """All that was found, in the order of their reception."""
        self._found.sort()
        return CycleRecord(
            np.array([received for received, _ in self._found], dtype=np.float64),
            np.array([count for _, count in self._found], dtype=np.int64),
        )

    def _count(self, message: bytes) -> int | None:
        status = message.find(self._status)
        key = message.find(self._key, status + len(self._status))
        if not message.startswith(LITTLE_ENDIAN) or min(status, key) < 0:
            return None
        place = key + len(self._key)
        place += (ENCAPSULATION - place) % 4
        digits = message[place + 4 : place + 4 + LONGEST].partition(b"\0")[0]
        return int(digits) if digits.isdigit() else None


def _text(text: bytes) -> bytes:
    """A string as CDR has it."""
    return struct.pack("<I", len(text) + 1) + text + b"\0"


# Reads a Run from a bag.

Array = npt.NDArray[np.float64]
MANY = 12  # topics told in an error
PICKERS: dict[str, tuple[int, Picker]] = {
    "joint_states": (1 + 3 * JOINTS, pick_joints),
    "imu/data": (11, pick_imu),
    "joint_trajectory": (1 + JOINTS, pick_targets),
    "policy_step": (SIZE, pick_step),
    "mode": (1, pick_mode),
    "cmd_vel": (3, pick_velocity),
    "cmd_pose": (5, pick_pose),
    "odom": (14, pick_odometry),
}


def read_run(bag: Bag, namespace: str = "", sources: Mapping[str, TopicSource] = OWN) -> Run:
    """Read the topics of one robot. Raises BagError when the bag has no joint_states or no imu/data, and
    RemoteFileError where config/remote.yaml cannot be used.
    """
    speakers = load_remote_map().sources
    kinds = _kinds(speakers)
    sources = {**{topic: replace(OWN[kind], topic=topic) for topic, kind in kinds.items()}, **sources}
    pickers = PICKERS | {topic: PICKERS[kind] for topic, kind in kinds.items()}
    prefix = f"/{namespace.strip('/')}/".replace("//", "/")
    topics = {
        record: source.topic if source.topic[0] == "/" else prefix + source.topic for record, source in sources.items()
    }
    readers = {
        record: TopicReader(width, partial(pick, sources[record]), bag.definitions)
        for record, (width, pick) in pickers.items()
    }
    cycles = CycleCounts(namespace)
    wanted: dict[str, list[TopicReader | CycleCounts]] = {TOPIC: [cycles]}
    for record, topic in topics.items():
        wanted.setdefault(topic, []).append(readers[record])
    for batch in bag.batches(frozenset(wanted)):
        for reader in wanted[batch.topic]:
            reader.add(batch)
    rows = {record: reader.finish() for record, reader in readers.items()}
    problems = [str(problem) for problem in bag.problems] + _left_out(topics, readers)
    for record in ("joint_states", "imu/data"):
        if not len(rows[record][0]):
            raise BagError(_without(bag, topics[record], problems))
    notes, mode = read_notes(bag.custom), _mode(*rows["mode"])
    return Run(
        joints=JointRecord(*_stamped(*rows["joint_states"], 3)),
        imu=_imu(*rows["imu/data"]),
        targets=TargetRecord(*_stamped(*rows["joint_trajectory"], 1)),
        setpoints=_setpoints(speakers, rows, mode, notes),
        odometry=_odometry(*rows["odom"]),
        steps=_steps(*rows["policy_step"]),
        mode=mode,
        cycles=cycles.record(),
        period=1.0 / notes.control_rate if notes.control_rate else None,
        notes=notes,
        problems=(*problems, *_without_stamps(topics, rows)),
        silent=tuple(
            kind
            for kind in ("cmd_vel", "cmd_pose")
            if not any(len(rows[topic][0]) for topic, other in kinds.items() if other == kind)
        ),
    )


Event = tuple[float, Callable[[], object]]  # when [s], and what happens
AFTER = 1e-6  # [s] beyond its timeout a command is stale


def _setpoints(
    speakers: Sequence[Source], rows: Mapping[str, tuple[Array, Array]], mode: ModeRecord, notes: RecordingNotes
) -> SetpointRecord:
    """What the controller was asked for, decided between the sources by the controller's own CommandArbiter.

    It changes only when a message arrives or grows stale, and when the controller leaves fault, which clears it.
    """
    arbiter = CommandArbiter(notes.command_timeout)
    arbiter.set_style(*notes.style)
    changes = zip(pairwise(mode.modes), mode.received.tolist()[1:], strict=False)
    events: list[Event] = [(time, arbiter.clear) for change, time in changes if change == ("fault", "passive")]
    for speaker in speakers:
        source = arbiter.add_source(speaker.name)
        for time, (vx, vy, yaw_rate) in zip(*(part.tolist() for part in rows[speaker.velocity]), strict=True):
            events.append((time, partial(source.set_velocity, vx, vy, yaw_rate, time)))
        for time, (height, *orientation) in zip(*(part.tolist() for part in rows[speaker.pose]), strict=True):
            events.append((time, partial(source.set_pose, height, tuple(orientation), time)))
        for received in (rows[speaker.velocity][0], rows[speaker.pose][0]):
            times = np.sort(received)
            last = times[np.diff(times, append=np.inf) > notes.command_timeout]
            events += [(time + notes.command_timeout + AFTER, lambda: None) for time in last.tolist()]
    changed, values = [-np.inf], [arbiter.wanted(-np.inf)]
    for time, happen in sorted(events, key=itemgetter(0)):
        happen()
        changed.append(time)
        values.append(arbiter.wanted(time))
    return SetpointRecord(np.array(changed), np.array(values))


def _kinds(speakers: Sequence[Source]) -> dict[str, str]:
    """The topics of all who may move the robot, and which of PICKERS reads them."""
    return {speaker.velocity: "cmd_vel" for speaker in speakers} | {speaker.pose: "cmd_pose" for speaker in speakers}


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
    present = sorted(bag.seen)
    more = f" and {len(present) - MANY} more" if len(present) > MANY else ""
    found = f"it has {', '.join(present[:MANY])}{more}" if present else "it has no topics at all"
    return (
        f"{bag.path} holds no {topic}, without which nothing can be replayed; {found}: "
        "name the robot's namespace, or give a topic map"
    )


def _without_stamps(topics: Mapping[str, str], rows: Mapping[str, tuple[Array, Array]]) -> list[str]:
    told = []
    for record in ("joint_states", "imu/data", "joint_trajectory"):
        missing = int(np.isnan(rows[record][1][:, 0]).sum())
        if missing:
            told.append(
                f"{missing} messages of {topics[record]} have no stamp; when they were received is used instead"
            )
    return told


def _stamped(received: Array, rows: Array, parts: int) -> tuple[Array, ...]:
    """Time of reception, stamp, and the other numbers in `parts` equal parts."""
    stamp = np.where(np.isnan(rows[:, 0]), received, rows[:, 0])
    return received, stamp, *np.split(rows[:, 1:], parts, axis=1)


def _imu(received: Array, rows: Array) -> ImuRecord:
    _, stamp, numbers = _stamped(received, rows, 1)
    return ImuRecord(received, stamp, numbers[:, :4], numbers[:, 4:7], numbers[:, 7:])


def _odometry(received: Array, rows: Array) -> OdometryRecord:
    _, stamp, numbers = _stamped(received, rows, 1)
    return OdometryRecord(received, stamp, *np.split(numbers, (3, 7, 10), axis=1))


def _steps(_received: Array, rows: Array) -> StepRecord:
    target, previous, joints, imu, cold = rows[:, : len(SCALARS)].T
    return StepRecord(target, previous, joints, imu, cold > 0.5, rows[:, -COMMAND_SIZE:])


def _mode(received: Array, rows: Array) -> ModeRecord:
    return ModeRecord(received, tuple(MODES[int(row)] for row in rows[:, 0]))
