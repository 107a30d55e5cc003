"""Bags of a made-up walk, with faults of known size: what replay is tested, damaged and timed with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rosbags.interfaces import Connection
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from fcnet_core.command import CommandShaper
from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import PolicyStep, assemble_observation
from fcnet_core.robot import JOINT_NAMES, Robot
from fcnet_core.runtime import load_policy

Array = npt.NDArray[np.float64]
TYPES = get_typestore(Stores.ROS2_JAZZY)
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
Messages = list[tuple[float, str, Any]]  # when it is received, from the beginning of the walk [s], its topic, a message


@dataclass
class MadeBag:
    """seconds of walk; rate [Hz] of the states. error [rad]: added to every target that is sent; gap: (from, to) [s]
    without states; late: how many joint states are received 0.1 s after their stamp; roll [rad] of the trunk; effort
    [Nm] of every joint; slow [m/s]: by how much the robot is slower than told; without: topics left out; edit: changes
    the messages, and may add some of OTHER_KINDS.
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
            found.append((time + 0.001, "imu/data", _imu(time, self._orientation(time))))
            found.append((time + 0.001, "odom", _odometry(time, self._orientation(time), 0.5 - self.slow)))
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
            observation = assemble_observation(
                self._orientation(seen), [0.1, 0.0, 0.0], position, velocity, last, command
            )
            reach = self.robot.safety.max_target_rate * period
            action = np.clip(policy.step(observation).astype(np.float64), last - reach, last + reach)
            previous, last = sent_at, np.clip(action, self.robot.lower, self.robot.upper) + self.error
            sent_at = cycle + 0.002
            told = PolicyStep(EPOCH + sent_at, EPOCH + previous, EPOCH + seen, EPOCH + seen, step == 0, command)
            found.append((sent_at + 0.001, "joint_trajectory", _trajectory(sent_at, last)))
            found.append((sent_at + 0.001, "controller/policy_step", _numbers(told.vector())))
        return found

    def _joints(self, time: float) -> tuple[Array, Array]:
        phase = 2 * np.pi * 2.5 * time + np.arange(12)
        return self.robot.stand_pose + 0.1 * np.sin(phase), 0.1 * 2 * np.pi * 2.5 * np.cos(phase)

    def _orientation(self, _time: float) -> Array:
        return np.array([np.sin(self.roll / 2), 0.0, 0.0, np.cos(self.roll / 2)])


def stood_before(messages: Messages) -> Messages:
    """An edit: the mode is told as a controller does, standing, and walking just after the policy's first target."""
    others = [entry for entry in messages if entry[1] != "controller/mode"]
    return [(-0.01, "controller/mode", text("standing")), (0.024, "controller/mode", text("walking")), *others]


def _write(writer: Writer, connection: Connection, received: float, message: Any) -> None:
    data = TYPES.serialize_cdr(message, connection.msgtype)
    writer.write(connection, round((EPOCH + received) * 1e9), data)


def _make(kind: str, **fields: Any) -> Any:
    return TYPES.types[kind](**fields)


def _header(time: float) -> Any:
    whole = round((EPOCH + time) * 1e9)
    stamp = _make("builtin_interfaces/msg/Time", sec=whole // 10**9, nanosec=whole % 10**9)
    return _make("std_msgs/msg/Header", stamp=stamp, frame_id="")


def _vector(x: float, y: float, z: float) -> Any:
    return _make("geometry_msgs/msg/Vector3", x=x, y=y, z=z)


def _quaternion(orientation: Array) -> Any:
    return _make("geometry_msgs/msg/Quaternion", **dict(zip("xyzw", orientation.tolist(), strict=True)))


def twist(forward: float) -> Any:
    """A command to walk ahead [m/s]."""
    return _make("geometry_msgs/msg/Twist", linear=_vector(forward, 0.0, 0.0), angular=_vector(0.0, 0.0, 0.0))


def pose(height: float) -> Any:
    """A command of the trunk's height, as an offset [m]."""
    place = _make("geometry_msgs/msg/Point", x=0.0, y=0.0, z=height)
    return _make("geometry_msgs/msg/Pose", position=place, orientation=_quaternion(np.array([0.0, 0.0, 0.0, 1.0])))


def health(cycles: int, space: str = "") -> Any:
    """How many cycles a controller says to have run; space: its namespace, with a slash at its end."""
    values = {"mode": "walking", "cycles": str(cycles), "rate_hz": "50"}
    pairs = [_make("diagnostic_msgs/msg/KeyValue", key=key, value=value) for key, value in values.items()]
    name = f"{space}controller: control"
    status = _make("diagnostic_msgs/msg/DiagnosticStatus", level=0, name=name, message="", hardware_id="", values=pairs)
    return _make("diagnostic_msgs/msg/DiagnosticArray", header=_header(0.0), status=[status])


def text(words: str) -> Any:
    """A message of words."""
    return _make("std_msgs/msg/String", data=words)


def _numbers(values: Array) -> Any:
    layout = _make("std_msgs/msg/MultiArrayLayout", dim=[], data_offset=0)
    return _make("std_msgs/msg/Float64MultiArray", layout=layout, data=values)


def _joint_state(time: float, position: Array, velocity: Array, effort: float) -> Any:
    return _make(
        "sensor_msgs/msg/JointState",
        header=_header(time),
        name=list(JOINT_NAMES),
        position=position,
        velocity=velocity,
        effort=np.full(12, effort),
    )


def _imu(time: float, orientation: Array) -> Any:
    return _make(
        "sensor_msgs/msg/Imu",
        header=_header(time),
        orientation=_quaternion(orientation),
        orientation_covariance=np.zeros(9),
        angular_velocity=_vector(0.1, 0.0, 0.0),
        angular_velocity_covariance=np.zeros(9),
        linear_acceleration=_vector(0.0, 0.0, 9.81),
        linear_acceleration_covariance=np.zeros(9),
    )


def _trajectory(time: float, position: Array) -> Any:
    none = np.empty(0)
    at_once = _make("builtin_interfaces/msg/Duration", sec=0, nanosec=0)
    point = _make(
        "trajectory_msgs/msg/JointTrajectoryPoint",
        positions=position,
        velocities=none,
        accelerations=none,
        effort=none,
        time_from_start=at_once,
    )
    names = list(JOINT_NAMES)
    return _make("trajectory_msgs/msg/JointTrajectory", header=_header(time), joint_names=names, points=[point])


def _odometry(time: float, orientation: Array, forward: float) -> Any:
    place = _make("geometry_msgs/msg/Point", x=0.0, y=0.0, z=0.36)
    pose = _make("geometry_msgs/msg/Pose", position=place, orientation=_quaternion(orientation))
    return _make(
        "nav_msgs/msg/Odometry",
        header=_header(time),
        child_frame_id="trunk",
        pose=_make("geometry_msgs/msg/PoseWithCovariance", pose=pose, covariance=np.zeros(36)),
        twist=_make("geometry_msgs/msg/TwistWithCovariance", twist=twist(forward), covariance=np.zeros(36)),
    )
