"""Publishes the commands of one source, and asks controller and bridge for changes of mode."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from geometry_msgs.msg import Pose, Twist, TwistStamped
from rclpy.client import Client
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.task import Future
from std_srvs.srv import SetBool, Trigger

from fcnet_core.remote import Source
from fcnet_teleop.remote import Request

# Publishes the commands of one source.

class CommandPublisher:
    """Sends setpoints by field, as velocity and as pose, on the topics of a source."""

    def __init__(self, node: Node, source: Source, stamped: bool) -> None:
        self._node = node
        self._stamped = stamped
        self._velocity = node.create_publisher(TwistStamped if stamped else Twist, source.velocity, 1)
        self._pose = node.create_publisher(Pose, source.pose, 1)

    def send_velocity(self, setpoint: dict[str, float]) -> None:
        """Send vx, vy [m/s] and yaw_rate [rad/s]."""
        velocity = Twist()
        velocity.linear.x, velocity.linear.y = setpoint["vx"], setpoint["vy"]
        velocity.angular.z = setpoint["yaw_rate"]
        self._velocity.publish(self._stamp(velocity) if self._stamped else velocity)

    def send_pose(self, setpoint: dict[str, float]) -> None:
        """Send height [m], roll and pitch [rad]."""
        pose, half_roll, half_pitch = Pose(), setpoint["roll"] / 2, setpoint["pitch"] / 2
        pose.position.z = setpoint["height"]
        pose.orientation.x = math.sin(half_roll) * math.cos(half_pitch)
        pose.orientation.y = math.cos(half_roll) * math.sin(half_pitch)
        pose.orientation.z = -math.sin(half_roll) * math.sin(half_pitch)
        pose.orientation.w = math.cos(half_roll) * math.cos(half_pitch)
        self._pose.publish(pose)

    def _stamp(self, velocity: Twist) -> TwistStamped:
        stamped = TwistStamped(twist=velocity)
        stamped.header.stamp = self._node.get_clock().now().to_msg()
        stamped.header.frame_id = "base_link"
        return stamped


# Asks a controller, and the bridge of a real robot, for changes of mode.

REPEAT_INTERVAL = 0.2  # [s] between two emergency stops while nobody confirms
PERSISTENCE = 5.0  # [s] for which an emergency stop is repeated
RESET_DELAY = 0.2  # [s] in which the controller hears that the bridge is no longer in fault


class ModeClient:
    """Calls services without waiting for them; `tell` gets their answers, in words.

    An emergency stop is sent at once, whatever is pending, to the controller and to the bridge if there is one, and
    repeated until each has confirmed it. A reset goes to the bridge first, then to the controller.
    """

    def __init__(self, node: Node, controller: str, bridge: str, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._requests = {
            request: node.create_client(Trigger, f"{controller}/{request.value}")
            for request in Request
            if request is not Request.EMERGENCY_STOP
        }
        names = [controller, bridge] if bridge else [controller]
        self._stops = [node.create_client(SetBool, f"{name}/{Request.EMERGENCY_STOP.value}") for name in names]
        self._bridge_reset = node.create_client(Trigger, f"{bridge}/{Request.RESET.value}") if bridge else None
        self._unconfirmed: dict[Client, float] = {}  # until when to go on
        self._refusals: dict[Client, str] = {}
        steady = Clock(clock_type=ClockType.STEADY_TIME)  # goes on where simulated time stands still
        self._stop_timer = node.create_timer(REPEAT_INTERVAL, self._repeat_stops, clock=steady)
        self._stop_timer.cancel()
        self._reset_timer = node.create_timer(RESET_DELAY, self._reset_controller, clock=steady)
        self._reset_timer.cancel()

    def ask(self, request: Request) -> None:
        """Ask once; an emergency stop until it is confirmed."""
        if request is Request.EMERGENCY_STOP:
            self._stop()
        elif request is Request.RESET and self._bridge_reset is not None:
            self._call(self._bridge_reset, lambda: self._reset_timer.reset())
        else:
            self._call(self._requests[request])

    def _call(self, service: Client, then: Callable[[], None] | None = None) -> None:
        if not service.service_is_ready():
            self._tell(f"{service.srv_name} is not there; is its node running?")
            return

        def hear(future: Future) -> None:
            self._tell(future.result().message)
            if then is not None:
                then()

        service.call_async(Trigger.Request()).add_done_callback(hear)

    def _reset_controller(self) -> None:
        self._reset_timer.cancel()
        self._call(self._requests[Request.RESET])

    def _stop(self) -> None:
        for service in self._stops:
            if not service.service_is_ready():
                self._tell(f"{service.srv_name} is not there yet; the stop is repeated for {PERSISTENCE:g} s")
            self._unconfirmed[service] = time.monotonic() + PERSISTENCE
        self._refusals.clear()
        self._stop_timer.reset()
        self._repeat_stops()

    def _repeat_stops(self) -> None:
        if not self._unconfirmed:
            self._stop_timer.cancel()
        for service, end in list(self._unconfirmed.items()):
            if time.monotonic() > end:
                del self._unconfirmed[service]
                self._tell(f"{service.srv_name} has not confirmed the emergency stop; stop the robot by hand")
            elif service.service_is_ready():
                service.call_async(SetBool.Request(data=True)).add_done_callback(self._confirmation(service))

    def _confirmation(self, service: Client) -> Callable[[Future], None]:
        def hear(future: Future) -> None:
            answer = future.result()
            if answer.success and self._unconfirmed.pop(service, None) is not None:
                self._tell(answer.message)
            elif not answer.success and self._refusals.get(service) != answer.message:
                self._refusals[service] = answer.message
                self._tell(answer.message)

        return hear
