"""Bags as files: complete after every write, split, read by others."""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="the stand-in alone, without ROS from wheels, has no bags")
pytest.importorskip("ros2_standin.bag_writer", reason="its bag verbs need what the suite installs")

import mcap.reader
import yaml
from rclpy.serialization import serialize_message
from ros2_standin.bag_writer import COMPRESSIONS, BagWriter, RecordedTopic
from ros2_standin.interfaces import message_definition
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import Reader
from sensor_msgs.msg import JointState
from std_msgs.msg import String

START = 1_700_000_000_000_000_000  # [ns]
PERIOD = 10_000_000  # [ns]
KINDS = {"/joints": "sensor_msgs/msg/JointState", "/mode": "std_msgs/msg/String"}


def content(topic: str, number: int) -> bytes:
    values = [float(number)]
    joints = JointState(name=["hip"], position=values, velocity=values, effort=values)
    return serialize_message(joints if topic == "/joints" else String(data=f"{number}"))


def fill(bag: BagWriter, count: int, first: int = 0) -> None:
    stamps = [(number, START + number * PERIOD) for number in range(first, first + count)]
    bag.write((topic, stamp, stamp - 1000, content(topic, number)) for number, stamp in stamps for topic in KINDS)


@pytest.fixture
def new_bag(tmp_path) -> Callable[..., BagWriter]:
    def make(compression: str = "none", max_duration: int = 0, **custom: str) -> BagWriter:
        bag = BagWriter(tmp_path / compression, COMPRESSIONS[compression], max_duration, custom)
        for topic, kind in KINDS.items():
            definition, type_hash = message_definition(kind)
            bag.add_topic(RecordedTopic(topic, kind, type_hash, [], definition))
        return bag

    return make


def numbers(path: Path) -> list[float]:
    with AnyReader([path]) as reader:
        joints = [topic for topic in reader.connections if topic.topic == "/joints"]
        return [reader.deserialize(data, KINDS["/joints"]).position[0] for _, _, data in reader.messages(joints)]


def test_what_was_written_is_readable_while_the_recorder_still_writes_and_after_a_failed_write(new_bag):
    bag = new_bag()
    fill(bag, 10)
    before, (file,) = resource.getrlimit(resource.RLIMIT_FSIZE), bag.folder.glob("*.mcap")
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 5000, before[1]))
    try:
        with pytest.raises(OSError):
            fill(bag, 1000, first=10)
        assert numbers(bag.folder) == list(range(10))
        with Reader(bag.folder) as reader:
            assert (reader.message_count, reader.start_time, reader.duration) == (20, START, 9 * PERIOD + 1)
        bag.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert numbers(bag.folder) == list(range(10))


def test_a_bag_is_split_by_time(new_bag):
    for name in COMPRESSIONS:
        bag = new_bag(name, max_duration=50 * PERIOD)
        fill(bag, 200)
        bag.close()
        information = yaml.safe_load((bag.folder / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
        files, paths = information["files"], information["relative_file_paths"]
        assert len(files) > 2
        assert [file["path"] for file in files] == paths == [f"{name}_{n}.mcap" for n in range(len(files))]
        assert sum(file["message_count"] for file in files) == information["message_count"] == 400
        assert numbers(bag.folder) == list(range(200))
        assert [number for path in paths for number in numbers(bag.folder / path)] == list(range(200))
        assert all(file["duration"]["nanoseconds"] <= 50 * PERIOD for file in files)


def test_the_official_reader_takes_the_files(new_bag):
    for name in ("none", "zstd_fast"):
        bag = new_bag(name)
        fill(bag, 100)
        fill(bag, 100, first=100)
        bag.close()
        with next(bag.folder.glob("*.mcap")).open("rb") as file:
            reader = mcap.reader.make_reader(file, validate_crcs=True)
            found = [
                (message.log_time - START, message.log_time - message.publish_time)
                for _, channel, message in reader.iter_messages()
                if channel.topic == "/joints"
            ]
            assert found == [(number * PERIOD, 1000) for number in range(200)]
            assert reader.get_header().profile == "ros2"
            described = [yaml.safe_load(record.metadata["serialized_metadata"]) for record in reader.iter_metadata()]
            assert reader.get_summary().statistics.metadata_count == 2
            # A distribution's ros2 bag reads one after the other; the last one stays.
            assert [(facts["version"], facts["message_count"]) for facts in described] == [(9, 0), (9, 400)]


def test_a_file_can_be_read_and_holds_the_custom_data_of_its_bag_from_its_first_byte_on(new_bag):
    given = {"robot": "a1", "git": "1=2: ä"}
    bag = new_bag(**given)
    (path,) = bag.folder.glob("*.mcap")
    with Reader(path) as reader:
        assert reader.message_count == 0
    fill(bag, 10)
    with path.open("rb") as file:
        (record,) = mcap.reader.make_reader(file, validate_crcs=True).iter_metadata()
    assert yaml.safe_load(record.metadata["serialized_metadata"])["custom_data"] == given
    assert numbers(path) == list(range(10))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("-a", "-o", "{bag}"), 1, "output folder '{bag}' already exists"),
        (("-a", "-o", "{bag}/metadata.yaml/x"), 1, "cannot create the bag '{bag}/metadata.yaml/x': Not a directory"),
        (("-o", "x"), 1, "no topics to record"),
        (("-a", "--storage", "sqlite3"), 2, "invalid choice: 'sqlite3'"),
        (("-a", "--custom-data", "model"), 2, "'model' is not KEY=VALUE"),
        (("-a", "--services", "/x"), 2, "unrecognized arguments: --services"),
    ],
)
def test_a_recording_that_cannot_be_made_or_is_unknown_is_refused(here, tmp_path, arguments, code, words):
    bag = tmp_path / "bag"
    bag.mkdir()
    (bag / "metadata.yaml").touch()
    returned, output = here("bag", "record", *(argument.format(bag=bag) for argument in arguments))
    assert (returned, words.format(bag=bag) in output) == (code, True), output
