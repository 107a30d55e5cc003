"""Bags as people have them: databases with a log, odd paths, other encodings and names, types without text, packed."""

import gzip
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zstandard
from made_bag import STORAGES, TYPES, channel, chunk, record, schema, sized, stamped
from mcap.writer import CompressionType, IndexType
from mcap.writer import Writer as McapWriter

from fcnet_core.errors import ReplayError
from fcnet_core.robot import load_robot
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.evaluation import evaluate_bag
from fcnet_replay.read_run import read_run
from fcnet_replay.topic_map import load_topic_map

KINDS = {"joint_states": "sensor_msgs/msg/JointState", "imu/data": "sensor_msgs/msg/Imu"}
COUNT = 20
ROOT = Path(__file__).parents[4]


def counts(bag) -> Counter[str]:
    found = Counter()
    for batch in bag.batches():
        found[batch.topic] += len(batch.size)
    return found


def reason(path: Path, **options) -> str:
    with pytest.raises(ReplayError) as refusal:
        evaluate_bag(path, robot_name="aliengo", **options)
    return str(refusal.value)


@pytest.fixture
def database(write_bag, tmp_path) -> Path:
    folder = tmp_path / "bag"
    shutil.copytree(write_bag(seconds=0.6, **STORAGES["sqlite3"]), folder)
    (file,) = folder.glob("*.db3")
    return file


@pytest.mark.parametrize("log", ["wal", "journal"])
def test_a_databases_log_is_merged_into_a_copy(database, tmp_path, log) -> None:
    """The recorder is killed: with a write-ahead log, half of its messages are there; with a journal, a transaction
    that was not committed has to be undone. A folder that may not be written is enough.
    """
    whole = counts(open_bag(database))
    code = f"""
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA journal_mode={"WAL" if log == "wal" else "DELETE"}")
database.execute("PRAGMA cache_size=2")
database.execute("BEGIN")
database.execute("UPDATE metadata SET metadata = 'custom_data: {{fcnet.robot: aliengo}}'")
for number in range(3000):
    database.execute("INSERT INTO messages(topic_id, timestamp, data) SELECT topic_id, timestamp, data FROM messages "
                     "WHERE id = 5")
if sys.argv[2] == "wal":
    database.execute("COMMIT")
os._exit(9)
"""
    subprocess.run([sys.executable, "-c", code, database, log], check=False)
    beside = {file.name: file.read_bytes() for file in database.parent.iterdir()}
    assert len(beside[f"{database.name}-{log}"]) > 1000
    database.parent.chmod(0o555)
    try:
        bag = open_bag(database)
        found = counts(bag)
    finally:
        database.parent.chmod(0o755)
    assert (found.total() - whole.total(), bag.notes.robot) == ((3000, "aliengo") if log == "wal" else (0, ""))
    assert {file.name: file.read_bytes() for file in database.parent.iterdir()} == beside


NOT_UTF8 = os.fsdecode(b"\xff")
ODD = ["run #3", "what?", "%41walk", "a b", "it's", '"x"', "ünï", "new\nline", "[a]*", "&mode=rw", NOT_UTF8, "y"]


@pytest.mark.parametrize("name", ODD)
def test_a_path_is_no_uri_and_no_pattern(database, tmp_path, name) -> None:
    folder = tmp_path / "odd" / name
    for part in ["z" * 200] * 3 if name == "y" else []:
        folder /= part
    shutil.copytree(database.parent, folder)
    before = sorted(map(str, (tmp_path / "odd").rglob("*")))
    assert counts(open_bag(folder)) == counts(open_bag(database))
    assert sorted(map(str, (tmp_path / "odd").rglob("*"))) == before


def test_a_report_of_a_bag_whose_name_is_no_text_is_written(write_bag, tmp_path) -> None:
    shutil.copytree(write_bag(seconds=0.6), tmp_path / NOT_UTF8)
    report, bag = tmp_path / "report.html", os.fsencode(tmp_path / NOT_UTF8)
    command = [sys.executable, "-m", "fcnet_core.cli", "replay", bag, "--robot", "aliengo", "--report", report]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert "Replay of" in report.read_text()


