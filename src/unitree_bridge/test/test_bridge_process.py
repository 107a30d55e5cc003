"""How a bridge begins and ends, and what keeps it from beginning."""

import signal
import time
from pathlib import Path

import numpy as np
import pytest
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from std_msgs.msg import String

from fcnet_core.robot import ROBOT_FOLDER
from fcnet_ros.topics import LATCHED


@pytest.fixture
def half_a_robot_file(tmp_path):
    path = tmp_path / "aliengo.yaml"
    text = (ROBOT_FOLDER / "aliengo.yaml").read_text()
    path.write_text(text[: len(text) // 2])
    return path


@pytest.fixture
def params_file(tmp_path):
    def write(text):
        path = tmp_path / "parameters.yaml"
        path.write_text(text)
        return path

    return write


IS_NOHUP = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
OF_TERMINAL = pytest.mark.skipif(IS_NOHUP, reason="under nohup a bridge outlives its terminal")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, pytest.param(signal.SIGHUP, marks=OF_TERMINAL)])
def test_after_a_signal_the_bridge_sends_damping_for_a_while(start, client, board, robot, is_damping, number):
    program = start(auto_start=True)
    client.until_driver_mode("damping")
    board.commands.reset()
    client.begin(board, robot.lie_pose)
    assert board.commands.last_stiff() is not None
    code = program.end(number)
    assert code == 0, program.output
    recent = board.commands.recent
    damping = [arrival for arrival, _ in recent if arrival > board.commands.last_stiff()]
    assert is_damping(recent[-1][1])
    assert damping[-1] - board.commands.last_stiff() > 0.05  # of 0.12 s: this machine may notice arrivals late
    assert "Traceback" not in program.output


def test_states_are_published_at_the_rate_of_the_parameter(start, client):
    start(auto_start=True, publish_rate=50.0)
    for messages in client.watch_states(20):
        stamps = [message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec for message in messages]
        assert np.median(np.diff(stamps)) > 0.5 / 50.0  # 500 Hz would be 2 ms; a loaded machine makes it longer


def test_a_bridge_shares_no_memory_with_its_subscribers(start, client):
    program = start(auto_start=True)
    client.until_driver_mode("damping")
    mapped = Path(f"/proc/{program.process.pid}/maps").read_text()
    assert "/dev/shm/fastrtps" not in mapped
    assert "/dev/shm/fastdds" not in mapped
    program.end()


def set_port(client, port):
    """Change the bridge's parameter network.port."""
    value = ParameterValue(type=ParameterType.PARAMETER_INTEGER, integer_value=port)
    change = Parameter(name="network.port", value=value)
    return client.call("aliengo_bridge/set_parameters", SetParameters, parameters=[change]).results[0]


def test_a_managed_bridge_connects_when_configured_and_follows_when_active(start, client, board, robot, is_damping):
    board.commands.reset()
    refusals = [""]
    client.subscribe(String, "target_refusal", lambda message: refusals.append(message.data), LATCHED)
    program = start()
    assert client.call("aliengo_bridge/reset").success is False
    time.sleep(0.3)
    assert board.commands.count == 0

    assert client.change_state("aliengo_bridge", "configure")
    client.until_driver_mode("damping")
    assert is_damping(board.commands.last)
    client.send_targets(None, 0.1)
    client.send_targets(robot.lie_pose, 0.3)
    assert board.commands.last_stiff() is None

    assert client.change_state("aliengo_bridge", "activate")
    client.begin(board, robot.lie_pose)
    assert board.commands.last_stiff() is not None
    assert client.change_state("aliengo_bridge", "deactivate")
    client.until(lambda: is_damping(board.commands.last), "damping")

    assert not set_port(client, 8007).successful, "it is connected to another one"

    assert client.change_state("aliengo_bridge", "cleanup")
    count = board.commands.count
    client.until(lambda: "not configured" in refusals[-1], "why nothing would be followed")
    time.sleep(0.3)
    assert board.commands.count == count
    assert client.fault == "", "a bridge that was cleaned up has not tripped"
    assert set_port(client, board.address[1]).successful
    assert client.change_state("aliengo_bridge", "configure")
    client.until(lambda: board.commands.count > count, "commands again")
    assert program.end() == 0


@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        ("network.target", "192.168.123.999", "192.168.123.999"),
        ("network.target", "255.255.255.255", "address of one robot"),
        ("network.port", 70000, "between 1 and 65535"),
        ("transport", "usb", "choose wire or sdk"),
        ("generation", "gen34", "choose gen33 or gen38"),
        ("publish_rate", 300.0, "whole multiple"),
        ("io_rate", "fast", "500.0"),
        ("robot_file", "/nowhere/aliengo.yaml", "no robot file"),
        ("robot_file", str(ROBOT_FOLDER / "a1.yaml"), "a1_bridge"),
        ("netwrok.target", "127.0.0.1", "unknown parameter netwrok.target"),
        ("use_sim_time", True, "use_sim_time is for simulations"),
    ],
)
def test_a_parameter_that_cannot_be_used_ends_the_process_with_one_sentence(
    start, assert_refused, parameter, value, words
):
    assert_refused(start(auto_start=True, **{parameter: value}), words)


def test_half_a_robot_file_ends_the_process_with_one_sentence(start, assert_refused, half_a_robot_file):
    assert_refused(start(auto_start=True, robot_file=half_a_robot_file), "cannot be used", str(half_a_robot_file))


def test_a_parameter_file_with_an_unknown_key_ends_the_process_with_one_sentence(start, assert_refused, params_file):
    path = params_file("aliengo_bridge:\n  ros__parameters:\n    network: {taget: 127.0.0.1}\n")
    assert_refused(start(params_file=path), "unknown parameter network.taget", "network.target")
