"""Bags of every kind that rosbag2 writes are read alike; others give a sentence or a partial report, no traceback, hang
or full memory.
"""

import json
import resource
import shutil
import sqlite3
import struct
import tempfile
import time
from contextlib import closing
from pathlib import Path
from random import Random

import numpy as np
import pytest
import yaml
import zstandard
from damage import DAMAGES, insert_word
from made_bag import STORAGES, TYPES, channel, chunk, codes, message, record, schema, sized
from rosbags.rosbag2 import CompressionMode, Reader

from fcnet_core.errors import ReplayError
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.bags.message_columns import ColumnDecoder, Columns, fields_for
from fcnet_replay.evaluation import evaluate_bag
from fcnet_replay.recording_notes import read_notes
from fcnet_replay.report.findings import summary
from fcnet_replay.report.page import page

PATIENCE = 30.0  # [s] for one bag on a machine that does much else; they take a tenth of one


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


@pytest.mark.parametrize("kind", ["mcap", "sqlite3", "sqlite3, compressed messages"])
def test_a_killed_recording_without_metadata_is_read_with_its_notes_and_reported(write_bag, tmp_path, kind) -> None:
    noted = {"fcnet.robot": "aliengo", "fcnet.git_revision": "ä: [1, *x]"}
    shutil.copytree(write_bag(seconds=0.6, custom=noted, **STORAGES[kind]), tmp_path / "bag")
    (tmp_path / "bag" / "metadata.yaml").unlink()
    bag = open_bag(tmp_path / "bag")
    assert len(everything(bag)["/joint_states"]) == 150
    assert [problem.kind for problem in bag.contents.problems] == ["no_metadata"]
    (file,) = (tmp_path / "bag").iterdir()
    assert open_bag(file).notes == bag.notes == read_notes(noted)


def described(text: str) -> bytes:
    """A record of metadata as rosbag2 writes it into mcap files."""
    entry = sized(b"serialized_metadata") + sized(text.encode())
    return record(12, sized(b"rosbag2") + sized(entry))


