"""Topics and services in ROS: the names of fcnet_core/names.py with their message classes and quality of service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Pose, Twist
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import Log
from rclpy.callback_groups import CallbackGroup
from rclpy.clock import Clock as RealClock
from rclpy.clock import ClockType
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from rclpy.timer import Timer
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState, Joy, PointCloud2
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from fcnet_core import names
from fcnet_core.errors import FcnetError
from fcnet_core.names import CONTROLLER, Request
from fcnet_core.robot import Robot
from fcnet_core.urdf import robot_urdf
from fcnet_ros.serialized import MAX_SIZE

try:
    from tf2_msgs.msg import TFMessage
except ImportError:  # part of a distribution; there is no wheel
    TFMessage = None

NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
RELIABLE_NEWEST = QoSProfile(depth=1)
RELIABLE = QoSProfile(depth=10)
LARGE = 1_000_000  # [bytes] limit of topics with large messages or other publishers
WARNING_PERIOD = 2.0  # [s] between two warnings about the same
STOPPED = "stopped: the joints are damped until ~/reset"
STILL_STOPPED = "~/emergency_stop does not end a stop: remove its cause, then call ~/reset"


@dataclass(frozen=True)
class Topic:
    """A topic. kind: its message class. offered, requested: quality of service of publishers and subscriptions.

    limit [bytes]: larger serialised messages are dropped before they are decoded. missing: what to do without a
    publisher; empty if that is as usual.
    """

    name: str
    kind: type[Any]
    offered: QoSProfile
    requested: QoSProfile
    recorded: bool = True
    limit: int = MAX_SIZE
    missing: str = ""

    def of(self, node_name: str) -> Topic:
        """Return this topic of the node called `node_name`."""
        return replace(self, name=self.name.replace("~", node_name, 1))

    def named(self, name: str, kind: type[Any] | None = None) -> Topic:
        """Return this topic under another name, and as another type."""
        return replace(self, name=name, kind=kind or self.kind)

    def publisher(self, node: Node) -> Publisher:
        """Create a publisher."""
        return node.create_publisher(self.kind, self.name, self.offered)

    def subscribe(self, node: Node, take: Callable[[Any], None]) -> Subscription:
        """Create a subscription whose messages an executor passes to `take`."""

        def take_bounded(content: bytes) -> None:
            if len(content) <= self.limit:
                take(deserialize_message(content, self.kind))
            else:
                found = f"a message of {len(content)} bytes on {self.name} is ignored; the limit is {self.limit}"
                node.get_logger().warning(found, throttle_duration_sec=WARNING_PERIOD)

        return self.create_subscription(node, take_bounded)

    def create_subscription(self, node: Node, take: Callable[[bytes], None], **options: Any) -> Subscription:
        """Create a subscription whose serialised messages, of any size, an executor passes to `take`."""
        subscription = node.create_subscription(self.kind, self.name, take, self.requested, raw=True, **options)
        SUBSCRIBED[subscription] = self
        return subscription


SUBSCRIBED: WeakKeyDictionary[Subscription, Topic] = WeakKeyDictionary()  # for what checks all of a node's
START_ROBOT = "start the robot's bridge or the simulator, in this namespace"
JOINT_STATES = Topic(names.JOINT_STATES.name, JointState, qos_profile_sensor_data, NEWEST, missing=START_ROBOT)
IMU = Topic(names.IMU.name, Imu, qos_profile_sensor_data, NEWEST, missing=START_ROBOT)
ODOM = Topic(names.ODOM.name, Odometry, RELIABLE, qos_profile_sensor_data)  # reliable for RViz
# From odom to base_link. The name is relative as all others: robots in different namespaces have the same frames.
TF = None if TFMessage is None else Topic(names.TF.name, TFMessage, RELIABLE, RELIABLE, limit=LARGE)
ROBOT_DESCRIPTION = Topic(names.ROBOT_DESCRIPTION.name, String, LATCHED, LATCHED, limit=LARGE)
TERRAIN = Topic(names.TERRAIN.name, PointCloud2, LATCHED, LATCHED, recorded=False, limit=LARGE)
START_CONTROLLER = "start a controller, in this namespace"
JOINT_TRAJECTORY = Topic(
    names.JOINT_TRAJECTORY.name, JointTrajectory, RELIABLE_NEWEST, NEWEST, missing=START_CONTROLLER
)
JOINT_GAINS = Topic(names.JOINT_GAINS.name, String, LATCHED, LATCHED, limit=LARGE)  # larger ones are refused later
ROBOT_FAULT = Topic(names.ROBOT_FAULT.name, String, LATCHED, LATCHED)
TARGET_REFUSAL = Topic(names.TARGET_REFUSAL.name, String, LATCHED, LATCHED)
TARGET_OWNER = Topic(names.TARGET_OWNER.name, String, LATCHED, LATCHED)
ROBOT_OWNERSHIP = Topic(names.ROBOT_OWNERSHIP.name, String, RELIABLE, RELIABLE, recorded=False)
# Best effort accepts every publisher; the depth keeps short presses of a button.
JOY = Topic(names.JOY.name, Joy, RELIABLE_NEWEST, QoSProfile(depth=20, reliability=ReliabilityPolicy.BEST_EFFORT))
MODE = Topic(names.MODE.name, String, LATCHED, LATCHED, missing=START_CONTROLLER)
POLICY_STEP = Topic(names.POLICY_STEP.name, Float64MultiArray, RELIABLE, RELIABLE)
CMD_VEL = Topic(
    names.CMD_VEL.name, Twist, RELIABLE_NEWEST, RELIABLE_NEWEST, missing="publish velocities, or start a remote control"
)
CMD_POSE = Topic(names.CMD_POSE.name, Pose, RELIABLE_NEWEST, RELIABLE_NEWEST)
# Of a simulation or a replay; requested as ROS itself does with use_sim_time.
CLOCK = Topic(names.CLOCK.name, Clock, RELIABLE, NEWEST, recorded=False)
DIAGNOSTICS = Topic(names.DIAGNOSTICS.name, DiagnosticArray, RELIABLE, RELIABLE, limit=LARGE)
ROSOUT = Topic(names.ROSOUT.name, Log, RELIABLE, RELIABLE, limit=LARGE)

# All topics above; those of a node have the controller's usual name.
TOPICS = tuple(topic.of(CONTROLLER) for topic in list(globals().values()) if isinstance(topic, Topic))


class LatchedText:
    """A text on a latched topic."""

    def __init__(self, node: Node, topic: Topic) -> None:
        self.publisher = topic.publisher(node)
        self._text: str | None = None

    def publish(self, text: str) -> bool:
        """Publish the text if it differs from the last one; return whether it does."""
        if text == self._text:
            return False
        self._text = text
        self.repeat()
        return True

    def repeat(self) -> None:
        """Publish the last text again, to replace texts of other publishers."""
        if self._text is not None:
            self.publisher.publish(String(data=self._text))


def publish_description(node: Node, robot: Robot) -> None:
    """Publish the robot's URDF on a latched topic; log instead that a robot has none."""
    try:
        urdf = robot_urdf(robot)
    except FcnetError as error:
        node.get_logger().info(f"nothing is published on robot_description: {error}")
    else:
        LatchedText(node, ROBOT_DESCRIPTION).publish(urdf)


