"""Bags whose times are damaged give the data of the whole bag, or less, or none, and the damage is reported."""

import random
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from made_bag import STEP_TYPE, TYPES, codes, message
from rosbags.rosbag2 import Reader, StoragePlugin, Writer

from fcnet_core.errors import FcnetError
from fcnet_core.observation import velocity_interface
from fcnet_core.observation.signals import SIZE
from fcnet_replay.datasets.from_bag import BagReading, dataset_from_bags, read_episodes
from fcnet_replay.evaluation import evaluate_bag
from fcnet_replay.metrics import mode_times

WALK = Path(__file__).parents[4] / "docs" / "examples" / "aliengo_walk"
STEPS, TARGETS, JOINTS, IMU = "/controller/policy_step", "/joint_trajectory", "/joint_states", "/imu/data"
STAMPED = (JOINTS, IMU, TARGETS, "/odom")
YEAR = 365 * 86400 * 10**9  # [ns]


@pytest.fixture(scope="module")
def walk():
    """The messages of the example bag: topic, time of reception [ns], content; and the types by topic."""
    with Reader(WALK) as reader:
        kinds = {connection.topic: connection.msgtype for connection in reader.connections}
        kept = (*STAMPED, STEPS, "/cmd_vel", "/controller/mode")
        return [(c.topic, time, bytes(data)) for c, time, data in reader.messages() if c.topic in kept], kinds


@pytest.fixture
def write(walk, tmp_path):
    """Writes the messages in their order, with or without the policy's steps."""

    def write(messages, with_steps=True, storage=StoragePlugin.MCAP):
        writer = Writer(tmp_path / "bag", version=9, storage_plugin=storage)
        writer.set_custom_data("fcnet.robot", "aliengo")
        with writer:
            connections = {
                topic: writer.add_connection(topic, kind, typestore=TYPES)
                for topic, kind in walk[1].items()
                if topic in {message[0] for message in messages} and (with_steps or topic != STEPS)
            }
            for topic, received, data in messages:
                if topic in connections:
                    writer.write(connections[topic], received, data)
        return tmp_path / "bag"

    return write


def rows(path):
    """Episodes of a bag, and their observations and targets."""
    found = read_episodes(path, BagReading())
    return found, found.steps.observations(found.run, velocity_interface(found.robot)), found.target


@pytest.fixture(scope="module")
def whole(walk, tmp_path_factory):
    _, observation, target = rows(WALK)
    assert len(observation) == 304
    return observation, target


