from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("rclpy", reason="the stand-in alone, without ROS from wheels, has no topics")

Finish = Callable[..., tuple[int, str]]
Start = Callable[..., "subprocess.Popen[str]"]

# Responds to a service, latches a text, publishes positions without guarantee and prints the velocities received.
PARTNER = """
import rclpy
from geometry_msgs.msg import Twist
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool

def respond(request, response):
    response.success, response.message = request.data, "done"
    return response

rclpy.init()
node = rclpy.create_node("partner")
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
def partner(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", PARTNER], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def until(words: str, ask: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """The first answer with these words: of a whole graph, a busy computer has not found all in the first second."""
    return next(answer for _ in range(10) if words in (answer := ask())[1])


def test_topics_are_listed(finish: Finish, partner: subprocess.Popen[str]):
    until("/joint_states [sensor_msgs/msg/JointState]\n", lambda: finish("topic", "list", "-t"))


def test_echo_shows_messages_of_any_quality_of_service(finish: Finish, partner: subprocess.Popen[str]):
    assert finish("topic", "echo", "--once", "/mode") == (0, "data: walking\n---\n")
    assert "position:\n- 0.25\n" in finish("topic", "echo", "--once", "joint_states")[1]


def test_info_names_who_publishes_and_subscribes(finish: Finish, partner: subprocess.Popen[str]):
    code, output = until("/partner", lambda: finish("topic", "info", "-v", "/cmd_vel"))
    assert code == 0
    assert output.splitlines() == [
        "Type: geometry_msgs/msg/Twist", "Publisher count: 0", "Subscription count: 1", "  /partner"
    ]  # fmt: skip


def test_pub_sends_what_it_is_given(start: Start, partner: subprocess.Popen[str]):
    start("topic", "pub", "-r", "10", "/cmd_vel", "geometry_msgs/msg/Twist", "{linear: {x: 0.5}}")
    assert partner.stdout is not None
    assert partner.stdout.readline() == "moved 0.5\n"


def test_hz_prints_a_rate_and_says_where_nobody_publishes(start: Start, partner: subprocess.Popen[str]):
    published, silent = start("topic", "hz", "/joint_states"), start("topic", "hz", "/cmd_vel")
    for process, words in ((published, "average rate: "), (silent, "does not appear to be published yet")):
        assert process.stdout is not None
        assert any(words in line for line in process.stdout)  # a busy computer may warn before it finds one


def test_call_prints_the_response(finish: Finish, partner: subprocess.Popen[str]):
    code, output = finish("service", "call", "/stop", "std_srvs/srv/SetBool", "{data: true}")
    assert (code, "success=True, message='done'" in output) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("topic", "echo", "--once", "/nothing"), "topic '/nothing' does not exist"),
        (("topic", "pub", "/x", "geometry_msgs/msg/Twits", "{}"), "is not installed"),
        (("topic", "pub", "/x", "geometry_msgs/msg/Twist", "{liner: 1}"), "no field 'liner'; it has: linear, angular"),
        (("topic", "pub", "/x", "geometry_msgs/msg/Twist", "{linear: {x: fast}}"), "cannot be 'fast'"),
        (("service", "call", "/nothing", "std_srvs/srv/Trigger"), "no node offers the service '/nothing'"),
    ],
)
def test_what_cannot_be_done_ends_with_a_sentence(finish: Finish, arguments: tuple[str, ...], sentence: str):
    code, output = finish(*arguments)
    assert (code, sentence in output) == (1, True)
    assert "Traceback" not in output


def test_run_becomes_the_executable(finish: Finish):
    if "AMENT_PREFIX_PATH" not in os.environ:
        pytest.skip("needs the built workspace")
    code, output = finish("run", "fcnet_teleop", "no_such_program")
    assert (code, "teleop_keyboard" in output) == (1, True)
