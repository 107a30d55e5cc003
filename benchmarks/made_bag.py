"""Bags of a made-up walk, with faults of known size: with which replay is tested, damaged and timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rosbags.interfaces import Connection, Nodetype
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from fcnet_core.command import CommandShaper
from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import PolicyStep, assemble_observation
from fcnet_core.policy import load_policy
from fcnet_core.robot import JOINT_NAMES, Robot

Array = npt.NDArray[np.float64]
TYPES = get_typestore(Stores.ROS2_JAZZY)
VECTOR = "geometry_msgs/msg/Vector3"
EPOCH = 1_700_000_000.0  # [s] when the made-up walk begins
KINDS = {
    "joint_states": "sensor_msgs/msg/JointState",
    "imu/data": "sensor_msgs/msg/Imu",
    "joint_trajectory": "trajectory_msgs/msg/JointTrajectory",
    "controller/policy_step": "std_msgs/msg/Float64MultiArray",
    "controller/mode": "std_msgs/msg/String",
    "cmd_vel": "geometry_msgs/msg/Twist",
    "odom": "nav_msgs/msg/Odometry",
}
OTHER_KINDS = {
    "cmd_pose": "geometry_msgs/msg/Pose",
    "keyboard/cmd_vel": "geometry_msgs/msg/Twist",
    "diagnostics": "diagnostic_msgs/msg/DiagnosticArray",
}
Messages = list[tuple[float, str, Any]]  # time of arrival since the beginning of the walk [s], topic, message


@dataclass
class MadeBag:
    """seconds of walk; rate [Hz] of the states. error [rad]: added to every target that is sent; gap: (from, to) [s]
    without states; late: how many joint states are received 0.1 s after their stamp; roll [rad] of the trunk; effort
    [Nm] of every joint; slow [m/s]: by how much the robot is slower than commanded; without: topics left out; edit:
    changes the messages, and may add some of OTHER_KINDS.
    """

    model: PolicyModel
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
            for name, text in self.custom.items():
                writer.set_custom_data(name, text)
            messages = self.edit(self._messages())
            others = {topic: OTHER_KINDS[topic] for _, topic, _ in messages if topic in OTHER_KINDS}
            kinds = {topic: kind for topic, kind in (KINDS | others).items() if topic not in self.without}
            connections = {
                topic: writer.add_connection(f"{self.namespace}/{topic}", kind, typestore=TYPES)
                for topic, kind in kinds.items()
            }
            for received, topic, message in sorted(messages, key=lambda entry: entry[0]):
                if topic in kinds:
                    _write(writer, connections[topic], received, message)
        return folder

    def state_times(self) -> Array:
        """Stamps [s] of the states, from the beginning of the walk."""
        times = np.arange(round(self.seconds * self.rate)) / self.rate
        return times if self.gap is None else times[(times < self.gap[0]) | (times >= self.gap[1])]

    def _messages(self) -> Messages:
        found: Messages = [(0.0, "controller/mode", text("walking"))]
        for index, time in enumerate(self.state_times().tolist()):
            position, velocity = self._joints(time)
            delay = 0.1 if index < self.late else 0.001
            found.append((time + delay, "joint_states", _joint_state(time, position, velocity, self.effort)))
            found.append((time + 0.001, "imu/data", _imu(time, self._orientation())))
            found.append((time + 0.001, "odom", _odometry(time, self._orientation(), 0.5 - self.slow)))
        found += [(time, "cmd_vel", twist(0.5)) for time in np.arange(0.0, self.seconds, 0.05).tolist()]
        return found + self._steps()

    def _steps(self) -> Messages:
        """Targets as a controller would have sent them, one cycle after the other."""
        policy, period = load_policy(self.model, "numpy"), 1.0 / self.model.card.control_rate
        shaper = CommandShaper(self.model.command_ranges, self.model.gait, period)
        times, found = self.state_times(), []
        last, sent_at = self.robot.stand_pose, 0.001
        found.append((sent_at + 0.001, "joint_trajectory", _trajectory(sent_at, last)))
        for step, cycle in enumerate(np.arange(period, self.seconds, period).tolist()):
            seen = float(times[np.searchsorted(times, cycle - 0.003, side="right") - 1])
            command = shaper.step(np.array([0.5, *[0.0] * 8]))[0]
            position, velocity = self._joints(seen)
            observation = assemble_observation(self._orientation(), [0.1, 0.0, 0.0], position, velocity, last, command)
            reach = self.robot.safety.max_target_rate * period
            action = np.clip(policy.step(observation).astype(np.float64), last - reach, last + reach)
            previous, last = sent_at, np.clip(action, self.robot.lower, self.robot.upper) + self.error
            sent_at = cycle + 0.002
            stamps = EPOCH + sent_at, EPOCH + previous, EPOCH + seen, EPOCH + seen
            policy_step = PolicyStep(*stamps, step == 0, command)
            found.append((sent_at + 0.001, "joint_trajectory", _trajectory(sent_at, last)))
            values = _make("std_msgs/msg/Float64MultiArray", data=policy_step.vector())
            found.append((sent_at + 0.001, "controller/policy_step", values))
        return found

    def _joints(self, time: float) -> tuple[Array, Array]:
        phase = 2 * np.pi * 2.5 * time + np.arange(12)
        return self.robot.stand_pose + 0.1 * np.sin(phase), 0.1 * 2 * np.pi * 2.5 * np.cos(phase)

    def _orientation(self) -> Array:
        return np.array([np.sin(self.roll / 2), 0.0, 0.0, np.cos(self.roll / 2)])


def stood_before(messages: Messages) -> Messages:
    """An edit: the mode as a controller publishes it, standing, and walking just after the policy's first target."""
    others = [entry for entry in messages if entry[1] != "controller/mode"]
    return [(-0.01, "controller/mode", text("standing")), (0.024, "controller/mode", text("walking")), *others]


