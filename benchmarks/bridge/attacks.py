"""Attacks on a robot's bridge and controller by topics, services and datagrams: the rows of ATTACKS."""

import socket
import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np
from builtin_interfaces.msg import Time
from distortions import WIRE_ATTACKS
from fault_rig import FaultRig
from geometry_msgs.msg import Point, Pose, Quaternion, Twist, Vector3
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.duration import Duration
from rclpy.serialization import serialize_message
from ros_harness import Client
from sensor_msgs.msg import Imu, JointState, Joy
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_core.names import CONTROLLER
from fcnet_ros.targets import gains_text
from fcnet_ros.topics import (
    CMD_POSE,
    CMD_VEL,
    IMU,
    JOINT_GAINS,
    JOINT_STATES,
    JOINT_TRAJECTORY,
    JOY,
    MODE,
    ROBOT_FAULT,
    ROBOT_OWNERSHIP,
    TARGET_OWNER,
    TARGET_REFUSAL,
    Topic,
)
from unitree_lowlevel.codec import JOINTS, MOTORS

CDR = b"\x00\x01\x00\x00"  # little endian
NAN, INFINITY, HUGE = float("nan"), float("inf"), 1e308
MANY = 200_000
CYCLE = 0.02  # [s] between two messages, as the controller sends them
FLOOD = 0.0002  # [s]
Options = ParamSpec("Options")
Result = TypeVar("Result")


class Access:
    """Access of an attacker: a node in the robot's domain, the process ids, the motor board's network."""

    def __init__(self, rig: FaultRig, rng: np.random.Generator) -> None:
        self.rig, self.rng = rig, rng
        self.client = Client(rig.domain, "attacker")
        self.node = self.client.node

    def stamp(self, age: float) -> Time:
        """Return the time of day `age` [s] ago."""
        return (self.node.get_clock().now() - Duration(seconds=age)).to_msg()


Run = Callable[[Access], Any]  # makes an attack


def chosen(function: Callable[Concatenate[Access, Options], Result]) -> Callable[Options, Callable[[Access], Result]]:
    """Bind the options of a function first: the decorated function takes them and returns a function of the access."""

    def choose(*values: Options.args, **options: Options.kwargs) -> Callable[[Access], Result]:
        return lambda access: function(access, *values, **options)

    return choose


@dataclass(frozen=True)
class Attack:
    """An attack; killed and stopped processes are faults of the fault matrix. replaces_io: the I/O process may end."""

    name: str
    run: Run
    kind: Literal["topic", "service", "wire"] = "topic"
    replaces_io: bool = False


@chosen
def trajectory(
    access: Access,
    /,
    positions: Sequence[float],
    names: Sequence[str] = JOINTS,
    age: float = 0.0,
    points: int = 1,
    **values: Sequence[float],
) -> JointTrajectory:
    """Make a joint_trajectory, stamped `age` [s] before now."""
    point = JointTrajectoryPoint(positions=array("d", positions), **values)
    message = JointTrajectory(joint_names=list(names), points=[point] * points)
    message.header.stamp = access.stamp(age)
    return message


@chosen
def off_pose(access: Access, offset: float, age: float = 0.0) -> JointTrajectory:
    """Make acceptable targets, `offset` [rad] from the standing pose to a random side."""
    side = offset * (1 if access.rng.random() < 0.5 else -1)
    robot = access.rig.robot
    return trajectory(np.clip(robot.stand_pose + side, robot.lower, robot.upper).tolist(), age=age)(access)


@chosen
def publish(access: Access, topic: Topic, *messages: Any, duration: float = 0.3, period: float = CYCLE) -> None:
    """Publish the messages in turn for `duration` [s], each at least once; functions make theirs when it is sent."""
    publisher = topic.publisher(access.node)
    time.sleep(0.2)  # for discovery
    number, end = 0, time.monotonic() + duration
    while number < len(messages) or time.monotonic() < end:
        message = messages[number % len(messages)]
        publisher.publish(message(access) if callable(message) else message)
        number += 1
        time.sleep(period)
    time.sleep(0.2)
    access.node.destroy_publisher(publisher)


