"""Reads a run from a bag: decodes the messages of each topic into arrays, and assembles them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from operator import itemgetter

import numpy as np

from fcnet_core import counted, names
from fcnet_core.arrays import Array, Mask
from fcnet_core.control.command import CommandArbiter
from fcnet_core.errors import ReplayError
from fcnet_core.names import Mode
from fcnet_core.remote import Source, load_remote_map
from fcnet_core.rotation import projected_gravity
from fcnet_replay import run as records
from fcnet_replay.bags.bag import Bag
from fcnet_replay.bags.contents import MessageBatch, Problem
from fcnet_replay.bags.message_columns import ColumnDecoder, Columns, fields_for
from fcnet_replay.recording_notes import RecordingNotes
from fcnet_replay.run import Run
from fcnet_replay.times import align_times, ordered
from fcnet_replay.topic_map import MODES, OWN, SOURCES, TopicMap, TopicSource

ENOUGH = 256 * 2**10  # [bytes] decoded at a time: they stay in the cache
LARGEST = 1e12  # of any number; larger ones are damage
MOST_MESSAGES = 2_000_000  # of one topic: more than an hour at 500 Hz
MOST_REASONS = 20  # for which messages of one topic are left out
AFTER = 1e-6  # [s] after its timeout a command is stale
MANY = 12  # topics in an error
MIXED = 0.05  # share of messages that another program's are at least
FASTEST = 100.0  # [rad/s] more than any joint or trunk reaches
SHORTEST = 1e-3  # [s] between two messages
SPAN, DENSE = 0.2, 4  # [s] in which a trunk turns by more than its attitude's noise; messages at least
TURNED = 0.2  # [rad] in SPAN, above which a rate is compared with its course
TOO_FAST = 5.0  # times the rate of the course
MOVED = 0.1  # [m, rad, m/s, rad/s] by which a quantity must change for one that stays the same not to be measured
MEASURED = (
    (names.JOINT_STATES.name, "velocity", "position"),
    (names.IMU.name, "orientation", "angular_velocity"),
    (names.IMU.name, "angular_velocity", "orientation"),
    (names.ODOM.name, "orientation", "angular_velocity"),
    (names.ODOM.name, "velocity", "position"),
    (names.ODOM.name, "angular_velocity", "orientation"),
)  # record, quantity, and the one that does not change without it

Definitions = Mapping[str, tuple[str, str]]  # encoding and text by type, as in Contents
Found = Mapping[str, Mapping[str, Array]]  # arrays by source and quantity; empty for a source without messages
Event = tuple[float, Callable[[], object]]  # time [s] and action


def read_run(
    bag: Bag, namespace: str | None = None, topic_map: TopicMap = OWN, joint_names: tuple[str, ...] = ()
) -> Run:
    """Read the topics of the robot in `namespace` (default: the one that the recorder noted).

    joint_names: of the robot, by default those of the recorded robot's file, or as joint_states names them. Raises
    ReplayError if the bag has no joint_states or no imu/data, and FcnetError if config/remote.yaml is unusable.
    """
    notes, commanders = bag.notes, load_remote_map().sources
    namespace = (notes.namespace if namespace is None else namespace).strip("/")
    sources: dict[str, TopicSource] = {
        **{commander.velocity: SOURCES[names.CMD_VEL.name](commander.velocity) for commander in commanders},
        **{commander.pose: SOURCES[names.CMD_POSE.name](commander.pose) for commander in commanders},
        **topic_map,
    }
    definitions, joints = bag.contents.definitions, joint_names or notes.joint_names
    readers = {
        record: _TopicReader(names.full_name(source.topic, namespace), source, definitions, joints)
        for record, source in sources.items()
    }
    for batch in bag.batches(frozenset(reader.name for reader in readers.values())):
        for reader in readers.values():
            if reader.name == batch.topic:
                reader.add(batch)
    found = {record: reader.finish() for record, reader in readers.items()}
    problems = [*bag.contents.problems]
    for reader in readers.values():
        problems += reader.problems()
    for record in (names.JOINT_STATES.name, names.IMU.name):
        if not found[record]:
            raise ReplayError(_lacks(bag, readers[record], problems))
    found, reception = align_times(found, problems)
    problems += _unknown(found, readers)
    joints, sent = readers[names.JOINT_STATES.name].joints, found[names.JOINT_TRAJECTORY.name]
    modes, steps = records.NO_MODES, records.NO_STEPS
    targets = records.TargetRecord(np.empty(0), np.empty(0), np.empty((0, len(joints))))
    if mode := found["mode"]:
        modes = records.ModeRecord(mode["received"], tuple(MODES[int(number)] for number in mode["mode"]))
    if step := found["policy_step"]:
        steps = records.StepRecord.of(step["step"])
    if sent:  # without a known robot their order may be another
        column_of = {joint: column for column, joint in enumerate(readers[names.JOINT_TRAJECTORY.name].joints)}
        unknown = np.full((len(sent["position"]), 1), np.nan)
        sent["position"] = np.hstack([sent["position"], unknown])[:, [column_of.get(joint, -1) for joint in joints]]
        targets = records.TargetRecord(**sent)
    states = records.JointRecord(**found[names.JOINT_STATES.name]), records.ImuRecord(**found[names.IMU.name])
    setpoints = records.SetpointRecord(cache(partial(_setpoints, commanders, found, modes, notes)))
    odometry = records.OdometryRecord(**found[names.ODOM.name]) if found[names.ODOM.name] else records.NO_ODOMETRY
    period = 1.0 / notes.control_rate if notes.control_rate else None
    run = Run(joints, *states, targets, setpoints, odometry, steps, modes, period, notes=notes)
    return replace(run, problems=tuple(problems), reception=reception)


def _unknown(found: Found, readers: Mapping[str, _TopicReader]) -> Iterator[Problem]:
    """Yield the quantities that messages do not measure or contradict, which are NaN, and the states of two programs;
    torques that are always zero become NaN, and quantities that never change though the robot moves.
    """
    for record, quantity, other in MEASURED:
        values, moving = (found[record].get(name, np.empty((1, 1))) for name in (quantity, other))
        reason = "it is no unit quaternion" if quantity == "orientation" else "it is not finite"
        reason += ", or its covariance says that it is not measured"
        if (values == values[:1]).all() and (np.ptp(moving, axis=0) > MOVED).any():
            values[:], reason = np.nan, f"it never changes, though the {other} does"
        elif record == names.IMU.name and quantity == "orientation" and (level := _level_among_others(values)).any():
            values[level], reason = np.nan, "it is exactly level among others that are not, as of two programs"
        elif (
            (course := _course(record, quantity, found[record]))
            and _is_too_fast(found[record]["stamp"], *course)
            and not _is_mixed(record, found[record])
        ):
            values[:], reason = np.nan, f"it is over {TOO_FAST:g} times the rate of the {other}, as in degrees/s"
        if count := int((~np.isfinite(values).all(axis=1)).sum()) if found[record] else 0:
            what = f"{count} of {counted(len(values), 'message')} of {readers[record].name}"
            yield Problem("unknown", f"{what} have no {quantity.replace('_', ' ')}: {reason.replace('_', ' ')}")
    for record in (names.JOINT_STATES.name, names.IMU.name):
        if _is_mixed(record, found[record]):
            yield Problem("mixed", f"{record} jump to and fro, as of two programs; record it with one of them")
    effort = found[names.JOINT_STATES.name]["effort"]
    effort[:, ~effort.any(axis=0)] = np.nan


def _level_among_others(orientation: Array) -> Mask:
    """Return which orientations (N, 4) are exactly level, if they alternate with others."""
    level: Mask = (orientation == (0.0, 0.0, 0.0, 1.0)).all(axis=1)
    return level & bool(np.count_nonzero(np.diff(level)) > MIXED * len(level))


def _course(record: str, quantity: str, arrays: Mapping[str, Array]) -> tuple[Array, Array] | None:
    """Return what moves (N, K), and the rate (N, K) that it has by a quantity of a record: the joints, or gravity in
    the body's frame, for which the yaw need not be known; None for other quantities.
    """
    if record == names.JOINT_STATES.name:
        return arrays["position"], arrays["velocity"]
    if record == names.IMU.name and quantity == "angular_velocity":
        gravity = projected_gravity(arrays["orientation"])
        return gravity, np.cross(gravity, arrays["angular_velocity"])
    return None


def _is_too_fast(stamp: Array, course: Array, rate: Array) -> bool:
    """Return whether a rate (N, K) is much larger than that of its course (N, K). Spans of time are compared, because
    the noise of both is fast.
    """
    rows = np.flatnonzero(np.diff(np.floor(stamp / SPAN), prepend=-np.inf))
    by_rate = np.cumsum(np.nan_to_num(rate[:-1]) * np.diff(stamp)[:, None], axis=0)
    by_rate = np.vstack([np.zeros(rate.shape[1]), by_rate])
    moved = np.stack([np.linalg.norm(np.diff(place[rows], axis=0), axis=1) for place in (by_rate, course)])
    dense = (np.diff(rows) >= DENSE) & (np.diff(stamp[rows]) < 2.0 * SPAN) & np.isfinite(moved[1])
    if not dense.any():
        return False
    fast, slow = np.percentile(moved[:, dense], 90, axis=1)
    return bool(fast > max(TURNED, TOO_FAST * slow))


def _is_mixed(record: str, arrays: Mapping[str, Array]) -> bool:
    """Return whether the joints or the trunk jump between two courses, of two programs."""
    if record == names.JOINT_STATES.name:
        jump = np.abs(np.diff(arrays["position"], axis=0)).max(axis=1, initial=0.0)
    else:
        orientation = arrays["orientation"]
        jump = 2.0 * np.arccos(np.minimum(np.abs((orientation[1:] * orientation[:-1]).sum(axis=1)), 1.0))
    fast = jump > FASTEST * np.maximum(np.diff(arrays["stamp"]), SHORTEST)
    return bool(fast.sum() > MIXED * len(fast))


def _lacks(bag: Bag, reader: _TopicReader, problems: list[Problem]) -> str:
    """Return why a bag has no usable messages of a topic: the topic's own reason before those of the files."""
    topic, present = reader.name, sorted({**bag.contents.topics, **bag.contents.encodings})
    own, others = list(reader.problems()), sorted(problems, key=lambda problem: problem.kind == "no_metadata")
    if topic in bag.contents.encodings:
        found = {"ros1": "ROS 1's encoding"}.get(form := bag.contents.encodings[topic], f"the encoding {form!r}")
        how = "give a bag that `ros2 bag record` has written, or a .bag file of ROS 1"
        return f"the messages of {topic} in {bag.path} are in {found}, and fcnet reads those in CDR: {how}"
    if own or not present or topic in present:
        why = next((problem.sentence for problem in [*own, *others]), "it has no messages")
        return f"{bag.path} has no usable {topic}, which a replay needs: {why}"
    of_robots = [name.removesuffix(reader.ending) or "/" for name in present if name.endswith(reader.ending)]
    space = " or ".join(of_robots) or "NS"
    more = f" and {len(present) - MANY} more" if len(present) > MANY else ""
    how = f"name the robot's namespace (--namespace {space}; at a launch namespace:=), or give a topic map (--topics)"
    note = "".join(f" ({problem.sentence})" for problem in others[:1])
    return f"{bag.path} has no {topic}, which a replay needs; it has {', '.join(present[:MANY])}{more}: {how}{note}"


