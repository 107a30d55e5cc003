"""Bags of a made-up walk, with faults of known size: with which replay is tested, damaged and timed."""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rosbags.interfaces import Nodetype
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from fcnet_core import names
from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.model_file import PolicyModel
from fcnet_core.names import Mode
from fcnet_core.observation import PolicyStep, RobotState
from fcnet_core.policy import load_policy
from fcnet_core.robot import Robot
from fcnet_replay.evaluation import ReplayEvaluation
from fcnet_replay.report.findings import findings

Array = npt.NDArray[np.float64]
TYPES = get_typestore(Stores.ROS2_JAZZY)
STEP_TYPE = names.POLICY_STEP.type
EPOCH = 1_700_000_000.0  # [s] when the made-up walk begins
MODE, STEPS = (topic.of(names.CONTROLLER).name for topic in (names.MODE, names.POLICY_STEP))
JOINTS, IMU, TARGETS, ODOM = (
    topic.name for topic in (names.JOINT_STATES, names.IMU, names.JOINT_TRAJECTORY, names.ODOM)
)
KINDS = {topic.of(names.CONTROLLER).name: topic.type for topic in names.TOPIC_NAMES}
KINDS["keyboard/cmd_vel"] = names.CMD_VEL.type
# Ways to keep a bag: settings of a MadeBag.
STORAGES: dict[str, dict[str, Any]] = {
    "mcap": {},
    "mcap, compressed chunks": {"compression": CompressionMode.STORAGE},
    "sqlite3": {"storage": StoragePlugin.SQLITE3},
    "sqlite3, version 8": {"storage": StoragePlugin.SQLITE3, "version": 8},
    "sqlite3, compressed file": {"storage": StoragePlugin.SQLITE3, "compression": CompressionMode.FILE},
    "sqlite3, compressed messages": {"storage": StoragePlugin.SQLITE3, "compression": CompressionMode.MESSAGE},
}
Messages = list[tuple[float, str, Any]]  # time of arrival since the beginning of the walk [s], topic, message


@dataclass
class MadeBag:
    """model: whose targets are sent; None: the stand pose, without steps. seconds of walk; rate [Hz] of the states.
    error [rad]: added to every target that is sent; gap: (from, to) [s] without states; late: how many joint states are
    received 0.1 s after their stamp; roll [rad] of the trunk; effort [Nm] of every joint; slow [m/s]: by how much the
    robot is slower than commanded; without: topics left out; edit: changes the messages.
    """

    model: PolicyModel | None
    robot: Robot
    seconds: float = 4.0
    rate: float = 250.0
    error: float = 0.0
    gap: tuple[float, float] | None = None
    late: int = 0
    roll: float = 0.1
    effort: float = 5.0
    slow: float = 0.2
    namespace: str = ""
    without: tuple[str, ...] = ()
    custom: dict[str, str] = field(default_factory=dict)
    storage: StoragePlugin = StoragePlugin.MCAP
    version: int = 9
    compression: CompressionMode = CompressionMode.NONE
    edit: Callable[[Messages], Messages] = lambda messages: messages

    def write(self, folder: Path) -> Path:
        """Write the bag as a new folder, and return that."""
        writer = Writer(folder, version=self.version, storage_plugin=self.storage)  # type: ignore[arg-type]
        if self.compression is not CompressionMode.NONE:
            writer.set_compression(self.compression, CompressionFormat.ZSTD)
        with writer:
            for name, note in self.custom.items():
                writer.set_custom_data(name, note)
            messages = [entry for entry in self.edit(self._messages()) if entry[1] not in self.without]
            connections = {
                topic: writer.add_connection(f"{self.namespace}/{topic}", KINDS[topic], typestore=TYPES)
                for topic in dict.fromkeys(topic for _, topic, _ in messages)
            }
            for received, topic, content in sorted(messages, key=lambda entry: entry[0]):
                data = TYPES.serialize_cdr(content, KINDS[topic])
                writer.write(connections[topic], round((EPOCH + received) * 1e9), data)
        return folder

    def state_times(self) -> Array:
        """Stamps [s] of the states, from the beginning of the walk."""
        times = np.arange(round(self.seconds * self.rate)) / self.rate
        return times if self.gap is None else times[(times < self.gap[0]) | (times >= self.gap[1])]

    def _messages(self) -> Messages:
        roll, joint_names = _quaternion(self.roll), list(self.robot.joint_names)
        found: Messages = [(0.0, MODE, text(Mode.WALKING.value))]
        for index, time in enumerate(self.state_times().tolist()):
            position, velocity = self._joints(time)
            effort, delay = np.full(len(position), self.effort), 0.1 if index < self.late else 0.001
            joints = {"name": joint_names, "position": position, "velocity": velocity, "effort": effort}
            imu = {"angular_velocity": {"x": 0.1}, "linear_acceleration": {"z": 9.81}, "orientation": roll}
            place = {"position": {"z": 0.36}, "orientation": roll}
            speed = {"linear": {"x": 0.5 - self.slow}}
            odometry = {"child_frame_id": "trunk", "pose": {"pose": place}, "twist": {"twist": speed}}
            found.append((time + delay, JOINTS, stamped(JOINTS, time, joints)))
            found.append((time + 0.001, IMU, stamped(IMU, time, imu)))
            found.append((time + 0.001, ODOM, stamped(ODOM, time, odometry)))
        found += [(time, names.CMD_VEL.name, twist(0.5)) for time in np.arange(0.0, self.seconds, 0.05).tolist()]
        return found + self._steps()

    def _steps(self) -> Messages:
        """Targets as a controller would have sent them, one cycle after the other."""
        if self.model is None:
            names, pose = self.robot.joint_names[::-1], self.robot.stand_pose[::-1] + self.error
            return [trajectory(time, pose, names) for time in np.arange(0.02, self.seconds, 0.02).tolist()]
        policy, period = load_policy(self.model), 1.0 / self.model.card.interface.rate
        limiter = JointLimiter(self.robot, period)
        runner = PolicyRunner(policy, self.model.card.interface, limiter)
        orientation = np.array(list(_quaternion(self.roll).values()))
        times, last, sent_at = self.state_times(), self.robot.stand_pose, 0.001
        found: Messages = [trajectory(sent_at, last, self.robot.joint_names)]
        for step, cycle in enumerate(np.arange(period, self.seconds, period).tolist()):
            seen = float(times[np.searchsorted(times, cycle - 0.003, side="right") - 1])
            runner.take_command(np.array([0.5, *[0.0] * 8]))
            limiter.last = last
            observation = runner.observe(RobotState(*self._joints(seen), orientation, np.array([0.1, 0.0, 0.0])))
            runner.send(last)
            reach = self.robot.safety.max_target_rate * period
            action = np.clip(policy.step(observation).astype(np.float64), last - reach, last + reach)
            previous, last = sent_at, np.clip(action, self.robot.lower, self.robot.upper) + self.error
            sent_at = cycle + 0.002
            stamps = EPOCH + sent_at, EPOCH + previous, EPOCH + seen, EPOCH + seen
            values = PolicyStep(*stamps, step == 0, runner.setpoint, float(runner.phase), bool(runner.walking)).vector()
            found.append(trajectory(sent_at, last, self.robot.joint_names))
            found.append((sent_at + 0.001, STEPS, message(STEP_TYPE, {"data": values})))
        return found

    def _joints(self, time: float) -> tuple[Array, Array]:
        phase = 2 * np.pi * 2.5 * time + np.arange(len(self.robot.joint_names))
        return self.robot.stand_pose + 0.1 * np.sin(phase), 0.1 * 2 * np.pi * 2.5 * np.cos(phase)


