"""What a page shows of a robot."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from fcnet_core.limiter import DAMP, JointCommand, RefusedCommandError, joint_command
from fcnet_core.observation import SCALARS, SIZE
from fcnet_core.robot import JOINT_NAMES, LEGS, Robot, leg_points, standing_height
from fcnet_core.rotation import matrix_from_xyzw, roll_pitch_yaw
from fcnet_ros.state import NEVER, HandledByNoExecutor, NewestMessage, StateBuffer, StateReceiver
from fcnet_teleop.remote import POSE, VELOCITY, RemoteControl

# What a page shows of one moment: the robot's shape, commands and joints, ready to be sent.

Array = npt.NDArray[np.float64]
FRESH = 0.5  # [s] for which commands, targets and places count


@dataclass(frozen=True)
class Place:
    """Where the trunk is: position (3,) [m] and orientation (4,) x, y, z, w in the world.

    velocity: forward, left [m/s], yaw rate [rad/s] in the trunk's frame.
    """

    position: Array
    orientation: Array
    velocity: tuple[float, float, float]


@dataclass
class Moment:
    """The newest of everything that moves, with the times [s] of its reception.

    obeyed (6,): velocity and pose that the controller feeds its policy.
    """

    state: StateBuffer
    commands: CommandArbiter
    place: Place | None = None
    placed: float = NEVER
    target: JointCommand = DAMP
    targeted: float = NEVER
    obeyed: Array | None = None
    told: float = NEVER


def picture(robot: Robot, moment: Moment, now: float) -> dict[str, Any]:
    """The moment as JSON's types. Points and places in metres, angles in radians, ages in seconds.

    trunk: x, y, z and the rotation's 9 numbers, row by row; legs: 4 legs of 4 points in the trunk's frame; ghost: the
    same for the targets; each null where there is none.
    """
    state, target = moment.state, _target(moment, now)
    seen = bool(np.isfinite(state.joint_position).all() and state.joints_received > NEVER)
    points = leg_points(robot, state.joint_position) if seen else None
    return {
        "t": now,
        "problem": state.problem(now) or "",
        "trunk": None if points is None else _trunk(robot, moment, points, now),
        "legs": None if points is None else _rounded(points),
        "ghost": None if target is None else _rounded(leg_points(robot, target)),
        "joints": _rounded(state.joint_position) if seen else None,
        "targets": None if target is None else _rounded(target),
        "damped": now - moment.targeted <= FRESH and moment.target.targets is None,
        "attitude": _rounded(roll_pitch_yaw(state.orientation)[:2]) if np.isfinite(state.orientation).all() else None,
        "age": None if state.received == NEVER else round(now - state.received, 4),
        "source": moment.commands.source(now),
        "wanted": _wanted(moment, now),
        "measured": _rounded(moment.place.velocity) if moment.place and now - moment.placed <= FRESH else None,
    }


def facts(robot: Robot) -> dict[str, Any]:
    """What a page has to know of the robot beforehand."""
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


def _target(moment: Moment, now: float) -> Array | None:
    return moment.target.targets if now - moment.targeted <= FRESH else None


def _wanted(moment: Moment, now: float) -> list[float]:
    """Velocity and pose: what the controller obeys while its policy walks, else what the sources say."""
    if moment.obeyed is not None and now - moment.told <= FRESH:
        return _rounded(moment.obeyed)
    return _rounded(moment.commands.wanted(now)[: len(VELOCITY) + len(POSE)])


def _trunk(robot: Robot, moment: Moment, points: Array, now: float) -> list[float] | None:
    """Of a robot that nobody says the place of, we know the attitude; it stands on the spot."""
    if moment.place is not None and now - moment.placed <= FRESH:
        rotation = matrix_from_xyzw(moment.place.orientation)
        return [*_rounded(moment.place.position), *_rounded(rotation.ravel())]
    length = np.linalg.norm(moment.state.orientation)
    if not 0.5 < length < 2.0:  # false for NaN
        return None
    rotation = matrix_from_xyzw(moment.state.orientation / length)
    return [0.0, 0.0, round(standing_height(robot, points, rotation), 4), *_rounded(rotation.ravel())]


def _rounded(values: npt.ArrayLike) -> list[Any]:
    return np.round(np.asarray(values, dtype=np.float64), 4).tolist()


# What has been said lately: mode, faults, health and answers.

OUTDATED = 3.0  # [s] after which a status that should come every second is no more true
FORGOTTEN = 60.0  # [s]
MOST_ANSWERS = 8
LEVELS = ("ok", "warning", "error", "stale")


class MonitorNews:
    """Collects what the page shows in words. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._mode = ""
        self._robot_fault = ""
        self._statuses: dict[str, tuple[float, dict[str, Any]]] = {}
        self._answers: deque[str] = deque(maxlen=MOST_ANSWERS)
        self._count = 0

    @property
    def mode(self) -> str:
        """The controller's mode; empty before it has told one."""
        return self._mode

    def set_mode(self, mode: str) -> None:
        """Take the controller's mode."""
        self._mode = mode

    def set_robot_fault(self, fault: str) -> None:
        """Take what a robot's bridge says; empty where all is well."""
        self._robot_fault = fault

    def set_status(self, name: str, level: int, message: str, values: Sequence[tuple[str, str]], now: float) -> None:
        """Take one status of diagnostics."""
        told = {"name": name, "level": LEVELS[min(level, len(LEVELS) - 1)], "message": message, "values": dict(values)}
        self._statuses[name] = (now, told)

    def answer(self, sentence: str) -> None:
        """Take an answer to what a page has asked for."""
        self._count += 1
        self._answers.append(sentence)

    def told(self, now: float) -> dict[str, Any]:
        """All of it as JSON's types; `old` where a status is out of date, `faults`: why the robot is not to be used."""
        self._statuses = {name: entry for name, entry in self._statuses.items() if now - entry[0] <= FORGOTTEN}
        statuses = [{**told, "old": now - since > OUTDATED} for since, told in self._statuses.values()]
        return {
            "mode": self._mode,
            "faults": self._faults(statuses),
            "statuses": sorted(statuses, key=lambda status: status["name"]),
            "answers": list(self._answers),
            "answered": self._count,
        }

    def _faults(self, statuses: list[dict[str, Any]]) -> list[str]:
        faults = [f"robot: {self._robot_fault}"] if self._robot_fault else []
        for status in statuses:
            node = status["name"].partition(":")[0]
            if status["old"]:
                faults.append(f"{node} has been silent for more than {OUTDATED:g} s")
            elif status["level"] == "error" and status["message"] != self._robot_fault:
                faults.append(f"{node}: {status['message']}")
        return faults


