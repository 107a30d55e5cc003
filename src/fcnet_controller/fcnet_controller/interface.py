"""The controller's topics and services: commands in, targets and gains out, mode requests, and the robot's bridge."""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from builtin_interfaces.msg import Time as TimeMessage
from geometry_msgs.msg import Pose, Twist, TwistStamped
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.subscription import Subscription
from rclpy.time import Time
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, MultiArrayLayout, String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_controller.control_core import ControlCore
from fcnet_controller.posture import Response
from fcnet_core.arrays import Array
from fcnet_core.command import CommandArbiter, CommandSource
from fcnet_core.model_file import PolicyCard
from fcnet_core.observation import LABEL, SIZE, PolicyStep
from fcnet_core.remote import Source, load_remote_map
from fcnet_core.robot import JOINT_NAMES
from fcnet_ros.state import seconds
from fcnet_ros.topics import (
    CMD_POSE,
    CMD_VEL,
    JOINT_GAINS,
    JOINT_TRAJECTORY,
    POLICY_STEP,
    ROBOT_FAULT,
    TARGET_REFUSAL,
    Topic,
)

WARNING_PERIOD = 2.0  # [s] between two warnings about the same
NOTHING = array("d")
AT_REST = array("d", [0.0] * len(JOINT_NAMES))
INACTIVE = Response(False, "the controller is not active; configure and activate it, or start it with auto_activate")
STILL_STOPPED = Response(False, "a stop is not lifted like this: remove its cause, then call ~/reset")


class CommandReceiver:
    """Hands the velocity and pose commands of every source to a CommandArbiter, and logs which source takes over.

    sources: the most important first; None for those of config/remote.yaml, which raises FcnetError where that
    cannot be used. stamped: velocities are TwistStamped.
    """

    def __init__(
        self, node: Node, commands: CommandArbiter, stamped: bool, sources: Sequence[Source] | None = None
    ) -> None:
        self._node = node
        self._commands = commands
        self._controlling = ""  # name of the source whose commands count
        self.subscriptions: list[Subscription] = []
        velocity = CMD_VEL.named("", TwistStamped) if stamped else CMD_VEL
        receive = self._receive_stamped if stamped else self._receive
        for topics in load_remote_map().sources if sources is None else sources:
            source = commands.add_source(topics.name)
            self.subscriptions += [
                velocity.named(topics.velocity).subscribe(node, partial(receive, source)),
                CMD_POSE.named(topics.pose).subscribe(node, partial(self._receive_pose, source)),
            ]

    def _receive(self, source: CommandSource, message: Twist) -> None:
        self._set_velocity(source, message, 0.0)

    def _receive_stamped(self, source: CommandSource, message: TwistStamped) -> None:
        """A stamp makes a command as old as it says; a stamp of zero says nothing."""
        stamp = Time.from_msg(message.header.stamp, clock_type=self._node.get_clock().clock_type)
        age = (self._node.get_clock().now() - stamp).nanoseconds * 1e-9 if stamp.nanoseconds else 0.0
        self._set_velocity(source, message.twist, max(age, 0.0))

    def _set_velocity(self, source: CommandSource, twist: Twist, age: float) -> None:
        now = time.monotonic()
        self._warn(source.set_velocity(twist.linear.x, twist.linear.y, twist.angular.z, now - age))
        self._log_source(now)

    def _receive_pose(self, source: CommandSource, message: Pose) -> None:
        now, attitude = time.monotonic(), message.orientation
        orientation = (attitude.x, attitude.y, attitude.z, attitude.w)
        self._warn(source.set_pose(message.position.z, orientation, now))
        self._log_source(now)

    def _log_source(self, now: float) -> None:
        source = self._commands.source(now)
        if not source or source == self._controlling:
            return
        before, self._controlling = self._controlling, source
        self._node.get_logger().info(f"{source} takes over from {before}" if before else f"{source} is in control")

    def _warn(self, sentence: str | None) -> None:
        if sentence is not None:
            self._node.get_logger().warning(sentence, throttle_duration_sec=WARNING_PERIOD)


