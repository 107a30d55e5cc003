"""The whole chain on a desk: policy, topics, bridge, UDP, a motor board with a simulated robot behind it."""

from __future__ import annotations

import contextlib
import os

import pytest

LOSSY_LINE = ("backend:=desk", "loss:=0.01", "jitter:=0.002")


def come_first():
    """Run before other programs, as on a robot: a motor board waits for nobody, and a robot without commands falls."""
    with contextlib.suppress(PermissionError):
        os.nice(-15)



@pytest.mark.parametrize("robot", ["aliengo", "a1"])
def test_a_robot_behind_a_motor_board_stands_up_walks_and_ends_without_a_trace(start, client, robot):
    program = start("launch", "fcnet_controller", f"{robot}.launch.py", *LOSSY_LINE, prepare=come_first)
    client.until_mode("walking")
    client.until_states()
    began = client.position
    client.drive_until(lambda: client.position[0] - began[0] > 0.5, "a walk", vx=0.5)
    assert client.upright

    assert client.emergency_stop(f"{robot}_bridge").success
    client.until_mode("fault")
    refused = client.call("controller/reset")
    assert not refused.success
    assert f"{robot}_bridge/reset" in refused.message

    program.end()
    assert program.survivors() == {}
    assert "Traceback" not in program.output


def test_a_robot_on_the_network_is_not_moved_by_starting_its_controller(start, client):
    board = start("run", "aliengo_bridge", "fake_board", "--port", "0")
    client.until(lambda: "listens at" in board.output, "a motor board")
    port = board.output.split("listens at 127.0.0.1:")[1].split(";")[0]
    network = ("network.target:=127.0.0.1", f"network.port:={port}", "network.local_port:=0")
    start("launch", "fcnet_controller", "aliengo.launch.py", "backend:=unitree", *network)
    client.until_mode("passive")
    client.until(lambda: client.joints and client.imu, "states of the robot")
    client.until(lambda: client.target is not None, "commands of the controller")
    client.drive(1.0, vx=0.5)
    assert client.mode == "passive"
    assert not client.target.points[0].positions
    client.until(lambda: client.call("controller/stand_up").success, "standing up")
    client.until_mode("standing_up")
