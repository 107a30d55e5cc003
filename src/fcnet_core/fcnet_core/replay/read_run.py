"""Reads a RecordedRun from a bag of the suite's topics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fcnet_core.bags.bag import Bag
from fcnet_core.bags.bag_error import BagError
from fcnet_core.bags.message_columns import Columns
from fcnet_core.command import COMMAND_SIZE
from fcnet_core.policy_step import SCALARS, SIZE
from fcnet_core.replay.recorded_run import (
    ImuRecord,
    JointRecord,
    ModeRecord,
    PoseRecord,
    RecordedRun,
    StepRecord,
    TargetRecord,
    VelocityRecord,
)
from fcnet_core.replay.topic_reader import TopicReader
from fcnet_core.robot import JOINT_NAMES
from fcnet_core.rotation import roll_pitch_yaw

Array = npt.NDArray[np.float64]
JOINTS = len(JOINT_NAMES)
MODES = ("passive", "standing_up", "standing", "walking", "lying_down", "fault")


def read_run(bag: Bag, namespace: str = "") -> RecordedRun:
    """Read the topics of one robot. Raises BagError when the bag has no joint_states or no imu/data."""
    prefix = f"/{namespace.strip('/')}/" if namespace.strip("/") else "/"
    readers = {prefix + topic: reader for topic, reader in _readers().items()}
    for message in bag.messages(frozenset(readers)):
        readers[message.topic].add(message)
    rows = {topic.removeprefix(prefix): reader.finish() for topic, reader in readers.items()}
    for topic in ("joint_states", "imu/data"):
        if not len(rows[topic][0]):
            raise BagError(
                f"{bag.path} holds no usable {prefix}{topic}, without which nothing can be replayed; "
                "record it, or name the robot's namespace"
            )
    left_out = tuple(
        f"{count} messages of {topic} are left out: {sentence}"
        for topic, reader in readers.items()
        for sentence, count in reader.problems.items()
    )
    problems = (*(str(problem) for problem in bag.problems), *left_out)
    return RecordedRun(
        joints=_joints(*rows["joint_states"]),
        imu=_imu(*rows["imu/data"]),
        targets=_targets(*rows["joint_trajectory"]),
        steps=_steps(*rows["controller/policy_step"]),
        velocity=VelocityRecord(*rows["cmd_vel"]),
        pose=_pose(*rows["cmd_pose"]),
        mode=_mode(*rows["controller/mode"]),
        problems=problems,
        custom=bag.custom,
    )


def _readers() -> dict[str, TopicReader]:
    pickers: dict[str, tuple[str, int, Callable[[Columns], Array | str]]] = {
        "joint_states": ("sensor_msgs/msg/JointState", 1 + 3 * JOINTS, _pick_joints),
        "imu/data": ("sensor_msgs/msg/Imu", 11, _pick_imu),
        "joint_trajectory": ("trajectory_msgs/msg/JointTrajectory", 1 + JOINTS, _pick_targets),
        "controller/policy_step": ("std_msgs/msg/Float64MultiArray", SIZE, _pick_step),
        "controller/mode": ("std_msgs/msg/String", 1, _pick_mode),
        "cmd_vel": ("geometry_msgs/msg/Twist", 3, _pick_velocity),
        "cmd_pose": ("geometry_msgs/msg/Pose", 5, _pick_pose),
    }
    return {topic: TopicReader(*picker) for topic, picker in pickers.items()}


def _stamp(columns: Columns) -> Array:
    return columns.numbers["header.stamp.sec"] + 1e-9 * columns.numbers["header.stamp.nanosec"]


def _order(names: list[str]) -> list[int] | str:
    missing = [joint for joint in JOINT_NAMES if joint not in names]
    return f"it lacks {', '.join(missing)}" if missing else [names.index(joint) for joint in JOINT_NAMES]


def _pick_joints(columns: Columns) -> Array | str:
    names = columns.texts["name"]
    order = _order(names)
    if isinstance(order, str):
        return order
    position, velocity, effort = (columns.numbers[field] for field in ("position", "velocity", "effort"))
    if position.shape[1] != len(names) or velocity.shape[1] != len(names):
        return "it does not carry a position and a velocity for each name"
    told = effort[:, order] if effort.shape[1] == len(names) else np.full((len(position), JOINTS), np.nan)
    return np.hstack([_stamp(columns), position[:, order], velocity[:, order], told])


def _pick_imu(columns: Columns) -> Array | str:
    fields = [f"orientation.{axis}" for axis in "xyzw"]
    fields += [f"{motion}.{axis}" for motion in ("angular_velocity", "linear_acceleration") for axis in "xyz"]
    return np.hstack([_stamp(columns), *(columns.numbers[field] for field in fields)])


def _pick_targets(columns: Columns) -> Array | str:
    names = columns.texts["joint_names"]
    order = _order(names)
    if isinstance(order, str):
        return order
    position = columns.numbers.get("points[0].positions", np.empty((len(columns.rows), 0)))
    if position.shape[1] not in (0, len(names)):
        return "it does not carry a position for each name"
    damped = np.full((len(columns.rows), JOINTS), np.nan)
    return np.hstack([_stamp(columns), position[:, order] if position.shape[1] else damped])


def _pick_step(columns: Columns) -> Array | str:
    data = columns.numbers["data"]
    return data if data.shape[1] == SIZE else f"it carries {data.shape[1]} numbers, not {SIZE}"


def _pick_mode(columns: Columns) -> Array | str:
    (mode,) = columns.texts["data"]
    known = mode in MODES
    return np.full((len(columns.rows), 1), float(MODES.index(mode))) if known else f"it names the unknown mode {mode!r}"


def _pick_velocity(columns: Columns) -> Array | str:
    return np.hstack([columns.numbers[field] for field in ("linear.x", "linear.y", "angular.z")])


def _pick_pose(columns: Columns) -> Array | str:
    return np.hstack([columns.numbers["position.z"], *(columns.numbers[f"orientation.{axis}"] for axis in "xyzw")])


def _joints(received: Array, rows: Array) -> JointRecord:
    return JointRecord(received, rows[:, 0], *np.split(rows[:, 1:], 3, axis=1))


def _imu(received: Array, rows: Array) -> ImuRecord:
    return ImuRecord(received, rows[:, 0], rows[:, 1:5], rows[:, 5:8], rows[:, 8:11])


def _targets(received: Array, rows: Array) -> TargetRecord:
    return TargetRecord(received, rows[:, 0], rows[:, 1:])


def _steps(_received: Array, rows: Array) -> StepRecord:
    target, previous, joints, imu, cold = rows[:, : len(SCALARS)].T
    return StepRecord(target, previous, joints, imu, cold > 0.5, rows[:, -COMMAND_SIZE:])


def _pose(received: Array, rows: Array) -> PoseRecord:
    roll, pitch, _ = roll_pitch_yaw(rows[:, 1:]).T
    return PoseRecord(received, np.column_stack([rows[:, 0], roll, pitch]))


def _mode(received: Array, rows: Array) -> ModeRecord:
    return ModeRecord(received, tuple(MODES[int(row)] for row in rows[:, 0]))
