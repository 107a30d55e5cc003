"""What arrives by DDS and makes no sense: it is refused with a sentence, and the bridge goes on."""

import sys

import pytest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import DescribeParameters, GetParameters, SetParameters, SetParametersAtomically
from ros_harness import Process

from unitree_lowlevel.driver import DriverMode

NAME = "aliengo_bridge"
INTRUDER = """
import time, rclpy
from rclpy.serialization import serialize_message
from trajectory_msgs.msg import JointTrajectory
from fcnet_ros.topics import JOINT_TRAJECTORY
rclpy.init()
publisher = JOINT_TRAJECTORY.publisher(rclpy.create_node("intruder"))
content = serialize_message(JointTrajectory(joint_names=["j"] * 40_000))
while True:
    if publisher.get_subscription_count():
        publisher.publish(content)
        print("sent", flush=True)
    time.sleep(0.5)
"""


@pytest.fixture
def unharmed(bridge, client):
    """The bridge, which is in its place and damps its robot also after the test."""
    yield bridge
    client.until_driver_mode(DriverMode.DAMPING)
    assert bridge.alive
    assert "Traceback" not in bridge.output


@pytest.mark.parametrize(
    "transition",
    [
        Transition(id=250),
        Transition(id=Transition.TRANSITION_CONFIGURE),  # it is active
        Transition(id=Transition.TRANSITION_CALLBACK_ERROR),
        Transition(label="garbage \U0001f916" * 1000),
        Transition(label="transition_error"),
    ],
)
def test_a_transition_that_is_none_fails(unharmed, client, transition):
    assert not client.call(f"{NAME}/change_state", ChangeState, transition=transition).success


def test_values_of_odd_types_change_no_parameter_of_a_running_bridge(unharmed, client):
    values = [ParameterValue(type=kind, string_array_value=["x"] * 10) for kind in (0, 1, 3, 9, 77, 255)]
    names = ("network.port", "no_such_parameter", "", "a" * 10_000)
    odd = [Parameter(name=name, value=value) for name in names for value in values]
    client.call(f"{NAME}/set_parameters_atomically", SetParametersAtomically, parameters=odd)
    client.call(f"{NAME}/set_parameters", SetParameters, parameters=odd)
    (port,) = client.call(f"{NAME}/get_parameters", GetParameters, names=["network.port"]).values
    assert port.integer_value > 0


def test_requests_for_parameters_that_do_not_exist_have_a_response(unharmed, client):
    names = ["", "..", "a" * 10_000]
    for service, request in (("get_parameters", GetParameters), ("describe_parameters", DescribeParameters)):
        assert client.call(f"{NAME}/{service}", request, names=names) is not None


@pytest.mark.parametrize(
    "text",
    [
        b'{"kp": ["FR_hip_joint"], "kd": ["FR_hip_joint"]}',
        b"[" * 100_000,
        b"x" * 20_000_000,
    ],
    ids=lambda text: f"{len(text)} {text[:10]!r}",
)
def test_joint_gains_that_are_none_are_refused_with_a_sentence(unharmed, client, text):
    size = len(text) + 1
    client.gains.publish(b"\0\1\0\0" + size.to_bytes(4, "little") + text + b"\0")
    unharmed.until_printed(r"gains refused: (?!targets)\S.*\n")
    client.until(lambda: client.health.get("gains", "").startswith("refused"), "the refusal in the diagnostics")


def test_a_trajectory_of_40_000_names_does_not_stop_a_robot_that_follows(bridge, client, board, robot, domain):
    with Process([sys.executable, "-c", INTRUDER], domain) as intruder:

        def is_followed_throughout():
            client.begin(board, robot.lie_pose)
            client.send_targets(robot.lie_pose, 0.3)
            board.commands.reset()
            sent = len(intruder.lines)
            client.send_targets(robot.lie_pose, 1.0)
            assert len(intruder.lines) > sent
            return all(command.stiffness.max() > 0.0 for _, command in board.commands.recent)

        intruder.until_printed("sent")
        assert any(is_followed_throughout() for _ in range(8))  # a busy machine may be late by itself
        client.until(lambda: int(client.health["commands_refused"]) > 0, "a refusal")