def stamped(data, change):
    """The message with another stamp [ns]."""
    seconds, rest = struct.unpack_from("<iI", data, 4)
    stamp = change(seconds * 10**9 + rest)
    return data[:4] + struct.pack("<iI", stamp // 10**9, stamp % 10**9) + data[12:]


def with_stamps(change, *topics):
    """An edit: other stamps; change: of the number of the message in its topic and its stamp [ns]."""

    def edit(messages):
        count = dict.fromkeys(topics, -1)
        for topic, received, data in messages:
            if topic in topics:
                count[topic] += 1
                data = stamped(data, lambda stamp, topic=topic: change(count[topic], stamp))
            yield topic, received, data

    return edit


def with_times(change):
    """An edit: other times of reception; change: of the number of the message, its topic and its time [ns]."""
    return lambda messages: [(t, change(n, t, received), data) for n, (t, received, data) in enumerate(messages)]


def step(seconds, receive, stamps):
    """An edit: clocks are set in the middle of the walk, also in the stamps that the policy's steps saw."""

    def edit(messages):
        messages = list(messages)
        for place, (topic, received, data) in enumerate(messages):
            change = round(seconds * 1e9) if place > 0.6 * len(messages) else 0
            if stamps and topic in STAMPED:
                data = stamped(data, lambda stamp, change=change: stamp + change)
            elif stamps and topic == STEPS:
                seen = struct.unpack_from("<4d", data, len(data) - 8 * SIZE)
                shifted = struct.pack("<4d", *(stamp + 1e-9 * change for stamp in seen))
                data = data[: len(data) - 8 * SIZE] + shifted + data[len(data) - 8 * (SIZE - 4) :]
            yield topic, received + change * receive, data

    return edit


def outliers(value, topics=None):
    """An edit: ten messages have this time of reception."""

    def edit(messages):
        messages = list(messages)
        numbers = [n for n, message in enumerate(messages) if topics is None or message[0] in topics]
        chosen = set(random.Random(1).sample(numbers, min(10, len(numbers) // 2)))
        return with_times(lambda n, _, time: value(time) if n in chosen else time)(messages)

    return edit


def ends(messages):
    """The first and the last messages have impossible times of reception."""
    last = len(messages) - 5
    return with_times(lambda n, _, time: 7 if n < 5 else time + (3600 * 10**9 if n >= last else 0))(messages)


def shuffled(messages):
    return random.Random(1).sample(messages, len(messages))


def exchanged_files(messages):
    """Files without numbers: nothing else gives their order."""
    third = len(messages) // 3
    return [*messages[2 * third :], *messages[third : 2 * third], *messages[:third]]


def exchanged_targets(messages):
    """Every tenth target arrives after the next one."""
    messages, places = list(messages), [n for n, message in enumerate(messages) if message[0] == TARGETS]
    for one, other in list(pairwise(places))[::10]:
        (_, first, early), (_, second, late) = messages[one], messages[other]
        messages[one], messages[other] = (TARGETS, first, late), (TARGETS, second, early)
    return messages


def two_recorders(messages):
    return [(t, time + delay, data) for t, time, data in messages for delay in (0, 200_000)]


def stalled(messages):
    """The recorder stands still for half a second in the walk. It then writes what it has kept, at once; of the joint
    states and the IMU it has lost some.
    """
    begin = messages[0][1] + 6 * 10**9
    for topic, received, data in messages:
        if begin <= received < begin + 5 * 10**8:
            kept = topic not in (JOINTS, IMU) or not begin + 2 * 10**8 <= received < begin + 38 * 10**7
            received = begin + 5 * 10**8 + (received - begin) // 1000
            if not kept:
                continue
        yield topic, received, data


def of_an_older_release(messages):
    """The policy's steps as they were recorded before version 0.2, with sine and cosine of the phase."""
    for topic, received, data in messages:
        if topic == STEPS:
            stamps, setpoint, clock = np.split(np.frombuffer(data[-8 * SIZE :]), [5, 14])
            turn = 2 * np.pi * clock[0]
            command = [*setpoint[:8], np.sin(turn), np.cos(turn), clock[1], setpoint[8], 0.0, 0.0, 0.0, 0.0]
            step = message(STEP_TYPE, {"data": np.array([*stamps, *command])})
            data = bytes(TYPES.serialize_cdr(step, STEP_TYPE))
        yield topic, received, data


def second_imu(messages):
    """Another program sends an attitude of exactly level 2 ms after each message."""
    for topic, received, data in messages:
        yield topic, received, data
        if topic == IMU:
            imu = TYPES.deserialize_cdr(data, "sensor_msgs/msg/Imu")
            imu.orientation.x, imu.orientation.y, imu.orientation.z, imu.orientation.w = 0.0, 0.0, 0.0, 1.0
            data = bytes(TYPES.serialize_cdr(imu, "sensor_msgs/msg/Imu"))
            yield topic, received + 2_000_000, stamped(data, lambda stamp: stamp + 2_000_000)


def in_degrees(topic):
    """An edit: the angular velocities of a topic."""

    def edit(messages):
        for name, received, data in messages:
            if name == topic:
                kind = f"sensor_msgs/msg/{'Imu' if topic == IMU else 'JointState'}"
                message = TYPES.deserialize_cdr(data, kind)
                turning = message.angular_velocity if topic == IMU else message
                for part in "xyz" if topic == IMU else ["velocity"]:
                    setattr(turning, part, np.degrees(getattr(turning, part)))
                data = bytes(TYPES.serialize_cdr(message, kind))
            yield name, received, data

    return edit


IMU_AHEAD, IMU_ZERO = with_stamps(lambda _, stamp: stamp + 3 * 10**9, IMU), with_stamps(lambda *_: 0, IMU)
JOINTS_BEHIND = with_stamps(lambda _, stamp: stamp - 3 * 10**9, JOINTS)
SLOW = with_stamps(lambda _, stamp: stamp + 10**6 * (stamp % 10**11) // 10**8, *STAMPED)
SOME_WRONG = with_stamps(lambda n, stamp: stamp + 10**12 if n % 90 == 43 else stamp, JOINTS, TARGETS)  # unseen states
SIMULATED = with_stamps(lambda _, stamp: stamp % 10**14, IMU)
FROZEN = with_stamps(lambda *_: 1_800_000_000 * 10**9, JOINTS)
ALL = 304
AFTER = 150  # at least so many steps, where some are left out around the damage


@pytest.mark.parametrize(
    ("edit", "kinds", "recorded", "inferred"),
    [
        *((step(time, 1, 0), {"clock"}, ALL, ALL) for time in (-2, -3600, 3600, -0.3)),
        *((step(time, 0, 1), {"clock"}, ALL - 1, ALL) for time in (-2, 3600)),
        *((step(time, 1, 1), {"clock"}, ALL - 1, 100) for time in (-2, -3600, 3600, -0.3)),
        *((outliers(value), {"clock"}, ALL, ALL) for value in (lambda _: 2**64 - 5, lambda _: 7, lambda t: t + YEAR)),
        (outliers(lambda time: time + YEAR, ("/controller/mode", "/cmd_vel")), {"clock"}, ALL, ALL),
        (ends, {"clock"}, ALL, ALL),
        (IMU_AHEAD, {"clock"}, None, ALL),
        (JOINTS_BEHIND, {"clock"}, None, ALL),
        (SIMULATED, {"clock"}, None, ALL),
        (SLOW, {"clock_drift"}, None, ALL),
        (IMU_ZERO, {"no_stamp"}, None, ALL),
        (FROZEN, {"no_stamp"}, None, ALL),
        (SOME_WRONG, {"clock", "no_stamp"}, AFTER, ALL),
        (stalled, set(), AFTER, 60),
        (of_an_older_release, set(), ALL, ALL),
        (second_imu, {"unknown"}, ALL, AFTER),
        (in_degrees(IMU), {"unknown"}, None, None),
        (in_degrees(JOINTS), {"unknown"}, None, None),
        (shuffled, {"order"}, ALL, ALL),
        (lambda messages: messages[::-1], {"order"}, ALL, ALL),
        (exchanged_files, {"order"}, ALL, ALL),
        (lambda messages: [*messages, *messages], {"order"}, ALL, ALL),
        (two_recorders, {"order"}, ALL, ALL),
        (exchanged_targets, set(), ALL, ALL),
    ],
)  # fmt: skip
@pytest.mark.parametrize("with_steps", [True, False], ids=["recorded", "inferred"])
def test_data_are_those_of_the_whole_bag(walk, whole, write, edit, kinds, recorded, inferred, with_steps) -> None:
    found, observation, target = rows(write(list(edit(walk[0])), with_steps))
    assert {problem.kind for problem in found.run.problems} == kinds
    least = recorded if with_steps else inferred
    assert len(target) >= least if least else len(target) == 0
    same = np.abs(whole[1][None] - target[:, None]).max(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(target, whole[1][same])
    np.testing.assert_allclose(observation, whole[0][same], atol=1e-6)
    assert (np.diff(same)[~found.first[1:]] == 1).all(), "an episode is continuous"
    assert np.ptp(found.run.joints.received) == pytest.approx(7.98, abs=0.15)
    assert mode_times(found.run)["walking"] == pytest.approx(6.08, abs=0.15)


def test_without_recorded_steps_a_clock_of_another_rate_gives_no_data(walk, write, tmp_path) -> None:
    edit = with_stamps(lambda _, stamp: stamp + 10**6 * (stamp % 10**11) // 10**8, IMU)
    path = write(list(edit(walk[0])), with_steps=False)
    with pytest.raises(FcnetError, match="drift"):
        dataset_from_bags([path], tmp_path / "data", BagReading())
    assert not (tmp_path / "data").exists()
    assert codes(evaluate_bag(path))["clock_unknown"] == "bad"


def test_a_step_of_all_clocks_is_in_no_figure(walk, write) -> None:
    evaluation = evaluate_bag(write(list(step(3600, 1, 1)(walk[0])), storage=StoragePlugin.SQLITE3))
    figures = evaluation.figures
    assert figures["duration_s"] == pytest.approx(8.0, abs=0.2)
    assert figures["timing"]["topics"]["joint_states"]["rate_hz"] == pytest.approx(250.0, rel=0.02)
    assert figures["policies"]["A"]["action_error_rad"]["agrees"] and codes(evaluation)["clock"] == "bad"
    assert any("set ahead" in text for text in figures["problems"])


def test_equal_messages_after_a_clock_was_set_back_are_no_repetitions(write, write_bag, robot) -> None:
    """The made-up robot's IMU measures always the same, and its times are multiples of 4 ms."""
    with Reader(write_bag(custom={"fcnet.robot": "aliengo"})) as reader:
        made = [(c.topic, time, bytes(data)) for c, time, data in reader.messages() if c.topic != STEPS]
    found = read_episodes(write(list(step(-2, 1, 1)(made)), with_steps=False), BagReading())
    for topic, record in ((JOINTS, found.run.joints), (IMU, found.run.imu), (TARGETS, found.run.targets)):
        assert len(record.stamp) == sum(name == topic for name, _, _ in made)
        assert (np.diff(record.stamp) > 0).all()
