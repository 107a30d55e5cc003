"""The launch files, started as a user starts them and driven through topics and services until the robot has done
everything once.
"""

import math
import os
import signal
import time

import numpy as np

from fcnet_core.names import Mode
from fcnet_core.robot import load_robot

PATIENCE = 120.0  # [s], for a loaded machine
CONTROLLER = "lib/fcnet_controller/controller"  # in its command line


def test_the_robot_walks_turns_stops_is_pushed_is_stopped_and_gets_up_again(client, launch):
    program = launch("aliengo.launch.py", start_x=1.0, start_y=-0.5, start_heading=1.57)
    client.until_mode(Mode.WALKING)
    client.until_states()
    assert abs(client.position[:2] - [1.0, -0.5]).max() < 0.3
    assert abs(client.yaw - 1.57) < 0.2

    began = client.position
    client.drive_until(lambda: client.position[1] - began[1] > 0.7, "a walk ahead", vx=0.5)

    heading = client.yaw
    client.drive_until(lambda: client.yaw - heading > 0.5, "a turn to the left", yaw_rate=0.6)

    client.until(lambda: client.speed < 0.15, "a stop without cmd_vel")
    assert client.mode == Mode.WALKING

    client.drive(0.3, vx=math.nan)
    client.drive(0.3, vx=1e9)
    time.sleep(0.6)  # the command times out, and the robot slows down
    client.until(lambda: client.speed < 0.15, "a stop")
    assert client.upright

    assert client.call("mujoco_bridge/push").success
    time.sleep(1.5)
    assert client.upright
    assert client.mode == Mode.WALKING

    assert client.emergency_stop("controller").success
    client.until_mode(Mode.FAULT)
    client.until(lambda: not client.target.points[0].positions, "a command to damp")
    client.until(lambda: client.position[2] < 0.2, "the damped robot sinks", 10.0)
    assert not client.call("controller/stand_up").success

    assert client.call("mujoco_bridge/reset").success
    assert client.call("controller/reset").success
    client.until_mode(Mode.PASSIVE)
    assert client.call("controller/stand_up").success
    client.until_mode(Mode.STANDING)
    assert client.call("controller/walk").success
    client.until_mode(Mode.WALKING)
    began = client.position
    client.drive_until(lambda: abs(client.position - began)[:2].max() > 0.3, "a walk after the fault", vx=0.5)

    robot, sent = load_robot("aliengo"), np.array(client.sent)  # others still arrive
    assert (np.clip(sent, robot.lower - 1e-6, robot.upper + 1e-6) == sent).all()
    assert program.end() == 0, program.output
    assert program.survivors() == {}


def test_a_robot_on_its_back_gets_up_on_request_and_walks_and_its_launch_ends_with_its_controller(client, launch):
    program = launch("aliengo.launch.py", start="on_back")
    client.until_mode(Mode.PASSIVE)
    client.until_states()
    assert not client.upright
    assert not client.call("controller/stand_up").success
    client.until(lambda: client.call("controller/recover").success, "a recovery")
    client.until_mode(Mode.WALKING)  # by the launch's auto_start, once it stands
    client.drive_until(lambda: client.speed > 0.2, "a walk", vx=0.4)
    assert client.upright
    program.kill(CONTROLLER)
    assert program.wait(PATIENCE) == 1, program.output
    assert program.survivors() == {}


def test_the_demo_lifts_the_feet_for_the_step_passes_and_ends_the_launch_with_exit_code_0(client, launch):
    program = launch("a1.launch.py", demo="true")
    client.until(lambda: float(client.health.get("foot_clearance", 0.0)) > 0.0, "lifted feet", PATIENCE)
    client.until(lambda: float(client.health["foot_clearance"]) == 0.0, "feet as usual", PATIENCE)
    assert program.wait(PATIENCE) == 0, program.output
    for figure in ("distance", "tracking error", "falls", "control rate", "deadline misses", "step latency"):
        assert figure in program.output
    assert program.survivors() == {}