def steady_timer(node: Node, period: float, callback: Callable[[], object]) -> Timer:
    """Create a timer with `period` [s] of real time, also with use_sim_time: /clock may stand still."""
    return node.create_timer(period, callback, clock=RealClock(clock_type=ClockType.STEADY_TIME))


@contextmanager
def temporary_entities(node: Node) -> Iterator[None]:
    """Destroy at the end the publishers, subscriptions and timers that the node created in this context."""
    before = {*node.publishers, *node.subscriptions, *node.timers}
    try:
        yield
    finally:
        for timer in set(node.timers) - before:
            node.destroy_timer(timer)
        for subscription in set(node.subscriptions) - before:
            if subscription.topic_name != CLOCK.name:  # rclpy's own, for use_sim_time
                node.destroy_subscription(subscription)
        for publisher in set(node.publishers) - before:
            node.destroy_publisher(publisher)


class NoExecutor(CallbackGroup):
    """The group of what no executor handles."""

    def can_execute(self, entity: Any) -> bool:
        return False


def create_request_services(
    node: Node, requests: Mapping[str, Callable[[], str]], emergency_stop: Callable[[], None] | None = None
) -> None:
    """Create the service ~/NAME for each request by name, and ~/emergency_stop if there is one.

    A request returns the text of its response; if it raises ValueError or OSError, the response is a refusal with it.
    """

    def respond(request: Callable[[], str], _message: Any, response: Any) -> Any:
        try:
            response.message, response.success = request(), True
        except (ValueError, OSError) as refusal:  # OSError: such as too many open files
            response.message = str(refusal)
        node.get_logger().info(response.message)
        return response

    def stop(message: Any) -> str:
        if not message.data or emergency_stop is None:
            raise ValueError(STILL_STOPPED)
        emergency_stop()
        return STOPPED

    def respond_to_stop(message: Any, response: Any) -> Any:
        return respond(partial(stop, message), message, response)

    for name, request in requests.items():
        node.create_service(Trigger, f"~/{name}", partial(respond, request))
    if emergency_stop is not None:
        node.create_service(SetBool, f"~/{Request.EMERGENCY_STOP.value}", respond_to_stop)
