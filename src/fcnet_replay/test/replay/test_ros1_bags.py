"""A ROS 1 bag holds the same run as a ROS 2 bag."""

from __future__ import annotations

import bz2
from pathlib import Path

import numpy as np
import pytest
from rosbags.convert.converter import convert
from rosbags.rosbag1 import Reader
from rosbags.rosbag2 import CompressionMode

from fcnet_core.errors import ReplayError
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.evaluation import evaluate_bag
from fcnet_replay.read_run import read_run


def as_ros1(bag: Path, path: Path, compression: str | None = None) -> Path:
    convert([bag], path, "", 0, compression, "storage", None, None, (), (), (), ())
    return path


@pytest.fixture(scope="module")
def ros2(write_bag) -> Path:
    return write_bag(seconds=0.6)


@pytest.fixture(scope="module")
def ros1(ros2, tmp_path_factory) -> Path:
    return as_ros1(ros2, tmp_path_factory.mktemp("ros1") / "walk.bag")


@pytest.mark.parametrize("kind", ["none", "lz4", "bz2"])
def test_a_ros1_bag_holds_the_same_run(ros2, ros1, tmp_path, kind) -> None:
    path = ros1 if kind == "none" else as_ros1(ros2, tmp_path / "walk.bag", kind)
    ours, theirs = read_run(open_bag(ros2)), read_run(open_bag(path))
    assert theirs.problems == ()
    for record in ("joints", "imu", "targets", "odometry", "steps"):
        for name, values in vars(getattr(ours, record)).items():
            np.testing.assert_array_equal(getattr(getattr(theirs, record), name), values, err_msg=f"{record}.{name}")
    assert theirs.mode.modes == ours.mode.modes
    figures = evaluate_bag(path, robot_name="aliengo").figures["policies"]["A"]["action_error_rad"]
    assert (figures["steps"], figures["agrees"]) == (29, True)


def test_an_unfinished_ros1_bag_is_refused(ros1, tmp_path) -> None:
    (tmp_path / "cut.bag").write_bytes(ros1.read_bytes()[:-3000])
    with pytest.raises(ReplayError, match=r"cut\.bag is damaged at byte 0"):
        read_run(open_bag(tmp_path / "cut.bag"))


def test_messages_before_a_damaged_chunk_of_a_ros1_bag_are_read(write_bag, tmp_path) -> None:
    path = as_ros1(write_bag(seconds=4.0, compression=CompressionMode.STORAGE), tmp_path / "walk.bag", "lz4")
    with Reader(path) as reader:
        chunks, count = list(reader.chunks.values()), reader.message_count
    content = bytearray(path.read_bytes())
    content[chunks[-1].datapos + 20 : chunks[-1].datapos + 60] = b"\xff" * 40
    path.write_bytes(content)
    bag = open_bag(path)
    assert 0 < sum(len(batch.size) for batch in bag.batches()) < count
    assert [problem.kind for problem in bag.contents.problems] == ["damaged"]


def test_a_bomb_in_a_ros1_bag_does_not_fill_the_memory(ros2, tmp_path) -> None:
    """A compressed chunk is replaced by one of the same length that unpacks to half a gigabyte of zeros."""
    path = as_ros1(ros2, tmp_path / "walk.bag", "bz2")
    with Reader(path) as reader:
        chunk = next(iter(reader.chunks.values()))
    bomb = bz2.compress(b"\0" * 2**29)
    content = bytearray(path.read_bytes())
    content[chunk.datapos : chunk.datapos + chunk.datasize] = bomb.ljust(chunk.datasize, b"\0")[: chunk.datasize]
    path.write_bytes(content)
    bag = open_bag(path)
    assert list(bag.batches()) == []
    assert [problem.kind for problem in bag.contents.problems] == ["damaged"]
