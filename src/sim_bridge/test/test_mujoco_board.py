"""The simulated robot behind a motor board: a process that is reached by UDP, as a real robot is."""

import math
import threading
import time

import numpy as np
import pytest
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from ros_fixtures import domain as domain
from ros_fixtures import run as run
from ros_harness import ros_arguments

from fcnet_core.robot import load_robot
from fcnet_core.rotation import projected_gravity
from unitree_lowlevel.codec import GEN33, SERVO, LowCommand, LowState
from unitree_lowlevel.transport import WireTransport

ALIENGO = load_robot("aliengo")
ZERO = np.zeros(12)


class Motors:
    """Leads the joints to the stand pose in a second and holds them there, in a thread; received: states so far."""

    def __init__(self, port: int) -> None:
        self.state: LowState | None = None
        self._transport = WireTransport(GEN33, ("127.0.0.1", port), 0)
        self._transport.open()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def received(self) -> int:
        return self._transport.counters.received

    def _run(self) -> None:
        start, began = ALIENGO.lie_pose, math.inf
        while not self._stop.wait(0.004):
            if (reception := self._transport.receive()) is not None:
                if self.state is None:
                    start, began = reception.state.position, time.monotonic()
                self.state = reception.state
            share = max(0.0, min(1.0, time.monotonic() - began))
            target, stiffness = (
                start + share * (ALIENGO.stand_pose - start),
                ALIENGO.gains.kp * (self.state is not None),
            )
            mode, gains = np.full(12, SERVO, np.uint8), (np.full(12, stiffness), np.full(12, ALIENGO.gains.kd))
            self._transport.send(LowCommand(mode, target, ZERO, ZERO, *gains))

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._transport.close()


@pytest.fixture(scope="module")
def board(run):
    """The port of a running board."""
    program = run(["ros2", "run", "sim_bridge", "mujoco_board", *ros_arguments(port=0)])
    return int(program.until_printed(r"listens at 127\.0\.0\.1:(\d+)")[1])


@pytest.fixture
def motors(board):
    motors = Motors(board)
    yield motors
    motors.close()


def _set(client, name: str, value: float):
    setting = Parameter(name=name, value=ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value))
    return client.call("mujoco_board/set_parameters", SetParameters, parameters=[setting]).results[0]


def test_the_robot_gets_up_when_its_motors_are_led_and_its_place_is_on_odom(motors, client):
    client.until(lambda: client.odom is not None, "odom")
    client.until(lambda: client.position[2] > 0.3, "the robot stands")
    state = motors.state
    assert client.upright
    assert projected_gravity(state.orientation)[2] < -0.9
    assert state.linear_acceleration[2] == pytest.approx(9.81, abs=4.0)
    assert state.foot_force.sum() == pytest.approx(9.81 * ALIENGO.mass, rel=0.4)


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
