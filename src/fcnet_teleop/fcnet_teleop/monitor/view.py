"""Data of a robot for pages: shape, joints, targets and commands as snapshots; mode, faults and health as status."""

import math
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Pose, Quaternion, Twist, TwistStamped
from msgspec import structs
from nav_msgs.msg import Odometry
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import Float64MultiArray, String

from fcnet_core.arrays import Array
from fcnet_core.control.command import CommandArbiter, CommandSource
from fcnet_core.control.timing import NEVER
from fcnet_core.document.scene import scene_facts
from fcnet_core.errors import RefusedCommandError
from fcnet_core.legs.kinematics import LegKinematics, standing_height
from fcnet_core.names import Mode
from fcnet_core.observation import SCALARS, SIZE
from fcnet_core.robot import LEGS, Robot
from fcnet_core.rotation import is_orientation, matrix_from_xyzw, roll_pitch_yaw
from fcnet_ros import topics
from fcnet_ros.one_publisher import OnePublisher, follow
from fcnet_ros.state_messages import GroundPatch, StateBuffer, StateReceiver
from fcnet_ros.targets import TargetReader
from fcnet_teleop.controls import POSE, VELOCITY, RemoteControl

TIMEOUT = 0.5  # [s] maximum age of commands, targets and odometry
SETPOINT_SIZE = len(VELOCITY) + len(POSE)
STEP_SETPOINT = slice(len(SCALARS), len(SCALARS) + SETPOINT_SIZE)  # in ~/policy_step
OUTDATED = 3.0  # [s] maximum age of a status, which is published every second
MAX_HEIGHT = 1000.0  # [m] of the ground
REMOVED = 60.0  # [s] maximum age of a displayed status
MAX_RESPONSES = 8
UNKNOWN = "unknown"  # mode of a controller that no longer publishes it
LOST = "the controller has ended or does not respond: the robot gets no commands; start it again, this page reconnects"
LEVELS = ("ok", "warning", "error", "stale")