def damaged(topic: Topic, message: Any) -> Attack:
    """Bytes that are no message of the topic: random, cut, or with lengths of 4 GiB."""

    def make(access: Access) -> bytes:
        rng, whole = access.rng, bytes(serialize_message(message))
        choice = rng.integers(4)
        if choice == 0:
            return CDR + bytes(rng.bytes(int(rng.integers(len(whole) - 3))))
        if choice == 1:
            return whole[: int(rng.integers(4, len(whole) + 1))]
        changed = bytearray(whole)
        for place in rng.integers(4, len(changed), 4 if choice == 2 else 40):
            changed[place] = 255 if choice == 2 else int(rng.integers(256))
        return bytes(changed)

    def run(access: Access) -> None:
        publish(topic, make, duration=0.5, period=0.005)(access)
        if topic is JOINT_GAINS:
            access.rig.offer_gains()

    return Attack(f"damaged bytes on {topic.name}", run)


def texts(topic: Topic, *contents: str) -> Run:
    """Publish texts."""
    return publish(topic, *(String(data=content) for content in contents), duration=0.0, period=0.1)


def uniform_gains(kp: float, kd: float) -> str:
    """Return the message with the same gains for all joints."""
    return gains_text(JOINTS, [kp] * len(JOINTS), [kd] * len(JOINTS))


@chosen
def offered(access: Access, *contents: str) -> None:
    """Offer gains, then the controller's again: after unusable gains the bridge follows no targets until it gets
    others.
    """
    texts(JOINT_GAINS, *contents)(access)
    access.rig.offer_gains()


@chosen
def states(access: Access, names: Sequence[str] = JOINTS, error: float = 0.0) -> JointState:
    """Make joint_states, `error` [rad] from the standing pose."""
    pose = access.rig.robot.stand_pose + error
    values = array("d", np.resize(pose, len(names)))
    message = JointState(name=list(names), position=values, velocity=values, effort=values)
    message.header.stamp = access.stamp(0.0)
    return message


def _imu(x: float, w: float, rate: float = 0.0) -> Imu:
    return Imu(orientation=Quaternion(x=x, w=w), angular_velocity=Vector3(x=rate))


def _twist(x: float, y: float, yaw: float) -> Twist:
    return Twist(linear=Vector3(x=x, y=y), angular=Vector3(z=yaw))


def _pose(z: float, x: float, w: float) -> Pose:
    return Pose(position=Point(z=z), orientation=Quaternion(x=x, w=w))


@chosen
def calls(
    access: Access, node: str, name: str, kind: type, *requests: Any, repeat: int = 1, timeout: float = 3.0
) -> None:
    """Send all requests to a service of "bridge" or "controller"; wait up to `timeout` [s] for the responses, some of
    which may never arrive.
    """
    service = access.node.create_client(kind, f"{access.rig.bridge if node == 'bridge' else node}/{name}")
    if service.wait_for_service(timeout):
        futures = []
        for request in requests * repeat:
            futures.append(service.call_async(request))
            time.sleep(0.002)
        end = time.monotonic() + timeout
        while not all(future.done() for future in futures) and time.monotonic() < end:
            time.sleep(0.01)
    access.node.destroy_client(service)


@chosen
def transitions(access: Access, node: str, *numbers: int) -> None:
    """Request lifecycle transitions by their ids, one after the other."""
    for number in numbers:
        request = ChangeState.Request(transition=Transition(id=number))
        calls(node, "change_state", ChangeState, request, timeout=8.0)(access)


@chosen
def injected(access: Access, kind: str) -> None:
    """Send datagrams from the board's own port among its states."""
    access.rig.board.distort(kind, int(access.rng.integers(2**31)))
    time.sleep(0.25)
    access.rig.board.distort("")
    time.sleep(0.3)


@chosen
def foreign(access: Access, rate: float, duration: float, size: int | None = None) -> None:
    """Send `rate` datagrams a second from another port to the bridge's for `duration` [s]."""
    client = access.rig.board.client()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        began, sent = time.monotonic(), 0
        while client and (elapsed := time.monotonic() - began) < duration:
            while sent < elapsed * rate:
                with suppress(OSError):
                    sender.sendto(access.rng.bytes(size or int(access.rng.integers(1, 60_000))), client)
                sent += 1
            time.sleep(0.001)


