"""One robot, one bridge: a second one is refused, whichever way it comes; the successor of a dead one is not."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from sensor_msgs.msg import JointState

from unitree_lowlevel.codec import GEN33
from unitree_lowlevel.fake_board.board import FakeBoard
from unitree_lowlevel.fake_board.physics import JointPhysics

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


def test_one_claim_keeps_no_bridge_from_starting_and_a_repeated_one_does(start, client, board, assert_refused):
    program = start(auto_start=True)
    client.until(client.claims.get_subscription_count, "the bridge's subscription")
    client.claim("holds 0 x")
    wait_for_commands(client, board)
    assert program.end() == 0, program.output
    program = start(auto_start=True)
    client.claim_until("holds 0 x", lambda: not program.alive, "the end of the bridge")
    assert_refused(program, "x moves this robot already")


def test_of_two_bridges_that_both_hold_the_robot_none_begins_to_move_it(start, client, board, robot):
    with FakeBoard(GEN33, JointPhysics(robot)) as other_board:
        first = start(auto_start=True)
        wait_for_commands(client, board)
        first.send(signal.SIGSTOP)
        second = start(auto_start=True, **{"network.port": other_board.address[1]})
        wait_for_commands(client, other_board)
        first.send(signal.SIGCONT)
        for program in (first, second):
            program.until_printed("also holds this robot")
        for log in (board.commands, other_board.commands):
            log.reset()
        client.send_targets(None, 0.1)
        client.send_targets(robot.lie_pose, 0.5)
        assert first.alive and second.alive
        assert board.commands.last_stiff() is None and other_board.commands.last_stiff() is None
        assert first.end() == 0, first.output
        second.until_printed("no longer holds this robot")
        client.begin(other_board, robot.lie_pose)
        assert other_board.commands.last_stiff() is not None
