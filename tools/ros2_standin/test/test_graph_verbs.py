"""Verbs that ask running nodes: `ros2 topic`, `service` and `param`."""

import subprocess
from collections.abc import Callable

import pytest

pytest.importorskip("rclpy", reason="the stand-in alone, without ROS from wheels, has no topics")


# Has parameters, responds to a service, latches a text, publishes positions without guarantee and prints velocities.
PARTNER = """
import rclpy
from geometry_msgs.msg import Twist
from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool

def respond(request, response):
    response.success, response.message = request.data, "done"
    return response

rclpy.init()
node = rclpy.create_node("partner", namespace="/dog")
width = ParameterDescriptor(description="width [m]", floating_point_range=[FloatingPointRange(to_value=1.0)])
node.declare_parameter("width", 0.25, width)
node.declare_parameter("robot", "mule", ParameterDescriptor(description="robot", read_only=True))
node.declare_parameter("gains", [1.0, 2.0])
node.create_service(SetBool, "stop", respond)
mode = node.create_publisher(String, "mode", QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))
mode.publish(String(data="walking"))
joints = node.create_publisher(JointState, "joint_states", qos_profile_sensor_data)
node.create_timer(0.02, lambda: joints.publish(JointState(name=["hip"], position=[0.25])))
node.create_subscription(Twist, "cmd_vel", lambda message: print("moved", message.linear.x, flush=True), 10)
print("ready", flush=True)
rclpy.spin(node)
"""


@pytest.fixture
def partner(python, until_printed) -> subprocess.Popen[str]:
    process = python("-c", PARTNER)
    until_printed(process, "ready")
    return process


@pytest.fixture
def param(here, partner) -> Callable[..., tuple[int, str]]:
    """Run `ros2 param ...`."""
    return lambda command: here("param", *command.split(" "))


def until(words: str, ask: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """The first answer with these words: of a whole graph, a busy computer has not found all in the first second."""
    return next(answer for _ in range(10) if words in (answer := ask())[1])


def test_topics_are_listed_and_shown_with_their_ends_and_messages(here, partner):
    assert until("/dog/joint_states [sensor_msgs/msg/JointState]\n", lambda: here("topic", "list", "-t"))[0] == 0
    assert here("topic", "echo", "--once", "/dog/mode") == (0, "data: walking\n---\n")
    assert "position:\n- 0.25\n" in here("topic", "echo", "--once", "dog/joint_states")[1]
    code, output = until("/dog/partner", lambda: here("topic", "info", "-v", "/dog/cmd_vel"))
    assert (code, output.splitlines()) == (0, [
        "Type: geometry_msgs/msg/Twist", "Publisher count: 0", "Subscription count: 1", "  /dog/partner"
    ])  # fmt: skip


def test_pub_sends_what_it_is_given_and_hz_prints_a_rate_or_that_nobody_publishes(start, partner, until_printed):
    start("topic", "pub", "-r", "10", "/dog/cmd_vel", "geometry_msgs/msg/Twist", "{linear: {x: 0.5}}")
    assert until_printed(partner, "moved") == "moved 0.5\n"
    published, silent = start("topic", "hz", "/dog/joint_states"), start("topic", "hz", "/silent")
    until_printed(published, "average rate: ")  # a busy computer may warn before it finds one
    until_printed(silent, "does not appear to be published yet")


def test_call_prints_the_response(here, partner):
    code, output = here("service", "call", "/dog/stop", "std_srvs/srv/SetBool", "{data: true}")
    assert (code, "success=True, message='done'" in output) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("topic", "echo", "--once", "/nothing"), "topic '/nothing' does not exist"),
        (("topic", "pub", "/x", "geometry_msgs/msg/Twits", "{}"), "is not installed"),
        (("topic", "pub", "/x", "geometry_msgs/msg/Twist", "{liner: 1}"), "no field 'liner'; it has: linear, angular"),
        (("topic", "pub", "/x", "geometry_msgs/msg/Twist", "{linear: {x: fast}}"), "cannot be 'fast'"),
        (("service", "call", "/nothing", "std_srvs/srv/Trigger"), "no node offers the service '/nothing'"),
    ],
)
def test_what_cannot_be_done_is_an_error(here, arguments: tuple[str, ...], words: str):
    code, output = here(*arguments)
    assert (code, words in output) == (1, True), output


def test_parameters_are_listed_described_and_read_as_upstream_prints_them(param):
    names = "  gains\n  robot\n  start_type_description_service\n  use_sim_time\n  width\n"
    assert param("list /dog/partner") == (0, names)
    assert param("describe /dog/partner width robot")[1].splitlines() == [
        "Parameter name: width", "  Type: double", "  Description: width [m]", "  Constraints:",
        "    Min value: 0.0", "    Max value: 1.0",
        "Parameter name: robot", "  Type: string", "  Description: robot", "  Constraints:", "    Read only: true",
    ]  # fmt: skip
    assert param("get dog/partner width") == (0, "Double value is: 0.25\n")
    assert param("get /dog/partner gains") == (0, "Double values are: [1.0, 2.0]\n")


def test_a_value_is_set_or_refused_with_the_nodes_reason(param):
    assert param("set /dog/partner width 0.5") == (0, "Set parameter successful\n")
    assert param("get /dog/partner width") == (0, "Double value is: 0.5\n")
    for command, words in [
        ("set /dog/partner width 2.0", "width out of range"),
        ("set /dog/partner width wide", "Wrong parameter type"),
        ("set /dog/partner robot a1", "read-only parameter: robot"),
        ("set /dog/partner widht 0.5", "widht"),
        ("get /nobody width", "no node '/nobody' runs"),
    ]:
        code, output = param(command)
        assert (code, words in output) == (1, True), output