def stood_before(messages: Messages, period: float = 0.02) -> Messages:
    """An edit: the mode as a controller publishes it, standing, and walking just after the policy's first target."""
    others = [entry for entry in messages if entry[1] != MODE]
    return [(-0.01, MODE, text(Mode.STANDING.value)), (period + 0.004, MODE, text(Mode.WALKING.value)), *others]


def codes(evaluation: ReplayEvaluation) -> dict[str, str]:
    """Severity of each finding by its code."""
    return {finding.code: finding.level for finding in findings(evaluation)}


def without(begin: float, end: float, *topics: str) -> Callable[[Messages], Messages]:
    """An edit: no messages of these topics in this time [s]."""
    return lambda messages: [entry for entry in messages if entry[1] not in topics or not begin <= entry[0] < end]


def message(kind: str, values: Mapping[str, Any]) -> Any:
    """A message of this type with these values, a mapping for a message in it; all others are zero or empty."""
    fields = {name: _field(of, values.get(name)) for name, of in TYPES.fielddefs[kind][1]}
    return TYPES.types[kind](**fields)


def _field(field_type: Any, value: Any) -> Any:
    node, detail = field_type
    if node is Nodetype.NAME:
        return message(detail, value or {})
    if value is not None:
        return value
    if node is Nodetype.BASE:
        return "" if detail[0] == "string" else 0
    return np.zeros(detail[1])  # a sequence's size is 0


def stamped(topic: str, time: float, values: Mapping[str, Any]) -> Any:
    """A topic's message with a header of this time [s]."""
    whole = round((EPOCH + time) * 1e9)
    stamp = {"sec": whole // 10**9, "nanosec": whole % 10**9}
    return message(KINDS[topic], {"header": {"stamp": stamp}, **values})


def twist(forward: float) -> Any:
    """A velocity command straight ahead [m/s]."""
    return message("geometry_msgs/msg/Twist", {"linear": {"x": forward}})


def pose(height: float) -> Any:
    """A command of the trunk's height, as an offset [m]."""
    return message("geometry_msgs/msg/Pose", {"position": {"z": height}, "orientation": {"w": 1.0}})


def text(content: str) -> Any:
    """A String."""
    return message("std_msgs/msg/String", {"data": content})


def record(operation: int, content: bytes, length: int | None = None) -> bytes:
    """A record of an mcap file; length: the one that it claims."""
    return struct.pack("<BQ", operation, len(content) if length is None else length) + content


def sized(content: bytes) -> bytes:
    """A text in a record."""
    return struct.pack("<I", len(content)) + content


def chunk(packed: bytes, size: int, compression: bytes = b"zstd") -> bytes:
    """A chunk that claims `size` bytes of records."""
    head = struct.pack("<QQQI", 0, 0, size, 0) + sized(compression)
    return record(6, head + struct.pack("<Q", len(packed)) + packed)


def schema(kind: bytes, text: bytes) -> bytes:
    return record(3, struct.pack("<H", 1) + sized(kind) + sized(b"ros2msg") + sized(text))


def channel(topic: bytes) -> bytes:
    return record(4, struct.pack("<HH", 1, 1) + sized(topic) + sized(b"cdr") + sized(b""))


def _quaternion(roll: float) -> dict[str, float]:
    return {"x": np.sin(roll / 2), "y": 0.0, "z": 0.0, "w": np.cos(roll / 2)}


def trajectory(time: float, positions: Array, names: Sequence[str]) -> tuple[float, str, Any]:
    point = message("trajectory_msgs/msg/JointTrajectoryPoint", {"positions": positions})
    trajectory = {"joint_names": list(names), "points": [point]}
    return time + 0.001, TARGETS, stamped(TARGETS, time, trajectory)