def mcap(path: Path, names=tuple(KINDS), encoding="cdr", **options) -> Path:
    """A file of COUNT messages a topic, of these names."""
    writer = McapWriter(str(path), **options)
    writer.start("ros2")
    for name, (topic, kind) in zip(names, KINDS.items(), strict=False):
        text = TYPES.generate_msgdef(kind, ros_version=2)[0].encode()
        number = writer.register_channel(name, encoding, writer.register_schema(kind, "ros2msg", text))
        for tick in range(COUNT):
            data = TYPES.serialize_cdr(stamped(topic, 0.01 * tick, {}), kind)
            writer.add_message(number, tick, bytes(data), tick)
    writer.finish()
    return path


@pytest.mark.parametrize(
    "options",
    [
        {"use_chunking": False},
        {"use_chunking": False, "index_types": IndexType.NONE, "use_statistics": False, "use_summary_offsets": False},
        {"enable_crcs": False, "compression": CompressionType.ZSTD},
        {"compression": CompressionType.LZ4, "index_types": IndexType.NONE, "repeat_schemas": False},
        {"compression": CompressionType.NONE, "chunk_size": 200},
    ],
    ids=["unchunked", "unchunked without summary", "no checksums", "lz4 without index", "small chunks"],
)
def test_every_finished_mcap_file_is_whole(tmp_path, options) -> None:
    bag = open_bag(mcap(tmp_path / "walk.mcap", **options))
    assert counts(bag) == {f"/{name}": COUNT for name in KINDS}
    assert bag.contents.problems == []


def test_chunks_after_records_outside_of_chunks_are_read(tmp_path) -> None:
    """Also an empty chunk, an attachment, and definitions outside of chunks before each chunk."""
    types, walks = schema(b"std_msgs/msg/Bool", b"bool data\n"), channel(b"walks")
    sent = b"".join(record(5, struct.pack("<HIQQ", 1, n, n, n) + b"\0\1\0\0\1") for n in range(3))
    attachment = record(9, struct.pack("<QQ", 0, 0) + sized(b"a") + sized(b"b") + struct.pack("<QI", 0, 0))
    parts = [types, walks, sent, chunk(sent, len(sent), b""), attachment, walks, chunk(b"", 0), sent]
    end = record(15, struct.pack("<I", 0)) + record(2, struct.pack("<QQI", 0, 0, 0))
    magic = b"\x89MCAP0\r\n"
    (tmp_path / "mixed.mcap").write_bytes(magic + b"".join(parts) + end + magic)
    bag = open_bag(tmp_path / "mixed.mcap")
    assert counts(bag) == {"/walks": 9}
    assert bag.contents.problems == []


@pytest.mark.parametrize("names", [("joint_states", "imu/data"), ("//joint_states", "/imu//data"), ("/joint_states/",)])
@pytest.mark.parametrize("kind", ["mcap", "sqlite3"])
def test_names_without_or_with_too_many_slashes_are_the_same_topics(database, tmp_path, kind, names) -> None:
    if kind == "mcap":
        path = mcap(tmp_path / "walk.mcap", names=names)
    else:
        path = database
        with sqlite3.connect(path) as opened:
            for name, topic in zip(names, KINDS, strict=False):
                opened.execute("UPDATE topics SET name = ? WHERE name = ?", (name, f"/{topic}"))
    assert counts(open_bag(path)).keys() >= {"/" + "/".join(filter(None, name.split("/"))) for name in names}