def test_in_the_hard_demo_the_robot_is_pushed_over_gets_up_and_walks_on_though_its_controller_is_held_up(
    client, launch
):
    program = launch("aliengo.launch.py", demo="hard")
    client.until_mode(Mode.WALKING)
    (controller,) = [process for process, line in program.survivors().items() if CONTROLLER in line]
    os.kill(controller, signal.SIGSTOP)
    time.sleep(1.5)  # longer than a loop in real time may be late
    os.kill(controller, signal.SIGCONT)
    assert program.wait(PATIENCE) == 0, program.output
    assert all(words in program.output for words in ("pushed over", "recovering", "lockstep from now on"))
    assert program.survivors() == {}


def test_ctrl_c_before_a_program_has_started_leaves_no_process_behind(launch):
    program = launch("aliengo.launch.py", demo="true")
    time.sleep(0.3)
    assert program.end() in (0, 130, -signal.SIGINT)
    assert program.survivors() == {}


LOSSY_LINE = ("backend:=desk", "loss:=0.01", "jitter:=0.002")
ATTEMPTS = 4  # a motor board waits for nobody: on a machine too busy for 500 Hz the bridge trips, or the robot falls


def walk(client, program):
    """Wait for the robot to walk and drive it a little; return whether it did, without a fault or the launch's end."""
    client.mode = ""
    client.newest.clear()
    is_over = lambda: client.mode == Mode.FAULT or not program.alive  # noqa: E731
    client.until(lambda: client.mode == Mode.WALKING or is_over(), "mode walking")
    if not is_over():
        client.until_states()
        began = client.position
        client.drive_until(lambda: is_over() or client.position[0] - began[0] > 0.3, "a walk", vx=0.5)
    return not is_over()


def test_a_robot_behind_a_motor_board_stands_up_walks_and_ends_without_a_trace(start, client):
    for _ in range(ATTEMPTS):
        program = start("launch", "fcnet_controller", "a1.launch.py", *LOSSY_LINE)
        if walk(client, program):
            break
        program.end()
    assert program.alive, f"{client.health.get('fault')}: {program.output}"
    assert client.upright

    assert client.emergency_stop("a1_bridge").success
    client.until_mode(Mode.FAULT)
    responses = []

    def reset_is_refused():  # where the controller was in fault before, a reset may precede the bridge's message
        responses.append(client.call("controller/reset"))
        return not responses[-1].success

    client.until(reset_is_refused, "a refusal of a reset")
    assert "a1_bridge/reset" in responses[-1].message

    program.end()
    assert program.survivors() == {}
    assert "Traceback" not in program.output


def test_a_robot_on_the_network_is_not_moved_by_starting_its_controller(start, client):
    board = start("run", "aliengo_bridge", "fake_board", "--port", "0")
    client.until(lambda: "listens at" in board.output, "a motor board")
    port = board.output.split("listens at 127.0.0.1:")[1].split(";")[0]
    network = ("network.target:=127.0.0.1", f"network.port:={port}", "network.local_port:=0")
    start("launch", "fcnet_controller", "aliengo.launch.py", "backend:=unitree", *network)
    client.until_mode(Mode.PASSIVE)
    client.until(lambda: client.joints and client.imu, "states of the robot")
    client.until(lambda: client.target is not None, "commands of the controller")
    client.drive(1.0, vx=0.5)
    assert client.mode in (Mode.PASSIVE, Mode.FAULT)  # the latter where the machine was too busy for the wire
    assert not client.sent

    def stands_up():
        if client.mode == Mode.FAULT:  # what a user does then
            client.call("aliengo_bridge/reset")
            client.call("controller/reset")
        return client.call("controller/stand_up").success

    client.until(stands_up, "standing up")
    client.until(lambda: client.sent, "targets")