def test_what_the_recorder_noted_is_found_when_it_was_killed(write_bag, tmp_path) -> None:
    """Recorders write it at the beginning too; the last that can be read counts."""
    (whole,) = write_bag(seconds=0.6).glob("*.mcap")
    content = whole.read_bytes()
    begin = 8 + 9 + struct.unpack_from("<Q", content, 9)[0]
    records = [described(f"custom_data: {{fcnet.robot: {robot}}}") for robot in ("a1", "aliengo")]
    file = tmp_path / "killed.mcap"
    file.write_bytes(content[:begin] + b"".join(records) + content[begin : len(content) // 2])
    assert open_bag(file).notes.robot == "aliengo"
    for damage in (described("custom_data: [[["), described("3"), records[0][:9] + b"\xff" * 40):
        file.write_bytes(content[:begin] + records[0] + damage + records[0][:-3])
        assert open_bag(file).notes.robot == "a1"


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


CUT = [joint_state(["hip"], seed)[1] for seed in range(3)]
CUT[1] = CUT[1][:-9]
SHORT = [bytes([0, 1, 0, 0, value]) for value in (1, 0, 1)] + [b"\1\1\0\0\1"]


@pytest.mark.parametrize(
    ("kind", "messages", "left_out"),
    [("sensor_msgs/msg/JointState", CUT, [1]), ("std_msgs/msg/Bool", SHORT, [3])],
    ids=["cut", "shorter than a number of eight bytes, one in the other byte order"],
)
def test_messages_that_cannot_be_read_are_reported_and_the_others_read(kind, messages, left_out) -> None:
    groups = columns_of(kind, messages)
    rows = [row for group in groups if isinstance(group, Columns) for row in group.rows.tolist()]
    assert rows == [row for row in range(len(messages)) if row not in left_out]
    assert [group[0] for group in groups if not isinstance(group, Columns)] == left_out


def test_a_type_is_what_the_bag_says_it_is() -> None:
    """Types change from distribution to distribution; a damaged definition is none."""
    kind = "std_msgs/msg/ColorRGBA"
    own = fields_for(kind, "ros2msg", "float64 r\nstd_msgs/String name")
    assert [field for field, _ in own[kind][1]] == ["r", "name"]
    assert [field for field, _ in own["std_msgs/msg/String"][1]] == ["data"]
    damaged = fields_for(kind, "ros2msg", "flo\0at64 [[r")
    assert [field for field, _ in damaged[kind][1]] == ["r", "g", "b", "a"]


@pytest.mark.parametrize("listed", [False, True], ids=["without metadata.yaml", "named in reverse"])
def test_files_are_read_by_their_numbers(write_bag, tmp_path, listed) -> None:
    """Sorted as texts, x_10 and x_11 would come before x_2."""

    def between(number):
        return lambda messages: [entry for entry in messages if number <= 20 * entry[0] < number + 1]

    (tmp_path / "x").mkdir()
    for number in range(12):
        (file,) = write_bag(seconds=0.6, edit=between(number)).glob("*.mcap")
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


# Damaged and hostile bags.


def report(bag: Path) -> str:
    """The whole report, or the sentence that refuses the bag, without delay."""
    began = time.monotonic()
    try:
        evaluation = evaluate_bag(bag, robot_name="aliengo")
    except ReplayError as error:
        assert str(bag) in str(error) and time.monotonic() - began < PATIENCE
        return f"refused: {error}"
    json.dumps(evaluation.figures, allow_nan=False)
    page(evaluation)
    assert time.monotonic() - began < PATIENCE
    return summary(evaluation)


def damaged_copy(bag: Path, folder: Path, seed: int) -> None:
    """Copy the bag to `folder` with one kind of damage, the same for the same seed."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(bag, folder)
    random = Random(seed)
    file = random.choice(sorted(path for path in folder.iterdir() if path.name != "metadata.yaml"))
    damage = random.choice(DAMAGES)
    if random.random() < 0.15:
        file, damage = folder / "metadata.yaml", insert_word
    file.write_bytes(damage(bytearray(file.read_bytes()), random))


@pytest.mark.parametrize("kind", STORAGES)
def test_damaged_bags_are_refused_or_reported_in_part(write_bag, tmp_path_factory, kind) -> None:
    folder = tmp_path_factory.mktemp("bags")  # no word of it may be one that the report is searched for
    bag = write_bag(seconds=0.6, **STORAGES[kind])
    whole = report(bag)
    assert "refused" not in whole and "damaged" not in whole
    noticed = 0
    for seed in range(50):
        damaged_copy(bag, folder / "bag", seed)
        text = report(folder / "bag")
        noticed += "refused" in text or "damaged" in text or "left out" in text
    assert noticed > 15  # bits flipped within a number are not seen where a storage has no checksums


def bag_of(folder: Path, records: bytes) -> Path:
    (folder / "walk.mcap").write_bytes(b"\x89MCAP0\r\n" + records)
    return folder


HOSTILE_MCAP = {
    "nothing": b"",
    "a length beyond any file": record(6, b"", length=2**64 - 1),
    "a chunk that claims 2^63 bytes": chunk(b"\0" * 100, 2**63),
    "a bomb": chunk(zstandard.compress(b"\0" * 2**28), 2**28),
    "a bomb that lies about its size": chunk(zstandard.compress(b"\0" * 2**28), 1000),
    "many bombs of empty records": chunk(zstandard.compress(record(15, b"") * 2**20), 9 * 2**20) * 8,
    "an unknown compression": chunk(b"123", 3, b"rot13"),
    "a message of no channel": record(5, struct.pack("<HIQQ", 7, 0, 0, 0)),
    "a message that is too short": record(5, b"\0" * 5),
    "a channel of texts without end": record(4, struct.pack("<HHI", 1, 1, 2**32 - 1) + b"\0" * 20),
    "a schema of no text": record(3, struct.pack("<HI", 1, 5) + b"\xff" * 20),
    "a chunk in a chunk": chunk(zstandard.compress(chunk(b"", 0)), len(chunk(b"", 0))),
}


@pytest.mark.parametrize("what", HOSTILE_MCAP)
def test_hostile_mcap_files_are_refused_with_file_and_offset(tmp_path, what) -> None:
    text = report(bag_of(tmp_path, HOSTILE_MCAP[what]))
    assert text.startswith("refused")
    assert "damaged at byte" in text


def joint_states_of(folder: Path, text: bytes, message: bytes, kind: bytes = b"sensor_msgs/msg/JointState") -> Path:
    sent = record(5, struct.pack("<HIQQ", 1, 0, 0, 0) + message)
    return bag_of(folder, schema(kind, text) + channel(b"/joint_states") + sent)


@pytest.mark.parametrize(
    "text",
    [
        b"x/Joint[] joint\n" + b"=" * 80 + b"\nMSG: x/Joint\nx/Joint[] joint\n",
        b"x/Joint joint\n" + b"=" * 80 + b"\nMSG: x/Joint\nx/Joint joint\n",
        b"float64[1000000000] position",
        b"x/Joint[1000000000] joint\n" + b"=" * 80 + b"\nMSG: x/Joint\nbool[0] nothing\n",
        b"float64[] position; import os; os.system('false')",
        b"'''\nfloat64 x\n" * 1000,
        b"[" * 5000,
    ],
    ids=["endless", "endless within itself", "a large array", "many of nothing", "code", "quotes", "brackets"],
)
def test_types_that_a_bag_defines_cannot_do_harm(tmp_path, text) -> None:
    bag = joint_states_of(tmp_path, text, b"\0\1\0\0" + b"\1\0\0\0" * 100, kind=b"evil/msg/State")
    assert report(bag).startswith("refused")


@pytest.mark.parametrize("count", [2**32 - 1, 200, 50])
def test_counts_beyond_the_message_are_reported(tmp_path, count) -> None:
    message = b"\0\1\0\0" + struct.pack("<IIII", 1, 0, 1, 0) + struct.pack("<I", count) + b"\0" * 60
    text = report(joint_states_of(tmp_path, b"", message))
    assert "left out" in text or "damaged" in text


TOPICS = "CREATE TABLE topics(id, name, type, serialization_format);"
TABLES = f"{TOPICS} CREATE TABLE messages(id, topic_id, timestamp, data);"
HOSTILE_SQL = {
    "no tables": "CREATE TABLE other(id INTEGER)",
    "a view without end": (
        TOPICS + "CREATE VIEW messages AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        " SELECT i AS id, 1 AS topic_id, i AS timestamp, x'00' AS data FROM n"
    ),
    "odd types": (
        TABLES + "INSERT INTO topics VALUES (1.5, x'00ff', 7, 'cdr'), ('a', NULL, NULL, 'cdr'),"
        "(1, '/joint_states', 3, 'cdr');"
        "INSERT INTO messages VALUES (1, 1, 'soon', 'text'), (2, 1, 5, 3.5), (3, 1, 5, NULL), (4, 1, 5, x'00'),"
        "(5, 1, 9223372036854775807, x'0001')"
    ),
    "texts that are none": (
        TABLES + "INSERT INTO topics VALUES (1, CAST(x'ff2f' AS TEXT), 'sensor_msgs/msg/JointState', 'cdr')"
    ),
    "large blobs": (
        TABLES + "INSERT INTO topics VALUES (1, '/joint_states', 'sensor_msgs/msg/JointState', 'cdr');"
        "INSERT INTO messages VALUES (1, 1, 1, zeroblob(300000000))"
    ),
}


@pytest.mark.parametrize("what", HOSTILE_SQL)
def test_hostile_databases_are_refused(tmp_path, what) -> None:
    with closing(sqlite3.connect(tmp_path / "walk.db3")) as database:
        database.executescript(HOSTILE_SQL[what])
    assert report(tmp_path / "walk.db3").startswith("refused")


HOSTILE_METADATA = {
    "an object": "rosbag2_bagfile_information: !!python/object/apply:os.system ['touch /tmp/harmed']",
    "laughter": "a: &a [x, x, x, x, x, x, x, x]\n"
    + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 8)}]\n" for i in range(12))
    + "rosbag2_bagfile_information: {relative_file_paths: [walk.mcap], custom_data: {fcnet.robot: *m}}",
    "itself": "rosbag2_bagfile_information: &r {relative_file_paths: &l [*l], custom_data: *r}",
    "depth": "rosbag2_bagfile_information: " + "[" * 20_000,
    "size": "x: " + "y" * 10**6,
    "another place": "rosbag2_bagfile_information: {relative_file_paths: [../../../etc/passwd]}",
    "no text": "\x00\x01\x02",
    "a number": "rosbag2_bagfile_information: 7",
    "a long number": "rosbag2_bagfile_information: {relative_file_paths: " + "9" * 100_000 + "}",
}


@pytest.mark.parametrize("what", HOSTILE_METADATA)
def test_hostile_metadata_leaves_the_bag_readable(write_bag, tmp_path, what) -> None:
    shutil.copy(next(write_bag(seconds=0.6).glob("*.mcap")), tmp_path / "walk.mcap")
    (tmp_path / "metadata.yaml").write_text(HOSTILE_METADATA[what])
    text = report(tmp_path)
    assert "Policy A reproduces every one of the 29 recorded targets" in text
    assert what == "laughter" or "metadata.yaml" in text
    assert not Path("/tmp/harmed").exists()


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_bag_names_its_robot_and_not_a_file_and_a_noted_number_that_is_not_finite_is_none(number):
    assert [read_notes({"fcnet.robot": noted}).robot for noted in ("a1", "../../secret.yaml")] == ["a1", ""]
    notes = read_notes({"fcnet.parameters": f'{{"control_rate": {number}, "list": [{number}], "runtime": "numpy"}}'})
    assert (notes.parameters, notes.control_rate) == ({"control_rate": None, "list": [None], "runtime": "numpy"}, None)


def test_a_truncated_bag_says_where_it_ends_and_evaluates_the_rest(write_bag, tmp_path) -> None:
    content = next(write_bag(seconds=4.0, compression=CompressionMode.STORAGE).glob("*.mcap")).read_bytes()
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(content[: len(content) * 2 // 3])
    evaluation = evaluate_bag(cut, robot_name="aliengo")
    (problem,), error = evaluation.figures["problems"], evaluation.figures["policies"]["A"]["action_error_rad"]
    assert f"{cut} is damaged at byte " in problem and codes(evaluation)["damaged"] == "bad"
    assert error["agrees"] and 20 < error["steps"] < 199


@pytest.mark.parametrize(
    "names",
    [["walk.mcap", "second.mcap"], ["walk.mcap"] * 20_000, ["walk.mcap", "again.mcap"]],
    ids=["missing", "named 20,000 times", "linked"],
)
def test_a_bag_whose_metadata_name_other_files_is_read_once_as_far_as_it_is_there(write_bag, tmp_path, names) -> None:
    shutil.copy(next(write_bag(seconds=0.6).glob("*.mcap")), tmp_path / "walk.mcap")
    (tmp_path / "again.mcap").symlink_to(tmp_path / "walk.mcap")
    facts = {"rosbag2_bagfile_information": {"relative_file_paths": names, "compression_mode": ""}}
    (tmp_path / "metadata.yaml").write_text(yaml.safe_dump(facts))
    opened = open_bag(tmp_path)
    assert len(opened.files) == 1 and opened.contents.problems[0].kind == "no_metadata"
    assert ("second.mcap is missing" in opened.contents.problems[0].sentence) == ("second.mcap" in names)
    assert "Policy A reproduces every one of the 29" in report(tmp_path)


@pytest.mark.parametrize("name", ["walk.mcap", "walk.db3", "walk.mcap.zstd", "walk.db3.zstd"])
def test_a_link_to_a_special_file_does_not_hold_the_reader_up(tmp_path, name) -> None:
    """/proc/kmsg is a regular file of no size, and reading it may wait for the kernel's next message."""
    (tmp_path / name).symlink_to("/proc/kmsg")
    assert "no ordinary file" in report(tmp_path / name)
    (tmp_path / "metadata.yaml").symlink_to("/proc/kmsg")
    assert "no ordinary file" in report(tmp_path)


def test_a_full_temporary_folder_is_named_and_not_the_output(write_bag) -> None:
    bag = write_bag(seconds=0.6, **STORAGES["sqlite3, compressed file"])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        sentence = report(bag)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert all(name in sentence for name in (tempfile.gettempdir(), "TMPDIR", next(bag.glob("*.zstd")).name))


def test_a_compressed_file_that_unpacks_to_more_than_any_bag_is_refused(write_bag, monkeypatch) -> None:
    monkeypatch.setattr("fcnet_replay.bags.bag.LARGEST_FILE", 1000)
    assert report(write_bag(seconds=0.6, **STORAGES["sqlite3, compressed file"])).startswith("refused")
