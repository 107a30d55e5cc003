"""Whatever a bag holds: a sentence or a partial report, never a traceback, a hang or a full memory."""

import json
import resource
import shutil
import sqlite3
import struct
import tempfile
import time
from pathlib import Path
from random import Random

import pytest
import yaml
import zstandard
from damage import DAMAGES, insert_word
from made_bag import STORAGES
from rosbags.rosbag2 import CompressionMode

from fcnet_core.errors import ReplayError
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.evaluation import evaluate_bag
from fcnet_replay.recording_notes import read_notes
from fcnet_replay.report.findings import findings, summary
from fcnet_replay.report.page import page

MAGIC = b"\x89MCAP0\r\n"
PATIENCE = 30.0  # [s] for one bag on a machine that does much else; they take a tenth of one


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
    folder = tmp_path_factory.mktemp("bags")  # no word of it may be one of those that the report is searched for
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
    folder.mkdir(exist_ok=True)
    (folder / "walk.mcap").write_bytes(MAGIC + records)
    return folder


def record(operation: int, content: bytes, length: int | None = None) -> bytes:
    return struct.pack("<BQ", operation, len(content) if length is None else length) + content


def chunk(packed: bytes, size: int, compression: bytes = b"zstd") -> bytes:
    head = struct.pack("<QQQI", 0, 0, size, 0) + struct.pack("<I", len(compression)) + compression
    return record(6, head + struct.pack("<Q", len(packed)) + packed)


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
    text = report(bag_of(tmp_path / "bag", HOSTILE_MCAP[what]))
    assert text.startswith("refused")
    assert "damaged at byte" in text


def joint_states_of(folder: Path, schema: bytes, message: bytes, kind: bytes = b"sensor_msgs/msg/JointState") -> Path:
    def text(content: bytes) -> bytes:
        return struct.pack("<I", len(content)) + content

    channel = struct.pack("<HH", 1, 1) + text(b"/joint_states") + text(b"cdr") + text(b"")
    records = record(3, struct.pack("<H", 1) + text(kind) + text(b"ros2msg") + text(schema)) + record(4, channel)
    return bag_of(folder, records + record(5, struct.pack("<HIQQ", 1, 0, 0, 0) + message))


@pytest.mark.parametrize(
    "schema",
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
def test_types_that_a_bag_defines_cannot_do_harm(tmp_path, schema) -> None:
    bag = joint_states_of(tmp_path / "bag", schema, b"\0\1\0\0" + b"\1\0\0\0" * 100, kind=b"evil/msg/State")
    assert report(bag).startswith("refused")


@pytest.mark.parametrize("count", [2**32 - 1, 200, 50])
def test_counts_beyond_the_message_are_reported(tmp_path, count) -> None:
    message = b"\0\1\0\0" + struct.pack("<IIII", 1, 0, 1, 0) + struct.pack("<I", count) + b"\0" * 60
    text = report(joint_states_of(tmp_path / "bag", b"", message))
    assert "left out" in text or "damaged" in text


TABLES = (
    "CREATE TABLE topics(id, name, type, serialization_format);CREATE TABLE messages(id, topic_id, timestamp, data);"
)
HOSTILE_SQL = {
    "no tables": "CREATE TABLE other(id INTEGER)",
    "a view without end": (
        "CREATE TABLE topics(id INTEGER, name TEXT, type TEXT, serialization_format TEXT);"
        "CREATE VIEW messages AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
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
    database = sqlite3.connect(tmp_path / "walk.db3")
    database.executescript(HOSTILE_SQL[what])
    database.commit()
    database.close()
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
    bag = tmp_path / "bag"
    bag.mkdir()
    (bag / "walk.mcap").write_bytes(next(write_bag(seconds=0.6).glob("*.mcap")).read_bytes())
    (bag / "metadata.yaml").write_text(HOSTILE_METADATA[what])
    text = report(bag)
    assert "Policy A reproduces every one of the 29 recorded targets" in text
    assert what == "laughter" or "metadata.yaml" in text
    assert not Path("/tmp/harmed").exists()


@pytest.mark.parametrize(("noted", "robot"), [("a1", "a1"), ("../../secret.yaml", "")])
def test_a_bag_names_its_robot_and_not_a_file(noted, robot) -> None:
    assert read_notes({"fcnet.robot": noted}).robot == robot


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_noted_number_that_is_not_finite_is_none_so_that_a_report_can_be_written(number):
    notes = read_notes({"fcnet.parameters": f'{{"control_rate": {number}, "list": [{number}], "runtime": "numpy"}}'})
    assert (notes.parameters, notes.control_rate) == ({"control_rate": None, "list": [None], "runtime": "numpy"}, None)


def test_a_truncated_bag_says_where_it_ends_and_evaluates_the_rest(write_bag, tmp_path) -> None:
    content = next(write_bag(seconds=4.0, compression=CompressionMode.STORAGE).glob("*.mcap")).read_bytes()
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(content[: len(content) * 2 // 3])
    evaluation = evaluate_bag(cut, robot_name="aliengo")
    (problem,) = evaluation.figures["problems"]
    assert f"{cut} is damaged at byte " in problem
    assert evaluation.figures["policies"]["A"]["action_error_rad"]["agrees"]
    assert 20 < evaluation.figures["policies"]["A"]["action_error_rad"]["steps"] < 199
    assert ("bad", "damaged") in [(finding.level, finding.code) for finding in findings(evaluation)]


def copied(bag: Path, folder: Path, *names: str) -> Path:
    """A bag of the file walk.mcap, whose metadata names these files."""
    folder.mkdir()
    facts = yaml.safe_load((bag / "metadata.yaml").read_text())
    facts["rosbag2_bagfile_information"]["relative_file_paths"] = list(names)
    (folder / "metadata.yaml").write_text(yaml.safe_dump(facts))
    (folder / "walk.mcap").write_bytes(next(bag.glob("*.mcap")).read_bytes())
    return folder


@pytest.mark.parametrize(
    "names",
    [["walk.mcap", "second.mcap"], ["walk.mcap"] * 20_000, ["walk.mcap", "again.mcap"]],
    ids=["missing", "named 20,000 times", "linked"],
)
def test_a_bag_whose_metadata_name_other_files_is_read_once_as_far_as_it_is_there(write_bag, tmp_path, names) -> None:
    bag = copied(write_bag(seconds=0.6), tmp_path / "bag", *names)
    (bag / "again.mcap").symlink_to(bag / "walk.mcap")
    opened = open_bag(bag)
    assert len(opened.files) == 1 and opened.contents.problems[0].kind == "no_metadata"
    assert ("second.mcap is missing" in opened.contents.problems[0].sentence) == ("second.mcap" in names)
    assert "Policy A reproduces every one of the 29" in report(bag)


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
