"""The controller's inputs from operators and programs: velocities and poses on topics, changes of mode by services."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from geometry_msgs.msg import Pose, Twist, TwistStamped
from rclpy.node import Node
from rclpy.time import Time
from std_srvs.srv import SetBool, Trigger

from fcnet_controller.control_core import ControlCore
from fcnet_controller.posture import Response
from fcnet_core.command import CommandArbiter, CommandSource
from fcnet_core.remote import Source, load_remote_map
from fcnet_ros.topics import CMD_POSE, CMD_VEL

WARNING_PERIOD = 2.0  # [s] between two warnings about the same
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
        velocity = CMD_VEL.named("", TwistStamped) if stamped else CMD_VEL
        receive = self._receive_stamped if stamped else self._receive
        for topics in load_remote_map().sources if sources is None else sources:
            source = commands.add_source(topics.name)
            velocity.named(topics.velocity).subscribe(node, partial(receive, source))
            CMD_POSE.named(topics.pose).subscribe(node, partial(self._receive_pose, source))

    def _receive(self, source: CommandSource, message: Twist, age: float = 0.0) -> None:
        now = time.monotonic()
        self._log(source.set_velocity(message.linear.x, message.linear.y, message.angular.z, now - age), now)

    def _receive_stamped(self, source: CommandSource, message: TwistStamped) -> None:
        """The command's age is that of its stamp; a stamp of zero counts as now."""
        stamp = Time.from_msg(message.header.stamp, clock_type=self._node.get_clock().clock_type)
        age = (self._node.get_clock().now() - stamp).nanoseconds * 1e-9 if stamp.nanoseconds else 0.0
        self._receive(source, message.twist, max(age, 0.0))

    def _receive_pose(self, source: CommandSource, message: Pose) -> None:
        now, attitude = time.monotonic(), message.orientation
        orientation = (attitude.x, attitude.y, attitude.z, attitude.w)
        self._log(source.set_pose(message.position.z, orientation, now), now)

    def _log(self, warning: str | None, now: float) -> None:
        """Log a warning, if there is one, and the source in control, if that is another than before."""
        if warning is not None:
            self._node.get_logger().warning(warning, throttle_duration_sec=WARNING_PERIOD)
        source = self._commands.source(now)
        if source and source != self._controlling:
            before, self._controlling = self._controlling, source
            self._node.get_logger().info(f"{source} takes over from {before}" if before else f"{source} is in control")


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
