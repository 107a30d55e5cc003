"""The launch files, started as a user starts them and driven through topics and services until the robot has done
everything once.
"""

from __future__ import annotations

import math
import signal
import time

import launch_pytest
import pytest
from launch import LaunchDescription
from launch_pytest.tools import process as process_tools

from fcnet_core.robot import load_robot

PATIENCE = 120.0  # [s], for a loaded machine


@launch_pytest.fixture
def aliengo(launches):
    return LaunchDescription([launches.included("aliengo.launch.py"), launch_pytest.actions.ReadyToTest()])


@pytest.fixture
def command(launches, standing_policy, request):
    """`ros2 launch` of a launch file, with arguments; STANDING is a policy that only stands."""
    file, arguments = request.param
    named = {name: standing_policy if text == "STANDING" else text for name, text in arguments.items()}
    return launches.command(file, **named)


@launch_pytest.fixture
def commanded(command):
    return LaunchDescription([command, launch_pytest.actions.ReadyToTest()])


def launched(file, **arguments):
    return pytest.mark.parametrize("command", [pytest.param((file, arguments), id=file)], indirect=True)


@pytest.mark.launch(fixture=aliengo)
def test_the_robot_walks_turns_stops_is_pushed_is_stopped_and_gets_up_again(client, launches):
    client.until_mode("walking")
    client.until_states()

    began = client.position
    client.drive_until(lambda: client.position[0] - began[0] > 1.0, "a walk ahead", vx=0.5)

    heading = client.yaw
    client.drive_until(lambda: client.yaw - heading > 0.8, "a turn to the left", yaw_rate=0.6)

    client.until(lambda: client.speed < 0.15, "a stop without cmd_vel")
    assert client.mode == "walking"

    client.drive(0.5, vx=math.nan)
    client.drive(0.5, vx=1e9)
    time.sleep(1.0)  # the command times out, and the robot slows down
    client.until(lambda: client.speed < 0.15, "a stop")
    assert client.upright

    assert client.call("mujoco_bridge/push").success
    time.sleep(2.0)
    assert client.upright
    assert client.mode == "walking"

    assert client.emergency_stop("controller").success
    client.until_mode("fault")
    client.until(lambda: not client.target.points[0].positions, "a command to damp")
    client.until(lambda: client.position[2] < 0.2, "the damped robot sinks", 10.0)
    assert not client.call("controller/stand_up").success

    assert client.call("mujoco_bridge/reset").success
    assert client.call("controller/reset").success
    client.until_mode("passive")
    assert client.call("controller/stand_up").success
    client.until_mode("standing")
    assert client.call("controller/walk").success
    client.until_mode("walking")
    began = client.position
    client.drive_until(lambda: abs(client.position - began)[:2].max() > 0.5, "a walk after the fault", vx=0.5)

    robot = load_robot("aliengo")
    assert (client.lowest_targets >= robot.lower - 1e-6).all()
    assert (client.highest_targets <= robot.upper + 1e-6).all()

    yield
    assert launches.survivors() == {}


@launched("aliengo.launch.py", terrain="slope_across", start_x="1.0", start_y="-0.5", start_heading="1.57")
@pytest.mark.launch(fixture=commanded)
def test_a_robot_stands_up_and_walks_where_it_was_put(command, launches, client):
    client.until_mode("walking")
    client.until_states()
    assert abs(client.position[:2] - [1.0, -0.5]).max() < 0.3
    assert abs(client.yaw - 1.57) < 0.2
    began = client.position
    client.drive_until(lambda: client.position[1] - began[1] > 0.3, "a walk up the slope", vx=0.4)
    assert client.upright
    yield
    assert launches.survivors() == {}


@launched("aliengo.launch.py", start="on_back")
@pytest.mark.launch(fixture=commanded)
def test_a_robot_on_its_back_gets_up_on_request_and_walks(command, launches, client):
    client.until_mode("passive")
    client.until_states()
    assert not client.upright
    assert not client.call("controller/stand_up").success
    client.until(lambda: client.call("controller/recover").success, "a recovery")
    client.until_mode("walking")  # by the launch's auto_start, once it stands
    client.drive_until(lambda: client.speed > 0.2, "a walk", vx=0.4)
    assert client.upright
    yield
    assert launches.survivors() == {}


