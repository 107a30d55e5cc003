"""The simulated robot behind a motor board: a process that is reached by UDP, as a real robot is."""

import time
from contextlib import closing

import numpy as np
import pytest
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
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
    """Leads the joints to the stand pose within a second and holds them there; received: states so far."""

    def __init__(self, port: int) -> None:
        self.state: LowState | None = None
        self._transport = WireTransport(GEN33, ("127.0.0.1", port), 0)
        self._transport.open()
        self.close = self._transport.close

    @property
    def received(self) -> int:
        return self._transport.counters.received

    def exchange(self) -> None:
        """Take the newest state and send a command; the first ones are without stiffness."""
        if (reception := self._transport.receive()) is not None:
            if self.state is None:
                self._start, self._began = reception.state.position, time.monotonic()
            self.state = reception.state
        target, stiffness = ALIENGO.lie_pose, ZERO
        if self.state is not None:
            share = min(1.0, time.monotonic() - self._began)
            target, stiffness = self._start + share * (ALIENGO.stand_pose - self._start), ALIENGO.kp
        self._transport.send(LowCommand(np.full(12, SERVO, np.uint8), target, ZERO, ZERO, stiffness, ALIENGO.kd))


@pytest.fixture(scope="module")
def board(run):
    """The port of a running board."""
    program = run(["ros2", "run", "sim_bridge", "mujoco_board", *ros_arguments(port=0)])
    return int(program.until_printed(r"listens at 127\.0\.0\.1:(\d+)")[1])


@pytest.fixture
def motors(board):
    with closing(Motors(board)) as motors:
        yield motors


def _set(client, name: str, value: float):
    setting = Parameter(name, value=value).to_parameter_msg()
    return client.call("mujoco_board/set_parameters", SetParameters, parameters=[setting]).results[0]


def test_the_robot_gets_up_when_its_motors_are_led_and_its_place_is_on_odom(motors, client):
    def stands():
        motors.exchange()
        return client.odom and client.position[2] > 0.3

    client.until(stands, "the robot stands")
    state = motors.state
    assert client.upright
    assert projected_gravity(state.orientation)[2] < -0.9
    assert state.linear_acceleration[2] == pytest.approx(9.81, abs=4.0)
    assert state.foot_force.sum() == pytest.approx(9.81 * ALIENGO.mass, rel=0.4)


def test_the_line_gets_worse_and_better_by_parameters(motors, client):
    def states_in(seconds):
        before, end = motors.received, time.monotonic() + seconds
        while time.monotonic() < end:
            motors.exchange()
            time.sleep(0.002)
        return motors.received - before

    client.until(lambda: states_in(0.1) > 10, "states")
    assert _set(client, "loss", 1.0).successful
    states_in(0.2)
    assert states_in(0.3) == 0
    assert not _set(client, "loss", 1.5).successful
    assert _set(client, "loss", 0.0).successful
    client.until(lambda: states_in(0.1) > 10, "states again")


def test_a_push_moves_the_robot_and_a_reset_brings_it_back(board, client):
    client.until(lambda: client.odom is not None, "odom")
    assert client.call("mujoco_board/push").success
    client.until(lambda: client.speed > 0.05, "it moves")
    assert client.call("mujoco_board/reset").success
    client.until(lambda: np.abs(client.position[:2]).max() < 0.1, "it is back")
