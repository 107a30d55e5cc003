"""The launch files, started as a user starts them and driven through topics and services until the robot has done
everything once.
"""

from __future__ import annotations

import math
import time

import pytest

from fcnet_core.robot import load_robot

LAUNCH = ("launch", "fcnet_controller")


def test_the_robot_walks_turns_stops_is_pushed_is_stopped_and_gets_up_again(start, client):
    program = start(*LAUNCH, "aliengo.launch.py")
    client.until_mode("walking")
    client.until_states()

    began = client.position
    client.drive(4.0, vx=0.5)
    assert client.position[0] - began[0] > 1.0

    heading = client.yaw
    client.drive(3.0, yaw_rate=0.6)
    assert client.yaw - heading > 0.8

    time.sleep(3.0)  # nobody sends cmd_vel any more
    assert client.speed < 0.15
    assert client.mode == "walking"

    client.drive(0.5, vx=math.nan)
    client.drive(0.5, vx=1e9)
    time.sleep(3.0)
    assert client.upright, program.output
    assert client.speed < 0.15

    assert client.call("mujoco_bridge/push").success
    time.sleep(2.0)
    assert client.upright, program.output
    assert client.mode == "walking"

    assert client.call("controller/emergency_stop", stop=True).success
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
    client.drive(3.0, vx=0.5)
    assert abs(client.position - began)[:2].max() > 0.5

    robot = load_robot("aliengo")
    assert (client.lowest_targets >= robot.lower - 1e-6).all()
    assert (client.highest_targets <= robot.upper + 1e-6).all()

    program.interrupt()
    assert program.survivors() == {}


def test_the_demo_passes_and_ends_the_launch_with_exit_code_0(start):
    program = start(*LAUNCH, "a1.launch.py", "demo:=true")
    assert program.wait(120.0) == 0, program.output
    for figure in ("distance", "tracking error", "falls", "control rate", "deadline misses", "step latency"):
        assert figure in program.output
    assert "Passed" in program.output
    assert program.survivors() == {}


def test_the_demo_fails_where_the_robot_does_not_walk(start, standing_policy):
    program = start(*LAUNCH, "aliengo.launch.py", "demo:=true", f"policy:={standing_policy}", "real_time_factor:=2.0")
    assert program.wait(120.0) != 0
    assert "Failed: the robot" in program.output, program.output
    assert program.survivors() == {}


def test_a_robot_whose_controller_was_killed_ends_in_damping(start, client, standing_policy):
    start("run", "sim_bridge", "mujoco_bridge")
    parameters = ("-p", f"policy:={standing_policy}", "-p", "auto_start:=true")
    controller = start("run", "fcnet_controller", "controller", "--ros-args", *parameters)
    client.until_mode("walking")
    client.until_states()
    assert client.position[2] > 0.25

    controller.kill("lib/fcnet_controller/controller")
    client.until(lambda: client.position[2] < 0.15, "the robot sinks, damped by the bridge", 10.0)
    assert client.upright
    assert max(abs(effort) for effort in client.joints.effort) < 10.0


def test_a_launch_does_not_go_on_without_its_controller(start, client, standing_policy):
    program = start(*LAUNCH, "aliengo.launch.py", f"policy:={standing_policy}")
    client.until_mode("walking")
    program.kill("lib/fcnet_controller/controller")
    assert program.wait(30.0) != 0
    assert program.survivors() == {}


@pytest.mark.parametrize("delay", [0.3, 2.0])
def test_ctrl_c_while_starting_leaves_no_process_behind(start, standing_policy, delay):
    program = start(*LAUNCH, "aliengo.launch.py", f"policy:={standing_policy}", "demo:=true")
    time.sleep(delay)
    program.interrupt()
    assert program.survivors() == {}


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("terain:=flat", "terain"),
        ("backend:=gazebo", "choose mujoco or desk or unitree"),
        ("terrain:=moon", "choose one of flat"),
        ("real_time_factor:=0", "must be a positive number"),
        ("control_rate:=12345", "control_rate must lie between"),
        ("params_file:=nowhere.yaml", "is not a file"),
        ("policy:=nowhere.safetensors", "there is no model file nowhere.safetensors"),
    ],
)
def test_a_launch_argument_that_cannot_be_ends_the_launch_with_one_sentence(start, argument, sentence):
    program = start(*LAUNCH, "aliengo.launch.py", argument)
    assert program.wait() != 0
    assert sentence in program.output
    assert "Traceback" not in program.output
    assert program.survivors() == {}
