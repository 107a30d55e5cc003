"""The topics and services of a bridge."""

from __future__ import annotations

import json
import math
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from sensor_msgs.msg import Imu, JointState, Joy
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.limiter import JointCommand, RefusedCommandError, joint_command
from fcnet_core.robot import JOINT_NAMES
from fcnet_ros.recorder_gate import RecorderGate
from fcnet_ros.state import PolledSubscription
from unitree_lowlevel.driver import MotorDriver
from unitree_lowlevel.messages import BUTTONS, LowState, decode_remote

# What a joint_gains message offers.

Array = npt.NDArray[np.float64]


class UnreadableGainsError(ValueError):
    """Gains that cannot be read; the sentence says why."""


@dataclass(frozen=True)
class JointGains:
    """Stiffness kp [Nm/rad] and damping kd [Nms/rad], each (12,) in JOINT_NAMES order; whether a robot may have them is
    for its driver to judge.
    """

    kp: Array
    kd: Array


def read_gains(text: str) -> JointGains:
    """Read {"kp": {joint: stiffness}, "kd": {joint: damping}}. Raises UnreadableGainsError."""
    try:
        offered = json.loads(text)
        return JointGains(kp=_of_all_joints("kp", offered["kp"]), kd=_of_all_joints("kd", offered["kd"]))
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UnreadableGainsError(
            f'joint_gains must be {{"kp": {{joint: value}}, "kd": {{joint: value}}}} as JSON, found {text[:80]!r}'
        ) from error


def _of_all_joints(what: str, values: dict[str, Any]) -> Array:
    if odd := sorted(set(values) ^ set(JOINT_NAMES)):
        raise UnreadableGainsError(f"joint_gains must give {what} for each joint once; look at {', '.join(odd)}")
    if not all(isinstance(value, (int, float)) for value in values.values()):
        raise UnreadableGainsError(f"joint_gains must give numbers for {what}, found {values}")
    return np.array([float(values[joint]) for joint in JOINT_NAMES])


# Takes the gains that the controller offers.

class GainsReceiver:
    """joint_gains, latched. `state` tells which gains are used: the robot file's, those offered, or why none are."""

    def __init__(self, node: Node, driver: MotorDriver) -> None:
        self.state = "of the robot file"
        self._logger = node.get_logger()
        self._driver = driver
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._subscription = node.create_subscription(String, "joint_gains", self._take, latched)

    def destroy(self, node: Node) -> None:
        """Stop receiving."""
        node.destroy_subscription(self._subscription)

    def _take(self, message: String) -> None:
        try:
            gains = read_gains(message.data)
            problem = self._driver.set_gains(gains.kp, gains.kd)
        except UnreadableGainsError as error:
            self._driver.set_gains(math.nan, math.nan)  # which it refuses: no targets without the gains meant for them
            problem = str(error)
        self.state = f"refused: {problem}" if problem else "as offered on joint_gains"
        if problem:
            self._logger.error(f"gains refused: {problem}")


# The services by which a bridge is stopped and set free again.

UNCONFIGURED = "the bridge is not configured and moves nothing; configure it, or start it with auto_start"
STILL_STOPPED = "a stop is not lifted like this: remove its cause, then call ~/reset"


