"""One robot, one bridge: a second one is refused, whichever way it comes; the successor of a dead one is not."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from sensor_msgs.msg import JointState

ELSEWHERE = {"network.target": "127.0.0.2"}  # a robot that is off: only ownership messages come from this bridge
SIMULATOR = """
import rclpy
from sensor_msgs.msg import JointState
from fcnet_ros.program import participant_profile
with participant_profile(udp_only=True):
    rclpy.init()
    node = rclpy.create_node("simulator")
publisher = node.create_publisher(JointState, "joint_states", 1)
node.create_timer(0.02, lambda: publisher.publish(JointState()))
print("ready", flush=True)
rclpy.spin(node)
"""


@pytest.fixture
def simulator(domain):
    """Another program that publishes joint_states."""
    environment = os.environ | {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    with subprocess.Popen([sys.executable, "-c", SIMULATOR], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def wait_for_commands(client, board):
    count = board.commands.count
    client.until(lambda: board.commands.count > count + 50, "commands")


def one_that_ended(client, programs):
    client.until(lambda: any(program.process.poll() is not None for program in programs), "one has ended")
    time.sleep(1.0)
    ended = [program for program in programs if program.process.poll() is not None]
    assert len(ended) == 1, [program.output for program in programs]
    assert ended[0].wait() == 1
    return ended[0]


def test_a_bridge_in_reserve_takes_over_from_one_that_was_killed(start, client, board):
    first = start(auto_start=True)
    reserve = start()
    wait_for_commands(client, board)
    client.until(lambda: client.node.get_node_names().count("aliengo_bridge") == 2, "both are known")
    time.sleep(1.0)  # until the reserve knows the first too
    first.end(signal.SIGKILL)
    assert client.change_state("aliengo_bridge", "configure"), reserve.output
    wait_for_commands(client, board)


def test_a_second_bridge_on_the_same_port_is_refused(start, assert_refused):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first:
        first.bind(("", 0))
        program = start(auto_start=True, **{"network.local_port": first.getsockname()[1]})
        assert_refused(program, "in use", "another bridge")


def test_a_second_bridge_of_this_computer_is_refused_until_the_first_was_killed(start, client, board, assert_refused):
    first = start(auto_start=True)
    wait_for_commands(client, board)
    assert_refused(start(auto_start=True), "another bridge on this computer", "stop it first")
    assert first.process.poll() is None
    first.end(signal.SIGKILL)
    successor = start(auto_start=True)
    wait_for_commands(client, board)
    assert successor.end() == 0, successor.output


def test_a_bridge_elsewhere_is_refused_while_another_one_holds_the_robot(start, client, board):
    first = start(auto_start=True)
    wait_for_commands(client, board)
    second = start(auto_start=True, **ELSEWHERE)
    assert one_that_ended(client, [first, second]) is second
    assert "moves this robot already" in second.output
    assert "Traceback" not in second.output


@pytest.mark.parametrize("other", [{}, ELSEWHERE], ids=["on this computer", "elsewhere"])
def test_of_two_bridges_that_start_together_one_is_refused(start, client, other):
    ended = one_that_ended(client, [start(auto_start=True), start(auto_start=True, **other)])
    assert "already" in ended.output
    assert "Traceback" not in ended.output


def test_a_simulator_that_publishes_joint_states_is_not_joined(start, simulator, assert_refused):
    assert_refused(start(auto_start=True), "simulator moves this robot already", "/joint_states", "stop it")


def test_a_publisher_of_joint_states_without_messages_keeps_no_bridge_away(start, client, board):
    publisher = client.node.create_publisher(JointState, "joint_states", 1)
    program = start(auto_start=True)
    wait_for_commands(client, board)
    assert program.process.poll() is None
    client.node.destroy_publisher(publisher)
