"""The topics and services of the controller."""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from builtin_interfaces.msg import Time as TimeMessage
from geometry_msgs.msg import Pose, Twist, TwistStamped
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.time import Time
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, MultiArrayLayout, String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_controller.control_core import ControlCore
from fcnet_controller.posture import Answer
from fcnet_core.command import CommandArbiter, CommandSource
from fcnet_core.model_file import PolicyCard
from fcnet_core.observation import LABEL, SIZE, PolicyStep
from fcnet_core.remote import RemoteMap, load_remote_map
from fcnet_core.robot import JOINT_NAMES
from fcnet_ros.state import seconds

# Listens to what a robot's bridge says about itself.

class BridgeListener:
    """robot_fault, why it has stopped the robot, and robot_obstacle, why it would not follow targets now; both latched.

    In words, or nothing while all is well; a simulated robot publishes neither.
    """

    def __init__(self, node: Node, core: ControlCore) -> None:
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        topics = {"robot_fault": core.take_robot_fault, "robot_obstacle": core.take_robot_obstacle}
        self._subscriptions = [
            node.create_subscription(String, topic, lambda message, take=take: take(message.data), latched)
            for topic, take in topics.items()
        ]

    def destroy(self, node: Node) -> None:
        """Stop listening."""
        for subscription in self._subscriptions:
            node.destroy_subscription(subscription)


# Receives cmd_vel and cmd_pose of every source in config/remote.yaml.

QUIET = 2.0  # [s] between two warnings about the same


class CommandReceiver:
    """Subscriptions that hand people's and planners' commands to a CommandArbiter, and tell who takes over.

    Raises RemoteFileError where config/remote.yaml cannot be used.
    """

    def __init__(self, node: Node, commands: CommandArbiter, stamped: bool, remote: RemoteMap | None = None) -> None:
        self._node = node
        self._commands = commands
        self._told = ""
        self._subscriptions: list[Any] = []
        take = self._take_stamped if stamped else self._take
        for topics in (remote or load_remote_map()).sources:
            source = commands.add_source(topics.name)
            self._subscribe(TwistStamped if stamped else Twist, topics.velocity, partial(take, source))
            self._subscribe(Pose, topics.pose, partial(self._take_pose, source))

    def destroy(self, node: Node) -> None:
        """Stop receiving."""
        for subscription in self._subscriptions:
            node.destroy_subscription(subscription)

    def _subscribe(self, kind: type, topic: str, take: Any) -> None:
        self._subscriptions.append(self._node.create_subscription(kind, topic, take, QoSProfile(depth=1)))

    def _take(self, source: CommandSource, message: Twist) -> None:
        self._set_velocity(source, message, 0.0)

    def _take_stamped(self, source: CommandSource, message: TwistStamped) -> None:
        """A stamp makes a command as old as it says; a stamp of zero says nothing."""
        stamp = Time.from_msg(message.header.stamp, clock_type=self._node.get_clock().clock_type)
        age = (self._node.get_clock().now() - stamp).nanoseconds * 1e-9 if stamp.nanoseconds else 0.0
        self._set_velocity(source, message.twist, max(age, 0.0))

    def _set_velocity(self, source: CommandSource, twist: Twist, age: float) -> None:
        now = time.monotonic()
        self._warn(source.set_velocity(twist.linear.x, twist.linear.y, twist.angular.z, now - age))
        self._tell_source(now)

    def _take_pose(self, source: CommandSource, message: Pose) -> None:
        now, attitude = time.monotonic(), message.orientation
        orientation = (attitude.x, attitude.y, attitude.z, attitude.w)
        self._warn(source.set_pose(message.position.z, orientation, now))
        self._tell_source(now)

    def _tell_source(self, now: float) -> None:
        source = self._commands.source(now)
        if not source or source == self._told:
            return
        before, self._told = self._told, source
        self._node.get_logger().info(f"{source} takes over from {before}" if before else f"{source} is in control")

    def _warn(self, sentence: str | None) -> None:
        if sentence is not None:
            self._node.get_logger().warning(sentence, throttle_duration_sec=QUIET)


# Offers the robot's bridge the gains that the policy was trained with.