class RobotView:
    """The newest state, odometry, targets and commands; used by one thread.

    Messages have no callbacks: they are decoded when a snapshot is made.
    """

    def __init__(self, node: Node, robot: Robot, controller: str, remote: RemoteControl, stamped: bool) -> None:
        self._robot = robot
        self._legs = LegKinematics(robot) if robot.primitives else None
        self._state, self._commands = StateBuffer(robot.joint_names, TIMEOUT), CommandArbiter(TIMEOUT)
        self._place = np.zeros(7)  # of odometry: position [m], x, y, z, w
        self._measured = (0.0, 0.0, 0.0)  # velocity: forward, left [m/s], yaw rate [rad/s] in the trunk's frame
        self._target: Array | None = None
        self._setpoint, self._target_reader = np.zeros(SETPOINT_SIZE), TargetReader(robot.joint_names)
        self._odometry_time = self._target_time = self._setpoint_time = NEVER  # of reception
        self._states = StateReceiver(node, self._state)
        self._messages = [
            OnePublisher(node, topics.ODOM, self._store_odometry, TIMEOUT),
            OnePublisher(node, topics.JOINT_TRAJECTORY, self._store_target, TIMEOUT, raw=True),
            OnePublisher(node, topics.POLICY_STEP.of(controller), self._store_step, TIMEOUT),
        ]
        kind = TwistStamped if stamped else Twist
        for names in remote.sources:
            source = self._commands.add_source(names.name)
            velocity, pose = topics.CMD_VEL.named(names.velocity, kind), topics.CMD_POSE.named(names.pose)
            self._messages.append(OnePublisher(node, velocity, partial(_store_velocity, source), TIMEOUT))
            self._messages.append(OnePublisher(node, pose, partial(_store_pose, source), TIMEOUT))

    def snapshot(self) -> dict[str, Any]:
        """Receive without waiting; return the newest values as JSON types, None for unknown ones.

        t: monotonic time [s]. Positions in metres, angles in radians, ages in seconds. trunk: x, y, z and the rotation
        matrix, row by row. legs: 4 legs of 4 points in the trunk frame; ghost: the same for the targets; None without
        their lengths. commanded: velocity and pose, of the policy while it walks, else of the source in control.
        torques [Nm]. contacts: 1 for each foot on the ground, else 0. body: height of the trunk above the lowest foot,
        roll and pitch.
        """
        self._states.receive(NEVER, time.monotonic())
        for message in self._messages:
            message.store(NEVER)
        now, state = time.monotonic(), self._state
        times = self._target_time, self._odometry_time, self._setpoint_time
        has_target, has_odometry, walks = (now - received <= TIMEOUT for received in times)
        target = self._target if has_target else None
        has_joints = bool(np.isfinite(state.joint_position).all() and state.joints_received > NEVER)
        joints = state.joint_position if has_joints else None
        points = self._points(joints)
        torques = state.joint_effort if has_joints and np.isfinite(state.joint_effort).all() else None
        trunk = body = contacts = None
        if has_joints and is_orientation(state.orientation):
            attitude = state.orientation / np.linalg.norm(state.orientation)
            rotation = matrix_from_xyzw(attitude)
            height = None if points is None else standing_height(self._robot, points, rotation)
            trunk = [0.0, 0.0, self._robot.nominal_height if height is None else height, *rotation.ravel()]
            body = [_rounded(height), *_rounded(roll_pitch_yaw(attitude)[:2])]
            if torques is not None and self._legs is not None and np.isfinite(state.angular_velocity).all():
                rows, turning = self._robot.leg_rows, state.angular_velocity
                legs = state.joint_position[rows], state.joint_velocity[rows], torques[rows]
                contacts = self._legs.contacts(*legs, turning, rotation[2]).astype(int).tolist()
        if has_joints and has_odometry:
            trunk = [*self._place[:3], *matrix_from_xyzw(self._place[3:]).ravel()]
        return {
            "t": now,
            "problem": state.problem(now) or "",
            "trunk": _rounded(trunk),
            "legs": _rounded(points),
            "ghost": _rounded(self._points(target)),
            "joints": _rounded(joints),
            "targets": _rounded(target),
            "torques": _rounded(torques),
            "contacts": contacts,
            "body": body,
            "damped": has_target and target is None,
            "age": None if state.received == NEVER else round(now - state.received, 4),
            "source": self._commands.source(now),
            "commanded": _rounded(self._setpoint if walks else self._commands.wanted(now)[:SETPOINT_SIZE]),
            "measured": _rounded(self._measured) if has_odometry else None,
        }

    def _points(self, joints: Array | None) -> Array | None:
        return None if self._legs is None or joints is None else self._legs.points(joints[self._robot.leg_rows])

    def _store_odometry(self, odometry: Odometry, received: float) -> None:
        pose, twist = odometry.pose.pose, odometry.twist.twist
        place = np.array([pose.position.x, pose.position.y, pose.position.z, *_xyzw(pose.orientation)])
        velocity = twist.linear.x, twist.linear.y, twist.angular.z
        if np.isfinite([*place, *velocity]).all() and is_orientation(place[3:]):
            self._place, self._measured, self._odometry_time = place, velocity, received

    def _store_target(self, content: bytes, received: float) -> None:
        try:
            self._target = self._target_reader.read(content)[1]
        except RefusedCommandError:
            return  # the robot's bridge reports it
        self._target_time = received

    def _store_step(self, step: Float64MultiArray, received: float) -> None:
        if len(step.data) == SIZE and all(map(math.isfinite, step.data)):
            self._setpoint, self._setpoint_time = np.array(step.data[STEP_SETPOINT]), received


