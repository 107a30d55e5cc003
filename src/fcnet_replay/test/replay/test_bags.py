"""Bags of every kind that rosbag2 writes are read alike, and columns hold what the messages hold."""

import shutil
import struct

import numpy as np
import pytest
from made_bag import STORAGES, TYPES, message
from rosbags.rosbag2 import Reader

from fcnet_core.errors import ReplayError
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.bags.message_columns import ColumnDecoder, Columns, fields_for


def everything(bag, topics=None):
    found = {}
    for batch in bag.batches(topics):
        found.setdefault(batch.topic, []).extend(zip(batch.received.tolist(), batch.messages(), strict=True))
    return found


@pytest.mark.parametrize("kind", STORAGES)
def test_every_message_is_read_as_another_reader_reads_it(write_bag, kind) -> None:
    folder = write_bag(seconds=0.6, **STORAGES[kind])
    theirs = {}
    with Reader(folder) as reader:
        for connection, received, data in reader.messages():
            theirs.setdefault(connection.topic, []).append((received, bytes(data)))
    bag = open_bag(folder)
    assert everything(bag) == theirs
    assert bag.contents.problems == []
    assert bag.contents.topics["/odom"] == "nav_msgs/msg/Odometry"


@pytest.mark.parametrize("kind", ["mcap", "sqlite3"])
def test_a_single_file_is_a_bag_of_which_only_the_requested_topics_are_read(write_bag, kind) -> None:
    folder = write_bag(seconds=0.6, **STORAGES[kind])
    (file,) = (path for path in folder.iterdir() if path.suffix in (".mcap", ".db3"))
    assert everything(open_bag(file)) == everything(open_bag(folder))
    assert list(everything(open_bag(file), frozenset({"/imu/data"}))) == ["/imu/data"]


@pytest.mark.parametrize("kind", ["mcap", "sqlite3", "sqlite3, compressed messages"])
def test_a_killed_recording_without_metadata_is_read_with_its_notes_and_reported(write_bag, tmp_path, kind) -> None:
    noted = {"fcnet.robot": "aliengo", "odd": "ä: [1, *x]"}
    shutil.copytree(write_bag(seconds=0.6, custom=noted, **STORAGES[kind]), tmp_path / "bag")
    (tmp_path / "bag" / "metadata.yaml").unlink()
    bag = open_bag(tmp_path / "bag")
    assert len(everything(bag)["/joint_states"]) == 150
    assert [problem.kind for problem in bag.contents.problems] == ["no_metadata"]
    (file,) = (tmp_path / "bag").iterdir()
    assert open_bag(file).custom == bag.custom == noted


def described(text: str) -> bytes:
    """A record of metadata as rosbag2 writes it into mcap files."""
    texts = [part.encode() for part in ("rosbag2", "serialized_metadata", text)]
    name, key, value = (struct.pack("<I", len(part)) + part for part in texts)
    content = name + struct.pack("<I", len(key + value)) + key + value
    return struct.pack("<BQ", 12, len(content)) + content


