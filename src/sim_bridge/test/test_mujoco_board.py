"""The simulated robot behind a motor board: a process that is reached by UDP, as a real robot is."""

from __future__ import annotations

import re
import socket
import threading
import time

import numpy as np
import pytest
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters

from fcnet_core.robot import load_robot
from fcnet_core.rotation import projected_gravity
from unitree_lowlevel.codec import GEN33, SERVO, LowCommand, decode_state, encode_command

ALIENGO = load_robot("aliengo")
ZERO = np.zeros(12)


class Motors:
    """Leads the joints to a pose in a second and holds them there, in a thread of its own."""

    def __init__(self, port: int) -> None:
        self.state = None
        self.received = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(("127.0.0.1", port))
        self._socket.settimeout(0.1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        started, sent = None, 0.0
        while not self._stop.is_set():
            if time.monotonic() - sent > 0.004:
                sent = time.monotonic()
                started = started or (self.state is not None and (sent, self.state.position))
                self._send(*(min(1.0, sent - started[0]), started[1]) if started else (None, ALIENGO.lie_pose))
            try:
                self.state = decode_state(GEN33, self._socket.recv(2048))
                self.received += 1
            except (TimeoutError, ConnectionError):
                continue

    def _send(self, progress, start) -> None:
        target = start + (ALIENGO.stand_pose - start) * (progress or 0.0)
        stiffness = ZERO if progress is None else np.full(12, ALIENGO.gains.kp)
        command = LowCommand(np.full(12, SERVO, np.uint8), target, ZERO, ZERO, stiffness, np.full(12, ALIENGO.gains.kd))
        try:
            self._socket.send(encode_command(GEN33, command))
        except ConnectionError:
            return  # the board is not there yet

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()


@pytest.fixture
def board(start, client):
    """A running board: its program and its port."""
    program = start("run", "sim_bridge", "mujoco_board", "--ros-args", "-p", "port:=0")
    client.until(lambda: re.search(r"listens at 127\.0\.0\.1:(\d+)", program.output), "the board's address")
    return program, int(re.search(r"listens at 127\.0\.0\.1:(\d+)", program.output)[1])


@pytest.fixture
def motors(board):
    motors = Motors(board[1])
    yield motors
    motors.close()


def _set(client, name: str, value: float):
    setting = Parameter(name=name, value=ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value))
    return client.call("mujoco_board/set_parameters", SetParameters, parameters=[setting]).results[0]


def test_the_robot_gets_up_when_its_motors_are_led_and_its_place_is_on_odom(board, motors, client):
    client.until(lambda: client.odom is not None, "odom")
    client.until(lambda: client.position[2] > 0.3, "the robot stands")
    state = motors.state
    assert client.upright
    assert projected_gravity(state.orientation)[2] < -0.9
    assert state.linear_acceleration[2] == pytest.approx(9.81, abs=4.0)
    assert state.foot_force.sum() == pytest.approx(9.81 * ALIENGO.mass, rel=0.4)
    assert board[0].end() == 0


def test_the_line_gets_worse_and_better_by_parameters(motors, client):
    client.until(lambda: motors.received > 10, "states")
    assert _set(client, "loss", 1.0).successful
    time.sleep(0.2)
    before = motors.received
    time.sleep(0.3)
    assert motors.received == before
    assert not _set(client, "loss", 1.5).successful
    assert _set(client, "loss", 0.0).successful
    client.until(lambda: motors.received > before + 10, "states again")


def test_a_push_moves_the_robot_and_a_reset_brings_it_back(board, client):
    client.until(lambda: client.odom is not None, "odom")
    assert client.call("mujoco_board/push").success
    client.until(lambda: client.speed > 0.05, "it moves")
    assert client.call("mujoco_board/reset").success
    client.until(lambda: np.abs(client.position[:2]).max() < 0.1, "it is back")
