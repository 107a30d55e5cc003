"""One robot, one bridge: a second one is refused; the successor of a dead one is not."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from ros_harness import wait_until
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from fcnet_core.errors import RobotInUseError
from fcnet_ros.topics import JOINT_STATES, ROBOT_OWNERSHIP
from unitree_bridge.ownership import PERIOD, RobotOwnership
from unitree_lowlevel.codec import GEN33
from unitree_lowlevel.fake_board.board import FakeBoard
from unitree_lowlevel.fake_board.physics import JointPhysics


@pytest.fixture
def bridge_node(make_node):
    return make_node("aliengo_bridge")


def test_a_simulator_that_publishes_states_is_named_and_not_joined(bridge_node, make_node, repeated):
    states, ownership = JOINT_STATES.publisher(make_node("other")), RobotOwnership(bridge_node)
    wait_until(states.get_subscription_count, "the bridge's subscription")
    with repeated(states, JointState(), 0.02), pytest.raises(RobotInUseError, match="other publishes"):
        ownership.acquire()


def test_neither_a_silent_publisher_nor_one_claim_keeps_a_bridge_away_and_a_repeated_claim_does(
    bridge_node, make_node, repeated
):
    other = make_node("other")
    JOINT_STATES.publisher(other)
    claims, ownership = ROBOT_OWNERSHIP.publisher(other), RobotOwnership(bridge_node)
    wait_until(claims.get_subscription_count, "the bridge's subscription")
    claims.publish(String(data="holds 0 x"))
    ownership.acquire()
    ownership.release()
    with repeated(claims, String(data="holds 0 x")), pytest.raises(RobotInUseError, match="x moves this robot"):
        RobotOwnership(bridge_node).acquire()


def test_of_two_bridges_that_start_together_one_is_refused_also_when_it_asks_again(bridge_node, make_node):
    nodes = bridge_node, make_node("aliengo_bridge_elsewhere")
    bridges = [RobotOwnership(node) for node in nodes]
    for node in nodes:
        wait_until(lambda node=node: node.count_subscribers(ROBOT_OWNERSHIP.name) == 2, "the other bridge")
    with ThreadPoolExecutor(2) as threads:
        errors = [one.exception() for one in [threads.submit(bridge.acquire) for bridge in bridges]]
        assert sorted(type(error).__name__ for error in errors) == ["NoneType", "RobotInUseError"]
        holder, refused = bridges if errors[0] is None else reversed(bridges)
        again = threads.submit(refused.acquire)
        while not again.done():
            holder.renew()
            time.sleep(PERIOD)
    assert isinstance(again.exception(), RobotInUseError)
    assert holder.conflict == ""


def wait_for_commands(client, board):
    count = board.commands.count
    client.until(lambda: board.commands.count > count + 50, "commands")


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