class GainsPublisher:
    """joint_gains, latched: {"kp": {joint: stiffness [Nm/rad]}, "kd": {joint: damping [Nms/rad]}} as JSON.

    The bridge bounds them by the robot file; a simulated robot has those of the robot file anyway.
    """

    def __init__(self, node: Node, card: PolicyCard) -> None:
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._publisher = node.create_publisher(String, "joint_gains", latched)
        gains = {
            "kp": dict(zip(card.joint_names, card.kp, strict=True)),
            "kd": dict(zip(card.joint_names, card.kd, strict=True)),
        }
        self._publisher.publish(String(data=json.dumps(gains)))

    def destroy(self, node: Node) -> None:
        """Stop offering."""
        node.destroy_publisher(self._publisher)


# Publishes what the joints shall do.

NOTHING = array("d")
AT_REST = array("d", [0.0] * len(JOINT_NAMES))


class TargetPublisher:
    """joint_trajectory with one point: positions, or velocities of zero alone, which ask for damping.

    Besides, for recordings, ~/policy_step: what went into a step of the policy (fcnet_core/observation.py). A message
    is made once and filled again, by one thread at a time. depth: targets that are kept for a slow listener.
    """

    def __init__(self, node: Node, topic: str = "joint_trajectory", depth: int = 1) -> None:
        self._publisher = node.create_publisher(JointTrajectory, topic, QoSProfile(depth=depth))
        self._step_publisher = node.create_publisher(
            Float64MultiArray, "~/policy_step", QoSProfile(depth=max(depth, 10))
        )
        layout = MultiArrayLayout(dim=[MultiArrayDimension(label=LABEL, size=SIZE, stride=SIZE)])
        self._step = Float64MultiArray(layout=layout)
        self._clock = node.get_clock()
        self._point = JointTrajectoryPoint()
        self._previous_stamp = self._stamp = 0.0
        self._message = JointTrajectory(joint_names=list(JOINT_NAMES), points=[self._point])

    def publish(self, target: npt.NDArray[np.float64] | None, stamp: TimeMessage | None = None) -> None:
        """Send position targets (12,) [rad], or None for damping; stamp: None for now."""
        self._point.positions = NOTHING if target is None else array("d", target.tobytes())
        self._point.velocities = AT_REST if target is None else NOTHING
        self._message.header.stamp = self._clock.now().to_msg() if stamp is None else stamp
        self._publisher.publish(self._message)
        self._previous_stamp, self._stamp = self._stamp, seconds(self._message.header.stamp)

    def tell_step(self, step: PolicyStep) -> None:
        """Publish what led to the targets just sent."""
        stamped = replace(step, target_stamp=self._stamp, previous_stamp=self._previous_stamp)
        self._step.data = array("d", stamped.vector().tobytes())
        self._step_publisher.publish(self._step)

    def destroy(self, node: Node) -> None:
        """Stop publishing."""
        node.destroy_publisher(self._publisher)
        node.destroy_publisher(self._step_publisher)


# The services by which a robot is told what to do.

INACTIVE = Answer(False, "the controller is not active; configure and activate it, or start it with auto_activate")
STILL_STOPPED = Answer(False, "a stop is not lifted like this: remove its cause, then call ~/reset")


class ModeServices:
    """~/stand_up, ~/walk, ~/lie_down, ~/reset and ~/emergency_stop; `active_core` gives None while inactive."""

    def __init__(self, node: Node, active_core: Callable[[], ControlCore | None]) -> None:
        self._active_core = active_core
        requests: dict[str, Callable[[ControlCore], Answer]] = {
            "stand_up": lambda core: core.stand_up(time.monotonic()),
            "walk": lambda core: core.walk(),
            "lie_down": lambda core: core.lie_down(),
            "reset": lambda core: core.reset(),
        }
        for name, request in requests.items():
            node.create_service(Trigger, f"~/{name}", self._handler(request))
        node.create_service(SetBool, "~/emergency_stop", self._stop)

    def _handler(self, request: Callable[[ControlCore], Answer]) -> Callable[[Any, Any], Any]:
        def handle(_request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            core = self._active_core()
            return _fill(response, INACTIVE if core is None else request(core))

        return handle

    def _stop(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        core = self._active_core()
        if core is None:
            return _fill(response, INACTIVE)
        return _fill(response, core.emergency_stop() if request.data else STILL_STOPPED)


def _fill(response: Any, answer: Answer) -> Any:
    response.success, response.message = answer.accepted, answer.sentence
    return response
