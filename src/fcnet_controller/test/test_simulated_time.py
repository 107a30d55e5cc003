"""A controller in simulated time: one cycle for each control period of the states, whose targets have their stamp."""

import time
from functools import partial

import numpy as np
import pytest
from ros_harness import Client, stamp_of
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.names import SECOND, Mode
from fcnet_core.observation import SensorReading
from fcnet_ros.state_messages import StatePublisher
from fcnet_ros.topics import JOINT_TRAJECTORY, RELIABLE

MILLISECOND = SECOND // 1000


class Simulator(Client):
    """Publishes states of a robot on its belly with the stamps that a test wants; answers: stamps [ns] of targets."""

    def __init__(self, domain, robot):
        super().__init__(domain, "simulator")
        self.answers = []
        name = JOINT_TRAJECTORY.name
        self.subscribe(JointTrajectory, name, lambda message: self.answers.append(stamp_of(message)), RELIABLE)
        still, upright = np.zeros(12), np.array([0.0, 0.0, 0.0, 1.0])
        reading = SensorReading(robot.lie_pose, still, still, upright, np.zeros(3), np.array([0.0, 0.0, 9.81]))
        self.publish = partial(StatePublisher(self.node, robot.joint_names).publish, reading)

    def until_answered(self, stamp):
        """Publish a state until its targets come: the first ones are lost before the controller is discovered."""

        def answered():
            if not self.answers or self.answers[-1] != stamp:
                self.publish(stamp)
                time.sleep(0.02)
            return stamp in self.answers

        self.until(answered, f"targets for the state of {stamp} ns")


@pytest.fixture
def simulator(domain, robot):
    with Simulator(domain, robot) as simulator:
        yield simulator


def test_every_control_period_of_the_states_is_answered_once_however_long_it_takes(start, simulator, model_path):
    program = start(policy=model_path, auto_start=True, simulated_time=True, state_timeout=0.2, stand_up_time=0.5)
    simulator.until_answered(SECOND)
    for stamp in range(SECOND, SECOND + 80 * MILLISECOND, 4 * MILLISECOND):
        if (stamp - SECOND) % (20 * MILLISECOND):
            simulator.publish(stamp)
            time.sleep(0.02)
        else:
            simulator.until_answered(stamp)
    simulator.until_answered(SECOND + 80 * MILLISECOND)
    answered = sorted(set(simulator.answers))
    assert answered == [SECOND + period * 20 * MILLISECOND for period in range(5)]
    time.sleep(1.0)  # longer than a state or a loop in real time may be late
    for stamp in range(SECOND + 100 * MILLISECOND, SECOND + 300 * MILLISECOND, 20 * MILLISECOND):
        simulator.until_answered(stamp)
    simulator.until_mode(Mode.STANDING_UP)
    simulator.publish(SECOND)
    simulator.until_mode(Mode.FAULT)
    assert "simulated time went back" in program.until_printed("fault: .*")[0]
    program.end()


def test_states_with_the_time_of_day_are_not_answered_and_nobody_stands_up_on_them(start, simulator, model_path):
    program = start(policy=model_path, auto_activate=True, simulated_time=True)
    simulator.until_mode(Mode.PASSIVE)
    simulator.answers.clear()
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        simulator.publish(time.time_ns())
        time.sleep(0.01)
    response = simulator.call("controller/stand_up")
    assert not response.success
    assert "wall-clock time" in response.message
    assert not simulator.answers
    program.end()