def test_a_namespace_is_found_and_the_option_that_takes_it_named(write_bag, tmp_path) -> None:
    bag = write_bag(seconds=0.6, namespace="/robots/dog")
    assert "--namespace /robots/dog" in reason(bag)
    assert evaluate_bag(bag, robot_name="aliengo", namespace="/robots/dog").figures["duration_s"] > 0.5
    assert "--namespace /;" in reason(write_bag(seconds=0.6), namespace="dog")


@pytest.mark.parametrize("encoding", ["ros1", "json", "protobuf", "cbor", ""])
def test_an_encoding_that_is_not_read_is_named(tmp_path, encoding) -> None:
    sentence = reason(mcap(tmp_path / "walk.mcap", names=("/joint_states", "/imu/data"), encoding=encoding))
    assert "/joint_states" in sentence and "CDR" in sentence
    assert ("ROS 1's encoding" if encoding == "ros1" else f"encoding {encoding!r}") in sentence


def test_an_encoding_in_a_database_is_named(database) -> None:
    with sqlite3.connect(database) as opened:
        opened.execute("UPDATE topics SET serialization_format = 'json'")
    assert "the encoding 'json'" in reason(database)


MAP = """
joint_states: {topic: state, position: motors, velocity: motors, effort: motors, joints: [a, b]}
imu/data: {topic: state, orientation: quaternion, angular_velocity: rate, linear_acceleration: rate}
"""


def test_a_type_that_nothing_describes_is_said_and_taken_from_a_sourced_workspace(tmp_path, monkeypatch) -> None:
    """700 messages, which is more than the structures that one topic may have."""
    (tmp_path / "map.yaml").write_text(MAP)
    with sqlite3.connect(tmp_path / "humble.db3") as opened:
        opened.execute("CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT, serialization_format TEXT)")
        opened.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, data BLOB)")
        opened.execute("INSERT INTO topics VALUES (1, '/state', 'my_robot/msg/State', 'cdr')")
        data = b"\0\1\0\0" + struct.pack("<2d3d4d", 1.0, 2.0, 0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 1.0)
        opened.executemany("INSERT INTO messages VALUES (?, 1, ?, ?)", [(n, n * 10**7, data) for n in range(1, 701)])
    with pytest.raises(ReplayError, match=r"700 messages.*my_robot/msg/State.*--storage mcap.*package my_robot"):
        read_run(open_bag(tmp_path / "humble.db3"), topic_map=load_topic_map(tmp_path / "map.yaml"))
    messages = tmp_path / "install" / "share" / "my_robot" / "msg"
    messages.mkdir(parents=True)
    (messages / "State.msg").write_text("float64[2] motors\nMeasured imu\n")
    (messages / "Measured.msg").write_text("float64[3] rate\nfloat64[4] quaternion\n")
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.pathsep.join(["/nonexistent", str(tmp_path / "install")]))
    (tmp_path / "map.yaml").write_text(MAP.replace("quaternion", "imu.quaternion").replace(": rate", ": imu.rate"))
    run = read_run(open_bag(tmp_path / "humble.db3"), topic_map=load_topic_map(tmp_path / "map.yaml"))
    assert run.joints.position.shape == (700, 2) and run.joints.position[5].tolist() == [1.0, 2.0]
    assert run.imu.angular_velocity[5].tolist() == [0.1, 0.2, 0.3]


def test_the_reason_for_a_folder_without_metadata_is_what_its_file_lacks(tmp_path) -> None:
    (tmp_path / "bag").mkdir()
    mcap(tmp_path / "bag" / "x.mcap", names=("/a/joint_states", "/b/imu"))
    sentence = reason(tmp_path / "bag")
    assert "it has /a/joint_states, /b/imu: " in sentence and "--topics" in sentence
    assert sentence.index("/a/joint_states") < sentence.index("metadata.yaml")


def test_files_of_several_bags_are_not_one_recording(write_bag, tmp_path) -> None:
    file = next(write_bag(seconds=0.6).glob("*.mcap"))
    for name in ("monday_0.mcap", "monday_1.mcap", "tuesday_0.mcap"):
        shutil.copy(file, tmp_path / name)
    assert "several bags (monday_1.mcap, tuesday_0.mcap)" in reason(tmp_path)
    (tmp_path / "tuesday_0.mcap").unlink()
    assert len(open_bag(tmp_path).files) == 2