def _write(writer: Writer, connection: Connection, received: float, message: Any) -> None:
    data = TYPES.serialize_cdr(message, connection.msgtype)
    writer.write(connection, round((EPOCH + received) * 1e9), data)


def _make(kind: str, **fields: Any) -> Any:
    """A message of this type with these fields; the others are zero or empty."""
    definitions = TYPES.fielddefs[kind][1]
    return TYPES.types[kind](**{name: fields[name] if name in fields else _zero(of) for name, of in definitions})


def _zero(field_type: Any) -> Any:
    node, detail = field_type
    if node is Nodetype.NAME:
        return _make(detail)
    if node is Nodetype.BASE:
        return "" if detail[0] == "string" else 0
    return np.zeros(detail[1])  # a sequence's size is 0


def _header(time: float) -> Any:
    whole = round((EPOCH + time) * 1e9)
    stamp = _make("builtin_interfaces/msg/Time", sec=whole // 10**9, nanosec=whole % 10**9)
    return _make("std_msgs/msg/Header", stamp=stamp)


def _pose(height: float, orientation: Array) -> Any:
    place = _make("geometry_msgs/msg/Point", z=height)
    return _make("geometry_msgs/msg/Pose", position=place, orientation=_quaternion(orientation))


def _quaternion(orientation: Array) -> Any:
    return _make("geometry_msgs/msg/Quaternion", **dict(zip("xyzw", orientation.tolist(), strict=True)))


def twist(forward: float) -> Any:
    """A velocity command straight ahead [m/s]."""
    return _make("geometry_msgs/msg/Twist", linear=_make(VECTOR, x=forward))


def pose(height: float) -> Any:
    """A command of the trunk's height, as an offset [m]."""
    return _pose(height, np.array([0.0, 0.0, 0.0, 1.0]))


def health(cycles: int, namespace: str = "") -> Any:
    """Diagnostics of a controller that has run so many cycles; namespace: with a slash at its end."""
    values = {"mode": "walking", "cycles": str(cycles), "rate_hz": "50"}
    pairs = [_make("diagnostic_msgs/msg/KeyValue", key=key, value=value) for key, value in values.items()]
    status = _make("diagnostic_msgs/msg/DiagnosticStatus", name=f"{namespace}controller: control", values=pairs)
    return _make("diagnostic_msgs/msg/DiagnosticArray", header=_header(0.0), status=[status])


def text(content: str) -> Any:
    """A String."""
    return _make("std_msgs/msg/String", data=content)


def _joint_state(time: float, position: Array, velocity: Array, effort: float) -> Any:
    values = {"position": position, "velocity": velocity, "effort": np.full(12, effort)}
    return _make("sensor_msgs/msg/JointState", header=_header(time), name=list(JOINT_NAMES), **values)


def _imu(time: float, orientation: Array) -> Any:
    return _make(
        "sensor_msgs/msg/Imu",
        header=_header(time),
        orientation=_quaternion(orientation),
        angular_velocity=_make(VECTOR, x=0.1),
        linear_acceleration=_make(VECTOR, z=9.81),
    )


def _trajectory(time: float, position: Array) -> Any:
    point = _make("trajectory_msgs/msg/JointTrajectoryPoint", positions=position)
    names = list(JOINT_NAMES)
    return _make("trajectory_msgs/msg/JointTrajectory", header=_header(time), joint_names=names, points=[point])


def _odometry(time: float, orientation: Array, forward: float) -> Any:
    return _make(
        "nav_msgs/msg/Odometry",
        header=_header(time),
        child_frame_id="trunk",
        pose=_make("geometry_msgs/msg/PoseWithCovariance", pose=_pose(0.36, orientation)),
        twist=_make("geometry_msgs/msg/TwistWithCovariance", twist=twist(forward)),
    )
