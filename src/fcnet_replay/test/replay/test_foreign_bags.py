"""Bags of others: a topic map gives topics, types, joint names and orders; ROS 1; other robots and rates."""

import bz2
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from damage import read_damaged
from made_bag import MadeBag, stood_before
from msgspec import structs
from page_reader import PageReader
from rosbags.convert.converter import convert
from rosbags.rosbag1 import Reader
from rosbags.rosbag2 import CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from fcnet_core.errors import FcnetError, ReplayError
from fcnet_core.learning.dataset import Dataset
from fcnet_core.model_file import save_model
from fcnet_core.robot import load_robot
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.datasets.from_bag import BagReading, dataset_from_bags
from fcnet_replay.evaluation import evaluate_bag
from fcnet_replay.policy_replay import extract_steps
from fcnet_replay.read_run import read_run
from fcnet_replay.report.page import page
from fcnet_replay.run import NO_STEPS
from fcnet_replay.topic_map import load_topic_map

JOINTS = load_robot("aliengo").joint_names

MAPS = Path(__file__).parents[4] / "config" / "bags"
STATE = """uint8[2] head
IMUState imu_state
MotorState[20] motor_state
uint32 tick
================================================================================
MSG: unitree_go/IMUState
float32[4] quaternion
float32[3] gyroscope
float32[3] accelerometer
int8 temperature
================================================================================
MSG: unitree_go/MotorState
uint8 mode
float32 q
float32 dq
float32 tau_est
"""
COMMAND = """MotorCmd[20] motor_cmd
================================================================================
MSG: unitree_go/MotorCmd
uint8 mode
float32 q
float32 kp
"""
POSE = load_robot("aliengo").stand_pose
TILT = 0.25


@pytest.fixture(params=[StoragePlugin.MCAP, StoragePlugin.SQLITE3], ids=["mcap", "sqlite3"])
def go2(tmp_path, request):
    """Two seconds of a robot that stands, at 200 Hz, with targets at 100 Hz, tilted by TILT around x."""
    types = get_typestore(Stores.ROS2_JAZZY)
    types.register(get_types_from_msg(STATE, "unitree_go/msg/LowState"))
    types.register(get_types_from_msg(COMMAND, "unitree_go/msg/LowCmd"))
    motor, command = types.types["unitree_go/msg/MotorState"], types.types["unitree_go/msg/MotorCmd"]
    quaternion = np.array([np.cos(TILT / 2), np.sin(TILT / 2), 0, 0], dtype=np.float32)
    zero = np.zeros(3, dtype=np.float32)
    imu = types.types["unitree_go/msg/IMUState"](quaternion, zero + np.float32(0.5), zero, 30)
    with Writer(tmp_path / "go2", version=9, storage_plugin=request.param) as writer:
        state = writer.add_connection("/lowstate", "unitree_go/msg/LowState", typestore=types)
        sent = writer.add_connection("/lowcmd", "unitree_go/msg/LowCmd", typestore=types)
        for tick in range(400):
            time = 1_700_000_000_000_000_000 + tick * 5_000_000
            motors = [motor(1, float(q), index / 64, 2.5) for index, q in enumerate([*POSE, *[9.0] * 8])]
            message = types.types["unitree_go/msg/LowState"](np.zeros(2, dtype=np.uint8), imu, motors, tick)
            writer.write(state, time, types.serialize_cdr(message, "unitree_go/msg/LowState"))
            if tick % 2:
                motors = [command(1, float(q) + 0.01, 0.0 if tick < 100 else 40.0) for q in [*POSE, *[9.0] * 8]]
                message = types.types["unitree_go/msg/LowCmd"](motors)
                writer.write(sent, time, types.serialize_cdr(message, "unitree_go/msg/LowCmd"))
    return tmp_path / "go2"