# Receives what a robot, its controller and those who command it say, without a callback for what comes often.

WANTED = slice(len(SCALARS), len(SCALARS) + 6)  # of a policy step: velocity and pose


class MonitorReceiver:
    """Subscriptions that fill a Moment when asked; used by one thread."""

    def __init__(self, node: Node, controller: str, remote: RemoteControl, stamped: bool) -> None:
        self.moment = Moment(StateBuffer(FRESH), CommandArbiter(FRESH))
        self._states = StateReceiver(node, self.moment.state)
        group = HandledByNoExecutor()

        def listen(kind: type, topic: str, store: Callable[[Any, float], None]) -> NewestMessage:
            return NewestMessage(node, kind, topic, store, group)

        self._parts = [
            listen(Odometry, "odom", self._store_place),
            listen(JointTrajectory, "joint_trajectory", self._store_target),
            listen(Float64MultiArray, f"{controller}/policy_step", self._store_step),
        ]
        store = _store_stamped if stamped else _store_velocity
        for topics in remote.sources:
            source = self.moment.commands.add_source(topics.name)
            kind = TwistStamped if stamped else Twist
            self._parts.append(listen(kind, topics.velocity, partial(store, source)))
            self._parts.append(listen(Pose, topics.pose, partial(_store_pose, source)))

    def receive(self) -> Moment:
        """The newest of everything, without waiting."""
        self._states.receive(NEVER, time.monotonic())
        for part in self._parts:
            part.store(NEVER)
        return self.moment

    def _store_place(self, odom: Odometry, received: float) -> None:
        place, motion = odom.pose.pose, odom.twist.twist
        position = np.array([place.position.x, place.position.y, place.position.z])
        turn = place.orientation
        orientation = np.array([turn.x, turn.y, turn.z, turn.w])
        velocity = (motion.linear.x, motion.linear.y, motion.angular.z)
        if np.isfinite([*position, *orientation, *velocity]).all():
            self.moment.place, self.moment.placed = Place(position, orientation, velocity), received

    def _store_target(self, trajectory: JointTrajectory, received: float) -> None:
        if not trajectory.points:
            return
        point = trajectory.points[0]
        try:
            self.moment.target = joint_command(trajectory.joint_names, point.positions, point.velocities, point.effort)
        except RefusedCommandError:
            return  # the robot's bridge tells
        self.moment.targeted = received

    def _store_step(self, step: Float64MultiArray, received: float) -> None:
        if len(step.data) == SIZE and all(map(math.isfinite, step.data)):
            self.moment.obeyed, self.moment.told = np.array(step.data[WANTED]), received


def _store_velocity(source: CommandSource, twist: Twist, received: float) -> None:
    source.set_velocity(twist.linear.x, twist.linear.y, twist.angular.z, received)


def _store_stamped(source: CommandSource, message: TwistStamped, received: float) -> None:
    _store_velocity(source, message.twist, received)


def _store_pose(source: CommandSource, pose: Pose, received: float) -> None:
    turn = pose.orientation
    source.set_pose(pose.position.z, (turn.x, turn.y, turn.z, turn.w), received)