class MotorServices:
    """~/reset and ~/emergency_stop; `connected_driver` gives None while there is no connection."""

    def __init__(self, node: Node, connected_driver: Callable[[], MotorDriver | None]) -> None:
        self._logger = node.get_logger()
        self._connected_driver = connected_driver
        node.create_service(Trigger, "~/reset", self._reset)
        node.create_service(SetBool, "~/emergency_stop", self._stop)

    def _reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        driver = self._connected_driver()
        if driver is None:
            return _fill(response, False, UNCONFIGURED)
        answer = driver.reset(time.monotonic())
        self._logger.info(answer.message)
        return _fill(response, answer.success, answer.message)

    def _stop(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        driver = self._connected_driver()
        if driver is None:
            return _fill(response, False, UNCONFIGURED)
        if not request.data:
            return _fill(response, False, STILL_STOPPED)
        driver.emergency_stop("asked for by ~/emergency_stop")
        return _fill(response, True, "stopped: the joints are damped until ~/reset")


def _fill(response: Any, accepted: bool, sentence: str) -> Any:
    response.success, response.message = accepted, sentence
    return response


# Publishes the robot's wireless remote as a joystick.

REMOTE_FRAME = "unitree_remote"  # by which whoever reads joy knows the layout, see config/remote.yaml


class RemotePublisher:
    """joy: axes lx, ly, rx, ry (right and forward are positive, -1 to 1) and L2; the 16 buttons in BUTTONS' order."""

    def __init__(self, node: Node) -> None:
        self._publisher = node.create_publisher(Joy, "joy", 1)
        self._clock = node.get_clock()
        self._message = Joy()
        self._message.header.frame_id = REMOTE_FRAME

    def publish(self, remote: bytes) -> None:
        """Publish the 40 bytes of a remote."""
        state = decode_remote(remote)
        self._message.header.stamp = self._clock.now().to_msg()
        self._message.axes = array("f", (state.lx, state.ly, state.rx, state.ry, state.L2))
        self._message.buttons = array("i", (name in state.buttons for name in BUTTONS))
        self._publisher.publish(self._message)

    def destroy(self, node: Node) -> None:
        """Stop publishing."""
        node.destroy_publisher(self._publisher)


# Publishes what the robot's sensors say.

IMU_FRAME = "imu_link"
TOPICS = ("joint_states", "imu/data")


class StatePublisher:
    """joint_states (effort is the board's estimate of the torque) and imu/data, frame imu_link.

    The messages are made once and filled again, by one thread at a time. Nothing is published while `gate` is closed:
    a robot without states is not moved.
    """

    def __init__(self, node: Node, gate: RecorderGate) -> None:
        self._gate = gate
        self._joints_publisher = node.create_publisher(JointState, "joint_states", qos_profile_sensor_data)
        self._imu_publisher = node.create_publisher(Imu, "imu/data", qos_profile_sensor_data)
        self._clock = node.get_clock()
        self._joints = JointState(name=list(JOINT_NAMES))
        self._imu = Imu()
        self._imu.header.frame_id = IMU_FRAME

    def publish(self, state: LowState) -> None:
        """Publish a state that has just been received."""
        if not self._gate.is_open:
            return
        stamp = self._clock.now().to_msg()
        imu, joints = self._imu, self._joints
        imu.header.stamp = joints.header.stamp = stamp
        turned, rate, acceleration = imu.orientation, imu.angular_velocity, imu.linear_acceleration
        turned.x, turned.y, turned.z, turned.w = state.orientation.tolist()
        rate.x, rate.y, rate.z = state.angular_velocity.tolist()
        acceleration.x, acceleration.y, acceleration.z = state.linear_acceleration.tolist()
        joints.position = _doubles(state.position)
        joints.velocity = _doubles(state.velocity)
        joints.effort = _doubles(state.torque)
        self._imu_publisher.publish(imu)
        self._joints_publisher.publish(joints)

    def destroy(self, node: Node) -> None:
        """Stop publishing."""
        node.destroy_publisher(self._joints_publisher)
        node.destroy_publisher(self._imu_publisher)


def _doubles(values: npt.NDArray[np.float64]) -> array[float]:
    return array("d", values.tobytes())


# Receives joint_trajectory when the loop asks for it.

NEWEST_ONLY = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


class TargetReceiver:
    """The newest command on joint_trajectory, for one thread."""

    def __init__(self, node: Node) -> None:
        self._subscription = PolledSubscription(node, JointTrajectory, "joint_trajectory", NEWEST_ONLY)

    def take(self) -> JointCommand | None:
        """The command that came since the last call, or None.

        Raises RefusedCommandError for one that cannot be followed.
        """
        message = self._subscription.take()
        return None if message is None else _read(message)

    def destroy(self, node: Node) -> None:
        """Stop receiving."""
        self._subscription.destroy(node)


def _read(message: JointTrajectory) -> JointCommand:
    if len(message.points) != 1:
        raise RefusedCommandError(f"joint_trajectory has {len(message.points)} points; send exactly one")
    point = message.points[0]
    return joint_command(message.joint_names, point.positions, point.velocities, point.effort)