def test_a_go2_bag_is_read_through_its_map(go2) -> None:
    run = read_run(open_bag(go2), topic_map=load_topic_map(MAPS / "go2.yaml"))
    assert run.joints.position.shape == (400, 12)
    np.testing.assert_allclose(run.joints.position[7], POSE, atol=1e-6)
    np.testing.assert_allclose(run.joints.velocity[7], np.arange(12) / 64)
    np.testing.assert_allclose(run.joints.effort[7], 2.5)
    np.testing.assert_allclose(run.imu.orientation[7], [np.sin(TILT / 2), 0, 0, np.cos(TILT / 2)], atol=1e-6)
    np.testing.assert_allclose(run.imu.angular_velocity[7], 0.5)
    assert np.isnan(run.targets.position[:50]).all()
    np.testing.assert_allclose(run.targets.position[50:], np.tile(POSE + 0.01, (150, 1)), atol=1e-6)
    np.testing.assert_array_equal(run.joints.stamp, run.joints.received)
    assert {problem.kind for problem in run.problems} == {"no_stamp"}


def test_a_go2_bag_is_evaluated_with_steps_inferred_at_the_policys_rate(go2) -> None:
    evaluation = evaluate_bag(go2, robot_name="aliengo", topics=MAPS / "go2.yaml")
    figures = evaluation.figures["policies"]["A"]
    assert figures["basis"] == "inferred"
    assert figures["action_error_rad"]["steps"] == 75  # 1.5 s at 50 Hz
    assert evaluation.figures["motion"]["tilt_rad"]["max"] == pytest.approx(TILT, abs=1e-5)


def test_joints_of_other_names_and_orders_are_put_in_ours(write_bag, tmp_path) -> None:
    shuffled = list(reversed(JOINTS))
    swapped = "\n".join(f"    {ours}: {theirs}" for ours, theirs in zip(JOINTS, shuffled, strict=True))
    (tmp_path / "map.yaml").write_text(f"joint_states:\n  topic: joint_states\n  joints:\n{swapped}\n")
    bag = write_bag(seconds=0.6)
    ours = read_run(open_bag(bag))
    theirs = read_run(open_bag(bag), topic_map=load_topic_map(tmp_path / "map.yaml"), joint_names=JOINTS)
    np.testing.assert_array_equal(theirs.joints.position, ours.joints.position[:, ::-1])
    np.testing.assert_array_equal(theirs.imu.orientation, ours.imu.orientation)


def test_a_field_that_the_messages_lack_is_named(write_bag, tmp_path) -> None:
    (tmp_path / "map.yaml").write_text("joint_states: {topic: joint_states, position: q}")
    with pytest.raises(ReplayError, match=r"150 messages of /joint_states .* field q "):
        read_run(open_bag(write_bag(seconds=0.6)), topic_map=load_topic_map(tmp_path / "map.yaml"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("joint_state: {topic: /a}", "joint_state`"),
        ("joint_states: {}", "topic"),
        ("joint_states: {topic: /a, stiffness: q}", "stiffness"),
        ("joint_states: {topic: /a, joints: [FR_hip_joint, FR_hip_joint]}", "FR_hip_joint"),
        ("imu/data: {topic: /a, quaternion: zyx}", "imu/data.quaternion.*zyx"),
        ("joint_states: {topic: /a, position: 7, velocity: v}", r"joint_states\.position"),
    ],
)
def test_a_map_with_a_mistake_is_refused_in_a_sentence(tmp_path, text, expected) -> None:
    (tmp_path / "map.yaml").write_text(text)
    with pytest.raises(FcnetError, match=expected):
        load_topic_map(tmp_path / "map.yaml")


