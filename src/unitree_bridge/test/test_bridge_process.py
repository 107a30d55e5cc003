"""How a bridge starts and exits, and what keeps it from starting."""

import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from ros_harness import COMMAND_PERIOD, assert_refused, stamp_of
from std_msgs.msg import String

from fcnet_core.errors import FcnetError
from fcnet_core.names import SECOND, HealthKey
from fcnet_core.robot import ROBOT_FOLDER
from fcnet_ros.local_socket import LocalSender, socket_name
from fcnet_ros.parameters import declare_fixed_parameters
from fcnet_ros.targets import TargetPublisher, gains_text
from fcnet_ros.topics import TARGET_REFUSAL
from unitree_bridge.hardware import UnitreeHardware
from unitree_bridge.parameters import BridgeParameters
from unitree_lowlevel.codec import JOINTS
from unitree_lowlevel.driver import DriverMode
from unitree_lowlevel.fake_board.faults import BoardFaults

IS_NOHUP = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
OF_TERMINAL = pytest.mark.skipif(IS_NOHUP, reason="under nohup a bridge outlives its terminal")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, pytest.param(signal.SIGHUP, marks=OF_TERMINAL)])
def test_after_a_signal_the_bridge_sends_damping_for_a_while(start, client, board, robot, is_damping, number):
    program = start(auto_start=True)
    client.until_driver_mode(DriverMode.DAMPING)
    board.commands.reset()
    client.begin(board, robot.lie_pose)
    assert board.commands.last_stiff() is not None
    assert program.end(number) == 0, program.output
    assert is_damping(board.commands.last)
    assert board.commands.recent[-1][0] - board.commands.last_stiff() > 0.05  # of 0.12 s: arrivals are noticed late
    assert "Traceback" not in program.output


def test_a_bridge_publishes_at_the_rate_of_its_parameter_and_shares_no_memory_with_subscribers(start, client):
    program = start(auto_start=True, publish_rate=50.0)
    for messages in client.watch_states(20):  # 500 Hz would be 2 ms; a loaded machine makes it longer
        assert np.median(np.diff([stamp_of(message) for message in messages])) > 0.5 * SECOND / 50.0
    mapped = Path(f"/proc/{program.process.pid}/maps").read_text()
    assert "/dev/shm/fastrtps" not in mapped
    assert "/dev/shm/fastdds" not in mapped


def test_a_managed_bridge_connects_when_configured_and_follows_when_active(start, client, board, robot, is_damping):
    board.commands.reset()
    client.observe(String, TARGET_REFUSAL.name, TARGET_REFUSAL.requested)
    program = start()
    assert client.call("aliengo_bridge/reset").success is False
    time.sleep(0.3)
    assert board.commands.count == 0

    assert client.change_state("aliengo_bridge", "configure")
    client.until_driver_mode(DriverMode.DAMPING)
    assert is_damping(board.commands.last)
    assert not client.is_followed(board, robot.lie_pose)

    assert client.change_state("aliengo_bridge", "activate")
    client.begin(board, robot.lie_pose)
    assert board.commands.last_stiff() is not None
    assert client.change_state("aliengo_bridge", "deactivate")
    client.until(lambda: is_damping(board.commands.last), "damping")

    assert client.change_state("aliengo_bridge", "cleanup")
    count = board.commands.count
    client.until(lambda: "not configured" in client.newest[TARGET_REFUSAL.name].data, "why nothing would be followed")
    time.sleep(0.3)
    assert board.commands.count == count
    assert client.fault == "", "a bridge that was cleaned up has not tripped"
    assert client.change_state("aliengo_bridge", "configure")
    client.until(lambda: board.commands.count > count, "commands again")
    assert program.end() == 0


@pytest.mark.parametrize(
    ("parameter", "value", "named"),
    [
        ("network.target", "192.168.123.999", "192.168.123.999"),
        ("transport", "usb", "transport"),
        ("generation", "gen34", "generation"),
        ("publish_rate", 300.0, "publish_rate"),
        ("robot_file", str(ROBOT_FOLDER / "a1.yaml"), "a1_bridge"),
        ("robot_file", None, "safety.max_power"),  # a file without it
        ("use_sim_time", True, "use_sim_time"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_refused_by_name(make_node, tmp_path, parameter, value, named):
    if named == "safety.max_power":
        file = tmp_path / "aliengo.yaml"
        file.write_text(re.sub(r"\n +max_power:.*", "", (ROBOT_FOLDER / "aliengo.yaml").read_text()))
        value = str(file)
    node = make_node("aliengo_bridge", parameter_overrides=[Parameter(parameter, value=value)])
    with pytest.raises(FcnetError, match=named):
        UnitreeHardware("aliengo").configure(node, declare_fixed_parameters(node, BridgeParameters))


def test_a_refusal_when_starting_or_configuring_ends_the_process_with_one_line(start, tmp_path):
    path = tmp_path / "parameters.yaml"
    path.write_text("aliengo_bridge:\n  ros__parameters:\n    network: {taget: 127.0.0.1}\n")
    assert_refused(start(params_file=path), "network.taget")
    assert_refused(start(auto_start=True, robot_file="/nowhere/aliengo.yaml"), "/nowhere/aliengo.yaml")


def test_with_a_local_socket_nobody_moves_the_joints_by_dds(start, client, board, robot):
    bridge = start(auto_start=True, targets_over="local")
    client.until_driver_mode(DriverMode.DAMPING)
    sender = LocalSender(socket_name(client.node))
    kp, kd = robot.gains.kp + 5.0, robot.gains.kd
    client.offer_gains(kp + 5.0, kd)
    sender.send_gains(serialize_message(String(data=gains_text(JOINTS, [kp] * 12, [kd] * 12))))
    local = TargetPublisher(client.node, JOINTS, local=sender)
    for publisher in (TargetPublisher(client.node, JOINTS), local):
        board.commands.reset()
        for target in [None] * 5 + [robot.lie_pose] * 50:
            publisher.publish(target)
            time.sleep(COMMAND_PERIOD)
        assert (board.commands.last_stiff() is not None) == (publisher is local), bridge.output
    assert max(command.stiffness.max() for _, command in board.commands.recent) == pytest.approx(kp, abs=0.1)
    assert client.health["target_owner"] == "" or local.identity.hex() in client.health["target_owner"]
    sender.close()
    assert bridge.end() == 0


def test_targets_are_followed_after_a_request_to_recover(start, client, board, robot):
    board.faults = BoardFaults(tilt=(3.0, 0.0))
    start(auto_start=True, allow_recovery=True)
    client.until_driver_mode(DriverMode.DAMPING)
    client.until(lambda: "tilt" in client.health.get(HealthKey.WARNINGS, ""), "a warning of the tilt")
    assert not client.is_followed(board, robot.lie_pose)

    def recovers():  # also if this machine was too busy for the bridge once
        client.call("aliengo_bridge/reset")
        return client.call("aliengo_bridge/recover").success and client.is_followed(board, robot.lie_pose)

    client.until(recovers, "targets that are followed")
    assert client.fault == ""
    board.faults = BoardFaults()