def test_bags_in_the_folders_of_a_folder_are_named(write_bag, tmp_path) -> None:
    for name in ("walk1", "walk2"):
        shutil.copytree(write_bag(seconds=0.6), tmp_path / name)
    assert "it holds the bags walk1, walk2" in reason(tmp_path)


@pytest.mark.parametrize("name", ["walk.mcap.zst", "walk.db3.zstd"])
def test_a_file_packed_with_zstd_is_read(write_bag, tmp_path, name) -> None:
    kind = "mcap" if "mcap" in name else "sqlite3"
    (file,) = (path for path in write_bag(seconds=0.6, **STORAGES[kind]).iterdir() if path.suffix != ".yaml")
    (tmp_path / name).write_bytes(zstandard.compress(file.read_bytes()))
    assert counts(open_bag(tmp_path / name)) == counts(open_bag(file))


@pytest.mark.parametrize(
    "packer", ["gzip -k", "bzip2 -k", "xz -k", "python3 -m zipfile -c walk.zip", "tar -cf walk.tar"]
)
def test_a_packed_file_is_named_with_the_command_that_unpacks_it(tmp_path, packer) -> None:
    folder = tmp_path / "my bags"
    folder.mkdir()
    whole = mcap(folder / "walk.mcap")
    if shutil.which(packer.split()[0]) is None:
        pytest.skip(f"{packer.split()[0]} is not installed on this computer")
    subprocess.run([*packer.split(), whole.name], cwd=folder, check=True)
    whole.unlink()
    (packed,) = folder.iterdir()
    command = reason(packed).partition("unpack it (")[2].partition("), then")[0]
    assert command and command in reason(folder)
    subprocess.run(command, shell=True, cwd=folder, check=True)
    (plain,) = folder.rglob("*.mcap")
    assert counts(open_bag(plain)).total() == 2 * COUNT


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("walk.h5", b"\x89HDF\r\n\x1a\n0", "the kind h5"),
        ("walk.csv", b"t,q\n0,1\n", "the kind csv"),
        ("walk.npz", b"PK\x03\x04", "isaac_playback.launch.py"),
        ("walk", b"\x89MCAP0\r\n", "rename it to walk.mcap"),
        ("walk.mcap", b"SQLite format 3\0", "rename it to walk.mcap.db3"),
        ("walk.mcap", gzip.compress(b"x", mtime=0), "gzip -dc"),
        ("walk.mcap", b"hello", "at byte 0"),
        ("none", b"", "there is no bag at"),
        (".", b"", "holds no bag"),
    ],
)
def test_what_is_no_bag_is_said(tmp_path, name, content, words) -> None:
    if content:
        (tmp_path / name).write_bytes(content)
    assert words in reason(tmp_path / name)


def test_a_bag_that_grows_while_it_is_read_is_reported(database) -> None:
    bag = open_bag(database)
    for _ in bag.batches():
        os.utime(database)
    assert [problem.kind for problem in bag.contents.problems] == ["damaged"]


def test_the_documented_example_writes_a_bag_of_other_data(tmp_path, monkeypatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "replay.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    rows = np.zeros((100, 32))
    rows[:, 0], rows[:, 1:13], rows[:, 28] = 1.7e9 + 0.004 * np.arange(100), load_robot("aliengo").stand_pose, 1.0
    np.savetxt("walk.csv", rows, delimiter=",")
    exec(code, {})
    run = evaluate_bag(tmp_path / "walk", robot_name="aliengo").run
    assert run.joints.position.shape == (100, 12) and run.problems == ()
    np.testing.assert_allclose(run.imu.stamp, rows[:, 0], rtol=0, atol=1e-6)
