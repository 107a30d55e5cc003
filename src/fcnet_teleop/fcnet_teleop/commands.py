"""Publishes the commands of one source, and requests changes of mode from the controller and the bridge."""

import time
from collections.abc import Callable, Mapping, Sequence

from geometry_msgs.msg import Pose, Twist, TwistStamped
from rcl_interfaces.srv import SetParameters
from rclpy.client import Client
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.task import Future
from std_srvs.srv import SetBool, Trigger

from fcnet_core.names import BASE_FRAME, STYLE_PARAMETERS, Request
from fcnet_core.remote import Source
from fcnet_core.rotation import xyzw_from_roll_pitch
from fcnet_ros.state_messages import fill_quaternion
from fcnet_ros.topics import CMD_POSE, CMD_VEL, steady_timer
from fcnet_teleop.controls import VELOCITY, Command

REPEAT_PERIOD = 0.2  # [s] between two emergency stops while one is not confirmed
STOP_TIMEOUT = 5.0  # [s] for which an emergency stop is repeated
FLUSH_TIMEOUT = 0.3  # [s]
BRIDGE_DELAY = 0.2  # [s] for the new state of the bridge to reach the controller


class CommandPublisher:
    """Publishes commands on the topics of a source."""

    def __init__(self, node: Node, source: Source, stamped: bool) -> None:
        self._clock = node.get_clock()
        self._stamped = stamped
        self._velocity = CMD_VEL.named(source.velocity, TwistStamped if stamped else Twist).publisher(node)
        self._pose = CMD_POSE.named(source.pose).publisher(node)

    def publish(self, command: Command) -> None:
        """Publish the velocity and the pose of the command, if it has them."""
        if command.velocity is not None:
            velocity = Twist()
            velocity.linear.x, velocity.linear.y = command.velocity["vx"], command.velocity["vy"]
            velocity.angular.z = command.velocity["yaw_rate"]
            if self._stamped:
                velocity = TwistStamped(twist=velocity)
                velocity.header.stamp = self._clock.now().to_msg()
                velocity.header.frame_id = BASE_FRAME
            self._velocity.publish(velocity)
        if command.pose is not None:
            pose = Pose()
            pose.position.z = command.pose["height"]
            fill_quaternion(pose.orientation, xyzw_from_roll_pitch(command.pose["roll"], command.pose["pitch"]))
            self._pose.publish(pose)

    def stop(self) -> None:
        """Publish zero velocity and wait until it has arrived: a node that exits drops unsent messages."""
        self.publish(Command(velocity=dict.fromkeys(VELOCITY, 0.0)))
        self._velocity.wait_for_all_acked(Duration(seconds=FLUSH_TIMEOUT))


class StyleClient:
    """Sets the controller's gait-style parameters; `report` is called with error messages."""

    def __init__(self, node: Node, controller: str, report: Callable[[str], None]) -> None:
        self._report = report
        self._service = node.create_client(SetParameters, f"{controller}/set_parameters")

    def request(self, style: Mapping[str, float]) -> None:
        """Request changes, by the fields of STYLE_PARAMETERS, if there are any."""
        if not style:
            return
        if not self._service.service_is_ready():
            self._report(f"the service {self._service.srv_name} is missing; is the controller running?")
            return
        changes = [Parameter(STYLE_PARAMETERS[field], value=value) for field, value in style.items()]
        request = SetParameters.Request(parameters=[change.to_parameter_msg() for change in changes])
        self._service.call_async(request).add_done_callback(self._take)

    def _take(self, future: Future) -> None:
        for result in future.result().results:
            if not result.successful:
                self._report(result.reason)


class ModeClient:
    """Requests changes of mode without waiting; `report` is called with the text of each response.

    An emergency stop is sent immediately, regardless of pending requests, to the controller and to the bridge, if any,
    and repeated until each has confirmed it. A reset and a recovery go to the bridge first and, if it accepts, to the
    controller.
    """

    def __init__(self, node: Node, controller: str, bridge: str, report: Callable[[str], None]) -> None:
        self._report = report
        self._services: dict[Request, list[Client]] = {}
        for request in Request:
            kind = SetBool if request is Request.EMERGENCY_STOP else Trigger
            takes_part = request in (Request.EMERGENCY_STOP, Request.RESET, Request.RECOVER)
            names = [bridge, controller] if bridge and takes_part else [controller]
            self._services[request] = [node.create_client(kind, f"{name}/{request.value}") for name in names]
        self._unconfirmed: dict[Client, float] = {}  # end of the repetition of the stop [s]
        self._reported: set[tuple[Client, str]] = set()  # responses to the stop
        self._stop_timer = steady_timer(node, REPEAT_PERIOD, self._repeat_stops)
        self._next: Sequence[Client] = ()  # services to call after the bridge has accepted
        self._next_timer = steady_timer(node, BRIDGE_DELAY, self._call_next)
        self._stop_timer.cancel()
        self._next_timer.cancel()

    def request(self, request: Request) -> None:
        """Send a request once; an emergency stop until it is confirmed."""
        if request is not Request.EMERGENCY_STOP:
            self._call(self._services[request])
            return
        for service in self._services[request]:
            if not service.service_is_ready():
                self._report(f"the service {service.srv_name} is missing; the stop is repeated for {STOP_TIMEOUT:g} s")
            self._unconfirmed[service] = time.monotonic() + STOP_TIMEOUT
        self._reported.clear()
        self._stop_timer.reset()
        self._repeat_stops()

    def _call(self, services: Sequence[Client]) -> None:
        """Call the first service; if it succeeds, the timer calls the next one, the controller's."""
        service, *others = services
        if not service.service_is_ready():
            self._report(f"the service {service.srv_name} is missing; is its node running?")
            return

        def take(future: Future) -> None:
            self._report(future.result().message)
            if others and future.result().success:
                self._next = others
                self._next_timer.reset()

        service.call_async(Trigger.Request()).add_done_callback(take)

    def _call_next(self) -> None:
        self._next_timer.cancel()
        self._call(self._next)

    def _repeat_stops(self) -> None:
        if not self._unconfirmed:
            self._stop_timer.cancel()
        for service, end in list(self._unconfirmed.items()):
            if time.monotonic() > end:
                del self._unconfirmed[service]
                self._report(f"{service.srv_name} has not confirmed the emergency stop; stop the robot by hand")
            elif service.service_is_ready():
                stop = service.call_async(SetBool.Request(data=True))
                stop.add_done_callback(lambda future, service=service: self._take_stop(service, future.result()))

    def _take_stop(self, service: Client, response: SetBool.Response) -> None:
        if response.success:
            self._unconfirmed.pop(service, None)
        if (service, response.message) not in self._reported:
            self._reported.add((service, response.message))
            self._report(response.message)
