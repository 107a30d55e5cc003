"""What a page draws: the robot's shape, joints, targets and commands, received and sent as snapshots."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from geometry_msgs.msg import Pose, Twist, TwistStamped
from nav_msgs.msg import Odometry
from rclpy.node import Node
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.command import CommandArbiter, CommandSource
from fcnet_core.limiter import DAMP, RefusedCommandError, joint_command
from fcnet_core.observation import SCALARS, SIZE
from fcnet_core.robot import JOINT_NAMES, LEGS, Robot, leg_points, standing_height
from fcnet_core.rotation import matrix_from_xyzw
from fcnet_ros.messages import NEVER, NewestMessage, StateBuffer, StateReceiver
from fcnet_ros.topics import CMD_POSE, CMD_VEL, JOINT_TRAJECTORY, ODOM, POLICY_STEP
from fcnet_teleop.remote import POSE, VELOCITY, RemoteControl

TIMEOUT = 0.5  # [s] for which commands, targets and odometry count
STEP_SETPOINT = slice(len(SCALARS), len(SCALARS) + len(VELOCITY) + len(POSE))  # in ~/policy_step

Array = npt.NDArray[np.float64]


class RobotView:
    """The newest state, odometry, targets and commands; used by one thread.

    No message has a callback: all are decoded when a snapshot is taken.
    """

    def __init__(self, node: Node, robot: Robot, controller: str, remote: RemoteControl, stamped: bool) -> None:
        self._robot = robot
        self._state, self._commands = StateBuffer(TIMEOUT), CommandArbiter(TIMEOUT)
        self._place: tuple[Array, Array] | None = None  # position (3,) [m], orientation (4,) x, y, z, w
        self._measured = (0.0, 0.0, 0.0)  # velocity: forward, left [m/s], yaw rate [rad/s] in the trunk's frame
        self._target, self._setpoint = DAMP, np.zeros(len(VELOCITY) + len(POSE))
        self._odometry_time = self._target_time = self._setpoint_time = NEVER  # of reception
        self._states = StateReceiver(node, self._state)
        self._messages = [
            NewestMessage(node, ODOM, self._store_odometry),
            NewestMessage(node, JOINT_TRAJECTORY, self._store_target),
            NewestMessage(node, POLICY_STEP.of(controller), self._store_step),
        ]
        kind, store = (TwistStamped, _store_stamped) if stamped else (Twist, _store_velocity)
        for topics in remote.sources:
            source = self._commands.add_source(topics.name)
            velocity, pose = CMD_VEL.named(topics.velocity, kind), CMD_POSE.named(topics.pose)
            self._messages.append(NewestMessage(node, velocity, partial(store, source)))
            self._messages.append(NewestMessage(node, pose, partial(_store_pose, source)))

    def snapshot(self) -> dict[str, Any]:
        """Receive without waiting; return the newest of everything as JSON's types.

        t: monotonic time [s]. Points and places in metres, angles in radians, ages in seconds. trunk: x, y, z and the
        rotation's 9 numbers, row by row; legs: 4 legs of 4 points in the trunk's frame; ghost: the same for the
        targets; each null where there is none.
        """
        self._states.receive(NEVER, time.monotonic())
        for message in self._messages:
            message.store(NEVER)
        now, state = time.monotonic(), self._state
        target = self._target.targets if now - self._target_time <= TIMEOUT else None
        has_joints = bool(np.isfinite(state.joint_position).all() and state.joints_received > NEVER)
        points = leg_points(self._robot, state.joint_position) if has_joints else None
        return {
            "t": now,
            "problem": state.problem(now) or "",
            "trunk": None if points is None else self._trunk(points, now),
            "legs": _rounded(points),
            "ghost": None if target is None else _rounded(leg_points(self._robot, target)),
            "joints": _rounded(state.joint_position) if has_joints else None,
            "targets": _rounded(target),
            "damped": now - self._target_time <= TIMEOUT and self._target.targets is None,
            "age": None if state.received == NEVER else round(now - state.received, 4),
            "source": self._commands.source(now),
            "commanded": _rounded(self._commanded(now)),
            "measured": _rounded(self._measured) if now - self._odometry_time <= TIMEOUT else None,
        }

    def _commanded(self, now: float) -> Array:
        """Velocity and pose: of the controller's policy while it walks, else of the source in control."""
        if now - self._setpoint_time <= TIMEOUT:
            return self._setpoint
        return self._commands.wanted(now)[: len(VELOCITY) + len(POSE)]

    def _trunk(self, points: Array, now: float) -> list[float] | None:
        """Without odometry, the attitude is the IMU's and the robot stands at the origin."""
        if self._place is not None and now - self._odometry_time <= TIMEOUT:
            position, orientation = self._place
            return [*_rounded(position), *_rounded(matrix_from_xyzw(orientation).ravel())]
        length = np.linalg.norm(self._state.orientation)
        if not 0.5 < length < 2.0:  # false for NaN
            return None
        rotation = matrix_from_xyzw(self._state.orientation / length)
        height = standing_height(self._robot, points, rotation)
        return [0.0, 0.0, round(height, 4), *_rounded(rotation.ravel())]

    def _store_odometry(self, odometry: Odometry, received: float) -> None:
        position, orientation = odometry.pose.pose.position, odometry.pose.pose.orientation
        linear, yaw_rate = odometry.twist.twist.linear, odometry.twist.twist.angular.z
        place = np.array([position.x, position.y, position.z]), _xyzw(orientation)
        velocity = linear.x, linear.y, yaw_rate
        if np.isfinite([*place[0], *place[1], *velocity]).all():
            self._place, self._measured, self._odometry_time = place, velocity, received

    def _store_target(self, trajectory: JointTrajectory, received: float) -> None:
        if not trajectory.points:
            return
        point = trajectory.points[0]
        try:
            self._target = joint_command(trajectory.joint_names, point.positions, point.velocities, point.effort)
        except RefusedCommandError:
            return  # the robot's bridge reports it
        self._target_time = received

    def _store_step(self, step: Float64MultiArray, received: float) -> None:
        if len(step.data) == SIZE and all(map(math.isfinite, step.data)):
            self._setpoint, self._setpoint_time = np.array(step.data[STEP_SETPOINT]), received