def test_what_the_recorder_noted_is_found_when_it_was_killed(write_bag, tmp_path) -> None:
    """Recorders write it at the beginning too; the last that can be read counts."""
    (whole,) = write_bag(seconds=0.6).glob("*.mcap")
    content = whole.read_bytes()
    begin = 8 + 9 + struct.unpack_from("<Q", content, 9)[0]
    records = [described(f"custom_data: {{fcnet.robot: {robot}}}") for robot in ("a1", "aliengo")]
    file = tmp_path / "killed.mcap"
    file.write_bytes(content[:begin] + b"".join(records) + content[begin : len(content) // 2])
    assert open_bag(file).custom == {"fcnet.robot": "aliengo"}
    for damage in (described("custom_data: [[["), described("3"), records[0][:9] + b"\xff" * 40):
        file.write_bytes(content[:begin] + records[0] + damage + records[0][:-3])
        assert open_bag(file).custom == {"fcnet.robot": "a1"}


@pytest.mark.parametrize(("name", "words"), [("none", "no bag at"), ("", "holds no bag"), ("a.mcap", "at byte 0")])
def test_what_is_no_bag_is_refused(tmp_path, name, words) -> None:
    if name == "a.mcap":
        (tmp_path / name).write_text("hello")
    with pytest.raises(ReplayError, match=words):
        everything(open_bag(tmp_path / name))


def columns_of(kind, messages):
    size = np.array([len(message) for message in messages])
    decoder = ColumnDecoder(kind, fields_for(kind))
    return list(decoder.decode(np.frombuffer(b"".join(messages), dtype=np.uint8), size))


def joint_state(names, seed):
    header = {"stamp": {"sec": seed, "nanosec": 7 * seed}, "frame_id": "base"}
    random = np.random.default_rng(seed)
    values = {name: random.standard_normal(len(names)) for name in ("position", "velocity", "effort")}
    made = message("sensor_msgs/msg/JointState", {"header": header, "name": names, **values})
    return made, bytes(TYPES.serialize_cdr(made, "sensor_msgs/msg/JointState"))


def test_columns_hold_what_each_message_holds() -> None:
    """Also where messages of different structure come in turn, and some are of the same length."""
    names = [["hip", "thigh"], ["hip", "wheel"], ["a", "b", "c"], []]
    made = [joint_state(names[seed % 4], seed) for seed in range(40)]
    seen = set()
    for group in columns_of("sensor_msgs/msg/JointState", [data for _, data in made]):
        assert isinstance(group, Columns)
        for place, row in enumerate(group.rows.tolist()):
            expected = made[row][0]
            assert group.layout.texts["name"] == expected.name
            assert group.layout.texts["header.frame_id"] == ["base"]
            assert group.numbers("header.stamp.nanosec")[place] == expected.header.stamp.nanosec
            for field in ("position", "velocity", "effort"):
                np.testing.assert_array_equal(group.numbers(field)[place], getattr(expected, field))
            seen.add(row)
    assert seen == set(range(40))


def test_what_lies_between_strings_may_be_anything() -> None:
    """Writers leave there what was in their memory."""
    _, data = joint_state(["hip"], 1)
    odd = data.replace(b"base\0\0\0\0", b"base\0xyz")
    assert odd != data
    (group,) = columns_of("sensor_msgs/msg/JointState", [data, odd])
    assert group.rows.tolist() == [0, 1]


def test_messages_shorter_than_a_number_of_eight_bytes_are_read() -> None:
    messages = [bytes([0, 1, 0, 0, value]) for value in (1, 0, 1)] + [b"\1\1\0\0\1"]
    groups = columns_of("std_msgs/msg/Bool", messages)
    assert [group.numbers("data")[:, 0].tolist() for group in groups if isinstance(group, Columns)] == [[1, 0, 1]]
    assert [group for group in groups if not isinstance(group, Columns)] == [(3, "they are not little-endian CDR")]


def test_a_type_is_what_the_bag_says_it_is() -> None:
    """Types change from distribution to distribution; a damaged definition is none."""
    kind = "std_msgs/msg/ColorRGBA"
    own = fields_for(kind, "ros2msg", "float64 r\nstd_msgs/String name")
    assert [field for field, _ in own[kind][1]] == ["r", "name"]
    assert [field for field, _ in own["std_msgs/msg/String"][1]] == ["data"]
    damaged = fields_for(kind, "ros2msg", "flo\0at64 [[r")
    assert [field for field, _ in damaged[kind][1]] == ["r", "g", "b", "a"]


def test_a_message_that_is_cut_is_reported_and_the_others_are_read() -> None:
    made = [joint_state(["hip"], seed)[1] for seed in range(3)]
    groups = columns_of("sensor_msgs/msg/JointState", [made[0], made[1][:-9], made[2]])
    assert [row for group in groups if isinstance(group, Columns) for row in group.rows.tolist()] == [0, 2]
    assert [group[0] for group in groups if not isinstance(group, Columns)] == [1]


@pytest.mark.parametrize("listed", [False, True], ids=["without metadata.yaml", "named in reverse"])
def test_files_are_read_by_their_numbers(write_bag, tmp_path, listed) -> None:
    """Sorted as texts, x_10 and x_11 would come before x_2."""
    (tmp_path / "x").mkdir()
    for number in range(12):
        (file,) = write_bag(seconds=0.6, edit=between(0.05 * number, 0.05 * number + 0.05)).glob("*.mcap")
        shutil.copy(file, tmp_path / "x" / f"x_{number}.mcap")
    if listed:
        names = ", ".join(f"x_{number}.mcap" for number in reversed(range(12)))
        (tmp_path / "x" / "metadata.yaml").write_text(
            f"rosbag2_bagfile_information: {{relative_file_paths: [{names}], compression_mode: ''}}\n"
        )
    whole = everything(open_bag(write_bag(seconds=0.6)))
    bag = open_bag(tmp_path / "x")
    assert everything(bag)["/imu/data"] == whole["/imu/data"]
    places = [place for batch in bag.batches(frozenset({"/imu/data"})) for place in batch.place.tolist()]
    assert places == sorted(set(places)) and len(places) == len(whole["/imu/data"])


def between(begin, end):
    """An edit: only the messages of this time [s]."""
    return lambda messages: [entry for entry in messages if begin <= entry[0] < end]