class RobotStatus:
    """The newest mode, robot fault, diagnostics and responses; used by the node's thread.

    on_fault: called when the controller enters fault or is lost.
    """

    def __init__(self, node: Node, controller: str, on_fault: Callable[[], None]) -> None:
        self._node, self._controller, self._on_fault = node, controller, on_fault
        self._mode, self._lost, self._robot_fault = "", False, ""
        self._health_time = NEVER  # reception of the controller's newest diagnostics [s]
        self._statuses: dict[str, tuple[float, dict[str, Any]]] = {}  # reception [s], JSON types
        self._responses: deque[str] = deque(maxlen=MAX_RESPONSES)
        self._count = 0
        follow(node, topics.MODE.of(controller), self._set_mode)
        follow(node, topics.ROBOT_FAULT, self._set_robot_fault)
        topics.DIAGNOSTICS.subscribe(node, self._set_diagnostics)

    def add_response(self, message: str) -> None:
        """Add a response to a page's request."""
        self._count += 1
        self._responses.append(message)

    def as_json(self) -> dict[str, Any]:
        """Return the status as JSON types.

        lost: whether the controller has exited or sends no diagnostics; its mode is then unknown. faults: why the robot
        cannot be used. statuses: this robot's diagnostics, with `old` if outdated. responses: the last ones;
        response_count: number of all.
        """
        now = time.monotonic()
        self._look_for_controller(now)
        self._statuses = {name: entry for name, entry in self._statuses.items() if now - entry[0] <= REMOVED}
        statuses = [{**status, "old": now - since > OUTDATED} for since, status in self._statuses.values()]
        return {
            "mode": UNKNOWN if self._lost else self._mode,
            "lost": self._lost,
            "faults": self._faults(statuses),
            "statuses": sorted(statuses, key=lambda status: status["name"]),
            "responses": list(self._responses),
            "response_count": self._count,
        }

    def _faults(self, statuses: list[dict[str, Any]]) -> list[str]:
        faults = [f"robot: {self._robot_fault}"] if self._robot_fault else []
        faults += [LOST] if self._lost else []
        for status in statuses:
            node = status["name"].partition(":")[0]
            if self._lost and node.rpartition("/")[2] == self._controller:
                continue
            if status["old"]:
                faults.append(f"{node} has sent no diagnostics for more than {OUTDATED:g} s")
            elif status["level"] == "error" and status["message"] != self._robot_fault:
                faults.append(f"{node}: {status['message']}")
        return faults

    def _look_for_controller(self, now: float) -> None:
        """Detect a lost controller: one that exits removes its topics; one that is killed or hangs sends nothing."""
        ended = self._mode and not self._node.count_publishers(topics.MODE.of(self._controller).name)
        lost = bool(ended) or NEVER < self._health_time < now - OUTDATED
        if ended:
            self._mode, self._health_time = UNKNOWN, NEVER
        if lost and not self._lost:
            self._on_fault()
        self._lost = lost or self._mode == UNKNOWN

    def _set_mode(self, message: String) -> None:
        self._mode = message.data
        if self._mode == Mode.FAULT:
            self._on_fault()

    def _set_robot_fault(self, message: String) -> None:
        self._robot_fault = message.data

    def _set_diagnostics(self, message: DiagnosticArray) -> None:
        now = time.monotonic()
        for status in message.status:
            namespace, _, node = status.name.partition(":")[0].strip("/").rpartition("/")
            if namespace not in ("", self._node.get_namespace().strip("/")):  # a driver's have no namespace
                continue  # of another robot
            if node == self._controller:
                self._health_time = now
            values = {pair.key: pair.value for pair in status.values}
            level = LEVELS[min(status.level[0], len(LEVELS) - 1)]
            fields = {"name": status.name, "level": level, "message": status.message, "values": values}
            self._statuses[status.name] = now, fields


def page_facts(robot: Robot, remote: RemoteControl, source: str) -> dict[str, Any]:
    """Return constants of the robot and the keys for pages, as JSON types.

    source: command source of the pages; `higher`: sources with a higher priority. plotted: indices of the joints in the
    order of their plots: a column for each leg, then the other joints.
    """
    sources = [each.name for each in remote.sources]
    of_legs = robot.leg_rows.T.ravel().tolist() if robot.legs else []
    others = [joint for joint in range(len(robot.joint_names)) if joint not in of_legs]
    return {
        "robot": robot.name,
        **(scene_facts(robot) if robot.primitives else {"height": robot.nominal_height}),
        "legs": list(LEGS) if robot.primitives else [],
        "joints": list(robot.joint_names),
        "plotted": of_legs + others,
        "lower": robot.lower.tolist(),
        "upper": robot.upper.tolist(),
        "stand": robot.stand_pose.tolist(),
        "ranges": {field: [limits.lowest, limits.highest] for field, limits in robot.commands.items()},
        "higher": sources[: sources.index(source)],
        **structs.asdict(remote.keyboard),
    }


def ground_facts(cloud: PointCloud2) -> dict[str, Any]:
    """Return the heights [mm] on `terrain` as JSON types. Raises MessageError for an invalid grid."""
    ground = GroundPatch.read(cloud)
    heights = np.round(1e3 * np.clip(ground.heights, -MAX_HEIGHT, MAX_HEIGHT)).astype(int).tolist()
    return {"x": ground.x, "y": ground.y, "step": ground.step, "heights": heights}


def _store_velocity(source: CommandSource, message: Twist | TwistStamped, received: float) -> None:
    twist = message.twist if isinstance(message, TwistStamped) else message
    source.set_velocity(twist.linear.x, twist.linear.y, twist.angular.z, received)


def _store_pose(source: CommandSource, pose: Pose, received: float) -> None:
    source.set_pose(pose.position.z, _xyzw(pose.orientation), received)


def _xyzw(quaternion: Quaternion) -> tuple[float, float, float, float]:
    return quaternion.x, quaternion.y, quaternion.z, quaternion.w


def _rounded(values: npt.ArrayLike | None) -> Any:
    """Return nested lists of numbers, rounded to 4 decimals (0.1 mm, 0.1 mrad); None stays None."""
    return None if values is None else np.round(np.asarray(values, dtype=np.float64), 4).tolist()