def robot_facts(robot: Robot) -> dict[str, Any]:
    """Return what a page has to know of the robot beforehand, as JSON's types."""
    size = robot.geometry
    return {
        "robot": robot.name,
        "trunk": list(size.trunk),
        "foot": size.foot_radius,
        "height": robot.nominal_height,
        "legs": list(LEGS),
        "joints": list(JOINT_NAMES),
        "lower": robot.lower.tolist(),
        "upper": robot.upper.tolist(),
        "stand": robot.stand_pose.tolist(),
        "ranges": {
            field: [robot.commands[field].lowest, robot.commands[field].highest] for field in (*VELOCITY, *POSE)
        },
    }


def _store_velocity(source: CommandSource, twist: Twist, received: float) -> None:
    source.set_velocity(twist.linear.x, twist.linear.y, twist.angular.z, received)


def _store_stamped(source: CommandSource, message: TwistStamped, received: float) -> None:
    _store_velocity(source, message.twist, received)


def _store_pose(source: CommandSource, pose: Pose, received: float) -> None:
    turn = pose.orientation
    source.set_pose(pose.position.z, (turn.x, turn.y, turn.z, turn.w), received)


def _xyzw(quaternion: Any) -> Array:
    return np.array([quaternion.x, quaternion.y, quaternion.z, quaternion.w])


def _rounded(values: npt.ArrayLike | None) -> Any:
    """Lists of numbers, to 0.1 mm or 0.1 mrad; None stays None."""
    return None if values is None else np.round(np.asarray(values, dtype=np.float64), 4).tolist()