NODES = ("bridge", "controller")
DOWN_AND_UP = [getattr(Transition, f"TRANSITION_{way}") for way in ("DEACTIVATE", "CLEANUP", "CONFIGURE", "ACTIVATE")]
ODD_TEXTS = ("", "x" * 1_000_000, "\x00\x01", "{}", "é" * 1000, "0" * 10_000)
ODD_TRANSITIONS = [
    ChangeState.Request(transition=Transition(id=number, label=label))
    for number, label in [*product((0, 255), ("activate", "x" * 10_000)), *product((0, 9, 60, 99, 255), ("",))]
]
ZEROS = [0.0] * MOTORS
BAD_GAINS = (
    '{"kp": ["FR_hip_joint"], "kd": ["FR_hip_joint"]}',
    '{"kp": {"FR_hip_joint": 1' + "0" * 400 + '}, "kd": {}}',
    '{"kp": {"FR_hip_joint": 1' + "0" * 5000 + '}, "kd": {}}',
    "[" * 100_000,
    '{"kp": 1' + "0" * 400 + ', "kd": null}',
    uniform_gains(60.0, 2.0).replace("60.0", "1" + "0" * 400),
    uniform_gains(60.0, 2.0).replace("60.0", '"60"'),
    uniform_gains(60.0, 2.0).replace("60.0", "-60"),
    uniform_gains(60.0, 2.0).replace("60.0", "NaN"),
    *ODD_TEXTS,
)