class _TopicReader:
    """Decodes the messages of the topic `name` into the arrays of `source`; definitions: of the bag's types; joints:
    names of the columns, by default those of the first message.
    """

    def __init__(self, name: str, source: TopicSource, definitions: Definitions, joints: tuple[str, ...]) -> None:
        self.name = name
        self.ending = f"/{source.topic.strip('/')}"  # of the name in every namespace
        self.joints = joints
        self._source = source
        self._definitions = definitions
        self._decoders: dict[str, ColumnDecoder] = {}  # by type
        self._waiting: list[MessageBatch] = []
        self._parts: dict[str, list[Array]] = {}  # by quantity
        self._taken = 0
        self._left_out: dict[str, int] = {}  # number of messages by reason
        self._damaged = 0  # messages with impossible numbers, which are NaN in the arrays

    def add(self, batch: MessageBatch) -> None:
        """Take a batch."""
        if self._taken >= MOST_MESSAGES:
            self._leave_out(f"they come after {MOST_MESSAGES} others", len(batch.size))
            return
        if self._waiting and batch.kind != self._waiting[0].kind:
            self._decode()
        self._taken += len(batch.size)
        self._waiting.append(batch)
        if sum(len(waiting.content) for waiting in self._waiting) >= ENOUGH:
            self._decode()

    def finish(self) -> dict[str, Array]:
        """Return every quantity (N, size) or (N,) in the order of the bag, the times of reception `received` (N,) [s],
        and the messages' places in the bag `place` (N,); empty without messages. Missing stamps are NaN.
        """
        self._decode()
        arrays = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        return ordered(arrays, "place") if arrays else arrays

    def problems(self) -> Iterator[Problem]:
        """Yield what was left out."""
        for reason, count in self._left_out.items():
            yield Problem("left_out", f"{counted(count, 'message')} of {self.name} left out: {reason}")
        if self._damaged:
            what = "with numbers that cannot be, which are damaged or left out"
            yield Problem("damaged", f"{counted(self._damaged, 'message')} of {self.name} {what}")

    def _decode(self) -> None:
        batches, self._waiting = self._waiting, []
        if not batches:
            return
        kind = batches[0].kind
        if kind not in self._decoders:
            self._decoders[kind] = ColumnDecoder(kind, fields_for(kind, *self._definitions.get(kind, ())))
        content, size, received, place = (
            np.concatenate([getattr(batch, part) for batch in batches])
            for part in ("content", "size", "received", "place")
        )
        for group in self._decoders[kind].decode(content, size):
            if not isinstance(group, Columns):
                self._leave_out(group[1], 1)
                continue
            try:
                self.joints = self.joints or self._source.joint_names(group)
                found = self._source.read(group, self.joints)
            except ReplayError as error:
                self._leave_out(str(error), len(group.rows))
                continue
            damaged = np.zeros(len(group.rows), dtype=np.bool_)
            for values in found.values():
                if (wrong := np.abs(values) > LARGEST).any():
                    damaged |= wrong.reshape(len(damaged), -1).any(axis=1)
                    values[wrong] = np.nan
            self._damaged += int(damaged.sum())
            found |= {"received": 1e-9 * received[group.rows], "place": place[group.rows].astype(np.float64)}
            for name, values in found.items():
                self._parts.setdefault(name, []).append(values)

    def _leave_out(self, reason: str, messages: int) -> None:
        if len(self._left_out) >= MOST_REASONS:
            reason = "of other faults"
        self._left_out[reason] = self._left_out.get(reason, 0) + messages


def _setpoints(
    commanders: Sequence[Source], found: Found, mode: records.ModeRecord, notes: RecordingNotes
) -> tuple[Array, Array]:
    """Return SetpointRecord.changes, as the controller's CommandArbiter decides between the sources.

    A setpoint changes when a message arrives or grows stale, and when the controller leaves fault, which clears it.
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
                times = arrays["received"]
                last = times[np.diff(times, append=np.inf) > notes.command_timeout]
                events += [(time + notes.command_timeout + AFTER, lambda: None) for time in last.tolist()]
    changed, values = [-np.inf], [arbiter.wanted(-np.inf)]
    for time, happen in sorted(events, key=itemgetter(0)):
        happen()
        changed.append(time)
        values.append(arbiter.wanted(time))
    return np.array(changed), np.array(values)