@pytest.mark.parametrize("path", sorted(MAPS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_damaged_map_is_used_or_refused_in_a_sentence(path) -> None:
    counts = read_damaged(path, load_topic_map, files=150)
    assert counts.keys() == {"used", "refused"}


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


@pytest.mark.parametrize("damage", [b"\xff" * 40, bz2.compress(b"\0" * 2**27)], ids=["damaged", "a bomb of 128 MiB"])
def test_messages_before_a_damaged_chunk_of_a_ros1_bag_are_read(write_bag, tmp_path, damage) -> None:
    path = as_ros1(write_bag(seconds=4.0, compression=CompressionMode.STORAGE), tmp_path / "walk.bag", "bz2")
    with Reader(path) as reader:
        chunk, count = list(reader.chunks.values())[-1], reader.message_count
    content, end = bytearray(path.read_bytes()), chunk.datapos + chunk.datasize
    content[chunk.datapos : end] = damage.ljust(chunk.datasize, b"\0")[: chunk.datasize]
    path.write_bytes(content)
    bag = open_bag(path)
    assert 0 < sum(len(batch.size) for batch in bag.batches()) < count
    assert [problem.kind for problem in bag.contents.problems] == ["damaged"]


# Robots of other joints than a quadruped of 12, and policies of other rates than 50 Hz.

ROBOTS = Path(__file__).parents[3] / "fcnet_core" / "test" / "shared" / "robots"
ERROR = 0.01  # [rad]


@pytest.fixture(params=["biped", "tailed"])
def other(request):
    """A robot of 8 joints without legs of a quadruped, and one of 13 with them."""
    return load_robot(ROBOTS / f"{request.param}.yaml")


@pytest.fixture
def bag(other, tmp_path):
    """Its bag: targets name the joints in the reverse order."""
    return MadeBag(None, other, seconds=2.0, rate=100.0, error=ERROR, edit=stood_before).write(tmp_path / "walk")


@pytest.mark.parametrize("known", [True, False])
def test_a_run_has_the_joints_of_the_robot_or_else_those_of_its_joint_states(other, bag, known) -> None:
    run = read_run(open_bag(bag), joint_names=other.joint_names if known else ())
    assert run.joint_names == other.joint_names
    assert run.joints.position.shape == (200, len(other.joints))
    np.testing.assert_allclose(run.targets.position, np.tile(other.stand_pose + ERROR, (99, 1)))
    with pytest.raises(ReplayError, match="has the joints"):
        run.check_robot(load_robot("aliengo"))


def test_joints_that_the_messages_lack_are_named(bag) -> None:
    with pytest.raises(ReplayError, match="200 messages of /joint_states left out: they lack a_wheel"):
        read_run(open_bag(bag), joint_names=("a_wheel",))


def test_its_report_has_legs_and_contacts_if_the_robot_has_legs(other, bag) -> None:
    evaluation = evaluate_bag(bag, robot_name=str(ROBOTS / f"{other.name}.yaml"))
    motion = evaluation.figures["motion"]
    assert list(motion["torque_of_limit"]) == list(other.joint_names)
    assert motion["joint_tracking_error_rad"] == pytest.approx(np.hypot(ERROR, 0.1 / np.sqrt(2)), rel=0.02)
    words = PageReader(page(evaluation)).words
    assert {"Gait and contacts", "Height and attitude", "power [W]"} <= set(words)
    assert ("Playback" in words) == ("duty" in words) == ("height [m]" in words) == bool(other.legs)
    assert {name.removesuffix("_joint").replace("_", " ") for name in other.joint_names} <= set(words)


@pytest.mark.parametrize("rate", [30.0, 100.0])
def test_a_policy_of_another_rate_is_replayed_and_its_steps_are_inferred(model, robot, tmp_path, rate) -> None:
    interface = structs.replace(model.card.interface, rate=rate)
    other = replace(model, card=structs.replace(model.card, interface=interface))
    save_model(other, tmp_path / "other.safetensors")
    bag = MadeBag(other, robot, edit=lambda messages: stood_before(messages, 1 / rate)).write(tmp_path / "walk")
    error = evaluate_bag(bag, [tmp_path / "other.safetensors"], "aliengo").figures["policies"]["A"]["action_error_rad"]
    assert error["agrees"] and error["steps"] == 4 * rate - 1
    run = read_run(open_bag(bag), joint_names=robot.joint_names)
    inferred = extract_steps(replace(run, steps=NO_STEPS), other.command_shaper())
    assert len(inferred) == len(run.steps.cold) and inferred.phase_known.all()
    written = dataset_from_bags([bag], tmp_path / "data", BagReading("aliengo", rate=rate))
    assert written.steps == len(inferred)


def test_its_walk_becomes_a_data_set_of_its_own_size(other, bag, tmp_path) -> None:
    joints = len(other.joints)
    dataset_from_bags([bag], tmp_path / "data", BagReading(robot=str(ROBOTS / f"{other.name}.yaml")))
    data = Dataset(tmp_path / "data")
    assert (data.manifest.robot, data.manifest.joint_names) == (other.name, other.joint_names)
    (shard,) = data.shards
    assert shard.observation.shape == (1, data.steps, 4 * joints + 22)
    assert shard.action.shape == (1, data.steps, joints)
    assert data.steps > 80
