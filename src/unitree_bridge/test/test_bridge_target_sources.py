"""With a local socket, only its targets move the joints."""

import time

import pytest
from rclpy.serialization import serialize_message
from ros_harness import COMMAND_PERIOD
from std_msgs.msg import String

from fcnet_core.robot import JOINT_NAMES
from fcnet_ros.messages import Gains
from fcnet_ros.targets import LocalSender, TargetPublisher, socket_name
from unitree_lowlevel.driver import DriverMode

TRIES = 50


@pytest.fixture
def is_followed(client, board, robot):
    """Whether a publisher's targets are followed, after a damp."""

    def is_followed(publisher):
        board.commands.reset()
        for target in [None] * 5 + [robot.lie_pose] * TRIES:
            publisher.publish(target)
            time.sleep(COMMAND_PERIOD)
        return board.commands.last_stiff() is not None

    return is_followed


def test_with_a_local_socket_nobody_moves_the_joints_by_dds(start, client, board, robot, is_followed):
    bridge = start(auto_start=True, targets_over="local")
    client.until_driver_mode(DriverMode.DAMPING)
    sender = LocalSender(socket_name(client.node))
    kp, kd = robot.gains.kp + 5.0, robot.gains.kd
    gains = Gains(dict.fromkeys(JOINT_NAMES, kp), dict.fromkeys(JOINT_NAMES, kd))
    client.offer_gains(kp + 5.0, kd)
    sender.send_gains(serialize_message(String(data=gains.text())))
    by_dds, local = TargetPublisher(client.node), TargetPublisher(client.node, local=sender)
    assert not is_followed(by_dds), bridge.output
    assert is_followed(local), bridge.output
    assert max(command.stiffness.max() for _, command in board.commands.recent) == pytest.approx(kp, abs=0.1)
    assert client.health["target_owner"] == "" or local.identity.hex() in client.health["target_owner"]
    local.close()
    assert bridge.end() == 0