class TargetPublisher:
    """Publishes joint_trajectory with one point: positions, or velocities of zero alone, which ask for damping.

    Besides, for recordings, ~/policy_step: what went into a step of the policy (fcnet_core/observation.py). A message
    is made once and filled again, by one thread at a time.
    """

    def __init__(self, node: Node, targets: Topic = JOINT_TRAJECTORY, steps: Topic = POLICY_STEP) -> None:
        self.publishers = [targets.publisher(node), steps.publisher(node)]
        self._clock = node.get_clock()
        self._point = JointTrajectoryPoint()
        self._message = JointTrajectory(joint_names=list(JOINT_NAMES), points=[self._point])
        layout = MultiArrayLayout(dim=[MultiArrayDimension(label=LABEL, size=SIZE, stride=SIZE)])
        self._step = Float64MultiArray(layout=layout)
        self._previous_stamp = self._stamp = 0.0

    def publish(self, target: Array | None, stamp: TimeMessage | None = None) -> None:
        """Send position targets (12,) [rad], or None for damping; stamp: None for now."""
        self._point.positions = NOTHING if target is None else array("d", target.tobytes())
        self._point.velocities = AT_REST if target is None else NOTHING
        self._message.header.stamp = self._clock.now().to_msg() if stamp is None else stamp
        self.publishers[0].publish(self._message)
        self._previous_stamp, self._stamp = self._stamp, seconds(self._message.header.stamp)

    def wait_until_received(self, timeout: float) -> None:
        """Return when every reliable subscriber has the targets that were sent, or after `timeout` [s]."""
        self.publishers[0].wait_for_all_acked(Duration(seconds=timeout))

    def publish_step(self, step: PolicyStep) -> None:
        """Publish what led to the targets just sent."""
        stamped = replace(step, target_stamp=self._stamp, previous_stamp=self._previous_stamp)
        self._step.data = array("d", stamped.vector().tobytes())
        self.publishers[1].publish(self._step)


def publish_gains(node: Node, card: PolicyCard) -> Publisher:
    """Publish joint_gains, those that the policy was trained with, as JSON of joint names to numbers.

    {"kp": stiffness [Nm/rad], "kd": damping [Nms/rad]}. The bridge bounds them by the robot file; a simulated robot has
    those of the robot file anyway.
    """
    publisher = JOINT_GAINS.publisher(node)
    gains = {name: dict(zip(card.joint_names, getattr(card, name), strict=True)) for name in ("kp", "kd")}
    publisher.publish(String(data=json.dumps(gains)))
    return publisher


def subscribe_to_bridge(node: Node, core: ControlCore) -> list[Subscription]:
    """Give the core what the robot's bridge publishes of itself; a simulated robot publishes neither."""
    return [
        ROBOT_FAULT.subscribe(node, lambda message: core.set_bridge_fault(message.data)),
        TARGET_REFUSAL.subscribe(node, lambda message: core.set_target_refusal(message.data)),
    ]


def create_mode_services(node: Node, active_core: Callable[[], ControlCore | None]) -> None:
    """Create ~/stand_up, ~/walk, ~/lie_down, ~/reset, ~/emergency_stop; `active_core` returns None while inactive."""
    requests: dict[str, Callable[[ControlCore], Response]] = {
        "stand_up": lambda core: core.stand_up(time.monotonic()),
        "walk": lambda core: core.walk(),
        "lie_down": lambda core: core.lie_down(),
        "reset": lambda core: core.reset(),
    }

    def respond(request: Callable[[ControlCore], Response], message: Any) -> Any:
        core = active_core()
        response = INACTIVE if core is None else request(core)
        message.success, message.message = response.success, response.message
        return message

    def stop(request: SetBool.Request, message: SetBool.Response) -> SetBool.Response:
        return respond(lambda core: core.emergency_stop() if request.data else STILL_STOPPED, message)

    for name, request in requests.items():
        node.create_service(Trigger, f"~/{name}", lambda _, message, request=request: respond(request, message))
    node.create_service(SetBool, "~/emergency_stop", stop)