ATTACKS = (
    # joint_trajectory: a second sender while the controller keeps sending.
    damaged(JOINT_TRAJECTORY, JointTrajectory(joint_names=list(JOINTS), points=[JointTrajectoryPoint()])),
    Attack("targets that are not finite", publish(
        JOINT_TRAJECTORY, trajectory([NAN] * MOTORS), trajectory([INFINITY] * MOTORS), trajectory([HUGE] * MOTORS))),
    Attack("targets of wrong sizes", publish(
        JOINT_TRAJECTORY, trajectory([0.0] * 11), trajectory([0.0] * 13), trajectory([]), trajectory(ZEROS, points=0),
        trajectory(ZEROS, points=2), trajectory(ZEROS, points=1000), trajectory(ZEROS, ["a"] * MOTORS),
        trajectory(ZEROS, JOINTS[:1] * MOTORS), trajectory(ZEROS, velocities=[1.0] * MOTORS, effort=[HUGE] * MOTORS))),
    Attack("200,000 joint names", publish(
        JOINT_TRAJECTORY, lambda access: trajectory(ZEROS, [f"joint_{number}" for number in range(MANY)])(access),
        duration=0.0)),
    Attack("targets 0.7 rad off, between the controller's", publish(JOINT_TRAJECTORY, off_pose(0.7), duration=1.5)),
    Attack("targets 1.8 rad off, every 55 ms", publish(JOINT_TRAJECTORY, off_pose(1.8), duration=1.0, period=0.055)),
    Attack("targets of 10 s ago", publish(JOINT_TRAJECTORY, off_pose(0.2, age=10.0), duration=0.5)),
    Attack("targets of 10 s ahead", publish(JOINT_TRAJECTORY, off_pose(0.2, age=-10.0), duration=0.5)),
    Attack("flood of targets", publish(JOINT_TRAJECTORY, off_pose(0.5), duration=1.5, period=FLOOD)),
    # Gains, ownership, modes and faults: latched texts.
    damaged(JOINT_GAINS, String(data=uniform_gains(60.0, 2.0))),
    *(Attack(f"malformed gains {number}", offered(content)) for number, content in enumerate(BAD_GAINS)),
    Attack("stiff gains without damping", offered(uniform_gains(100.0, 0.03), uniform_gains(100.0, 0.0))),
    Attack("gains beyond their limits", offered(uniform_gains(1e6, 1e6), uniform_gains(1023.0, 2047.0))),
    damaged(ROBOT_OWNERSHIP, String(data="holds 0 x")),
    Attack("the robot owned by another", texts(
        ROBOT_OWNERSHIP, "holds 0 x", "wants 0 x", "holds 1 aliengo_bridge of process 1 on localhost")),
    Attack("malformed ownership", texts(
        ROBOT_OWNERSHIP, f"holds {'9' * 5000} x", "holds -1 x", "holds ٣ x", *ODD_TEXTS)),
    Attack("flood of ownership", publish(
        ROBOT_OWNERSHIP, String(data="wants 99999999999999999999 x"), duration=1.0, period=FLOOD)),
    *(Attack(f"texts on {topic.name}", texts(topic, *ODD_TEXTS, "walking", "fault: x"))
      for topic in (ROBOT_FAULT, TARGET_REFUSAL, TARGET_OWNER, MODE.of(CONTROLLER))),
    # Commands.
    damaged(CMD_VEL, Twist()),
    Attack("odd velocities", publish(
        CMD_VEL, _twist(NAN, NAN, NAN), _twist(INFINITY, 0.0, 0.0), _twist(HUGE, -HUGE, HUGE), duration=0.6)),
    Attack("velocities that change sides", publish(
        CMD_VEL, _twist(2.0, 0.4, 1.2), _twist(-0.8, -0.4, -1.2), duration=1.0)),
    Attack("flood of velocities", publish(CMD_VEL, _twist(0.3, 0.0, 0.0), duration=1.0, period=FLOOD)),
    damaged(CMD_POSE, Pose()),
    Attack("odd poses", publish(
        CMD_POSE, _pose(NAN, NAN, NAN), _pose(HUGE, 0.0, 0.0), _pose(-1.0, 1.0, 0.0), _pose(0.0, 0.0, 0.0))),
    damaged(JOY, Joy(axes=[0.0] * 5, buttons=[0] * 16)),
    Attack("odd joysticks", publish(
        JOY, Joy(), Joy(axes=[NAN] * 5, buttons=[2**31 - 1] * 16), Joy(axes=[HUGE % 1e38] * 2, buttons=[1]),
        Joy(axes=[0.0] * 100_000, buttons=[1] * 100_000))),
    # States of a second publisher.
    damaged(JOINT_STATES, JointState(name=list(JOINTS), position=[0.0] * MOTORS)),
    damaged(IMU, Imu()),
    Attack("states that are not finite", publish(JOINT_STATES, states(error=NAN))),
    Attack("states of other joints", publish(JOINT_STATES, states(["x"] * MOTORS), states([]))),
    Attack("states of 200,000 joints", publish(JOINT_STATES, states(["x"] * MANY), duration=0.0)),
    Attack("states of another robot", publish(JOINT_STATES, states(error=0.8))),
    Attack("odd orientations", publish(IMU, _imu(NAN, NAN), _imu(0.0, 0.0), _imu(1.0, 0.0, HUGE))),
    # Services.
    *(Attack(f"odd transitions of the {node}", calls(node, "change_state", ChangeState, *ODD_TRANSITIONS), "service")
      for node in NODES),
    *(Attack(f"{node} left and entered again", transitions(node, *DOWN_AND_UP), "service", True) for node in NODES),
    *(Attack(f"flood of {name} requests to the {node}", calls(node, name, Trigger, Trigger.Request(), repeat=200),
             "service") for name in ("reset", "recover") for node in NODES),
    Attack("modes in every order", lambda access: [
        calls("controller", name, Trigger, Trigger.Request())(access)
        for name in access.rng.permutation(["stand_up", "walk", "lie_down", "reset", "recover", "walk"])], "service"),
    *(Attack(f"emergency stop of the {node}", calls(
        node, "emergency_stop", SetBool, SetBool.Request(data=True), SetBool.Request(data=False), repeat=5), "service")
      for node in NODES),
    # The wire.
    *(Attack(f"{kind} states from the board's port", injected(kind), "wire") for kind in WIRE_ATTACKS),
    Attack("foreign datagrams", foreign(100.0, 0.5), "wire"),
    Attack("flood of foreign datagrams", foreign(5000.0, 1.5, size=771), "wire"),
    Attack("the board restarts", lambda access: access.rig.board.restart(), "wire"),
)  # fmt: skip
