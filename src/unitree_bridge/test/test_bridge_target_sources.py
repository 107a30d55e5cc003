"""Whose targets move the joints: of a local socket alone, or only of who has the key."""

import time

import pytest
from rclpy.serialization import serialize_message
from std_msgs.msg import String

from fcnet_core.robot import JOINT_NAMES
from fcnet_ros.messages import Gains
from fcnet_ros.targets import Key, LocalSender, TargetPublisher, socket_name
from fcnet_ros.testing import COMMAND_PERIOD

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
    client.until_driver_mode("damping")
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


def test_with_a_key_only_signed_targets_move_the_joints(start, client, board, tmp_path, is_followed):
    key = tmp_path / "key"
    key.write_text("0123456789abcdef" * 4)
    key.chmod(0o600)
    bridge = start(auto_start=True, key_file=str(key))
    client.until_driver_mode("damping")
    assert not is_followed(TargetPublisher(client.node)), bridge.output
    bridge.until_printed("not signed")
    assert is_followed(TargetPublisher(client.node, key=Key(str(key)))), bridge.output
    assert bridge.end() == 0


def test_without_its_key_a_bridge_does_not_start(start):
    bridge = start(auto_start=True, key_file="/nowhere/key")
    assert bridge.wait() == 1
    assert "/nowhere/key cannot be read" in bridge.output
    assert "Traceback" not in bridge.output