@launched("a1.launch.py", demo="true")
@pytest.mark.launch(fixture=commanded)
def test_the_demo_lifts_the_feet_for_the_step_passes_and_ends_the_launch_with_exit_code_0(
    command, launch_context, launches, client
):
    client.until(lambda: float(client.health.get("foot_clearance", 0.0)) > 0.0, "lifted feet", PATIENCE)
    client.until(lambda: float(client.health["foot_clearance"]) == 0.0, "feet as usual", PATIENCE)
    assert process_tools.wait_for_exit_sync(launch_context, command, timeout=PATIENCE)
    assert command.return_code == 0, command.get_stdout()
    for figure in ("distance", "tracking error", "falls", "control rate", "deadline misses", "step latency"):
        assert figure in command.get_stdout()
    assert launches.survivors() == {}


@launched("aliengo.launch.py", demo="hard")
@pytest.mark.launch(fixture=commanded)
def test_in_the_hard_demo_the_robot_is_pushed_over_gets_up_and_walks_on_though_its_controller_is_held_up(
    command, launch_context, launches, client
):
    client.until_mode("walking")
    launches.hold("lib/fcnet_controller/controller", 1.5)  # longer than a loop in real time may be late
    assert process_tools.wait_for_exit_sync(launch_context, command, timeout=PATIENCE)
    assert command.return_code == 0, command.get_stdout()
    assert "pushed over" in command.get_stdout()
    assert "recovering" in command.get_stdout()
    assert "in lockstep" in command.get_stdout()
    assert launches.survivors() == {}


@launched("aliengo.launch.py", demo="true", policy="STANDING", real_time_factor="2.0")
@pytest.mark.launch(fixture=commanded)
def test_the_demo_fails_where_the_robot_does_not_walk(command, launch_context, launches):
    assert process_tools.wait_for_exit_sync(launch_context, command, timeout=PATIENCE)
    assert command.return_code == 1, command.get_stdout()
    assert "Failed: the robot" in command.get_stdout()
    assert launches.survivors() == {}


def test_a_robot_whose_controller_was_killed_ends_in_damping(start, client, standing_policy):
    start("run", "sim_bridge", "mujoco_bridge")
    # as in a launch file of a simulation: a busy machine may be late with a state
    parameters = ("-p", f"policy:={standing_policy}", "-p", "auto_start:=true", "-p", "state_timeout:=1.0")
    controller = start("run", "fcnet_controller", "controller", "--ros-args", *parameters)
    client.until_mode("walking")
    client.until_states()
    assert client.position[2] > 0.25

    controller.kill("lib/fcnet_controller/controller")
    client.until(lambda: client.position[2] < 0.15, "the robot sinks, damped by the bridge", 10.0)
    assert client.upright
    assert max(abs(effort) for effort in client.joints.effort) < 20.0  # following the stand pose: 40


@launched("aliengo.launch.py", policy="STANDING")
@pytest.mark.launch(fixture=commanded)
def test_a_launch_does_not_go_on_without_its_controller(command, launch_context, launches, client):
    client.until_mode("walking")
    launches.kill("lib/fcnet_controller/controller")
    assert process_tools.wait_for_exit_sync(launch_context, command, timeout=PATIENCE)
    assert command.return_code == 1, command.get_stdout()
    assert launches.survivors() == {}


@launched("aliengo.launch.py", policy="STANDING", demo="true")
@pytest.mark.parametrize("delay", [0.3, 2.0])
@pytest.mark.launch(fixture=commanded)
def test_ctrl_c_while_starting_leaves_no_process_behind(command, launches, delay):
    time.sleep(delay)
    yield  # the end of the test's launch is a Ctrl-C for the command
    assert command.return_code in (0, -signal.SIGINT)
    assert launches.survivors() == {}


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("aliengo.launch.py", {"terain": "flat"}), "terain"),
        (("aliengo.launch.py", {"backend": "gazebo"}), "choose mujoco or desk or unitree"),
        (("aliengo.launch.py", {"terrain": "moon"}), "choose one of flat"),
        (("aliengo.launch.py", {"real_time_factor": "0"}), "real_time_factor"),
        (("aliengo.launch.py", {"control_rate": "12345"}), "control_rate"),
        (("aliengo.launch.py", {"params_file": "nowhere.yaml"}), "nowhere.yaml"),
        (("aliengo.launch.py", {"policy": "nowhere.safetensors"}), "there is no model file nowhere.safetensors"),
    ],
    indirect=["command"],
)
@pytest.mark.launch(fixture=commanded)
def test_a_launch_argument_that_cannot_be_ends_the_launch_with_one_sentence(
    command, launch_context, launches, sentence
):
    assert process_tools.wait_for_exit_sync(launch_context, command, timeout=PATIENCE)
    assert command.return_code == 1
    output = command.get_stdout() + command.get_stderr()
    assert sentence in output
    assert "Traceback" not in output
    assert launches.survivors() == {}
