"""A simulation in lockstep: simulated time advances only with the controller's targets."""

from __future__ import annotations

import time

import numpy as np
import pytest
from ros_harness import ros_arguments, wait_until
from rosgraph_msgs.msg import Clock

from fcnet_core.errors import ParameterError
from fcnet_core.names import SECOND
from fcnet_core.robot import load_robot
from fcnet_ros.topics import CLOCK
from sim_bridge.lockstep import Lockstep
from sim_bridge.parameters import BridgeParameters

PERIOD = SECOND // 50
STAND = load_robot("aliengo").stand_pose


def test_time_waits_for_the_first_answer_and_for_one_in_every_period():
    lockstep = Lockstep("always", 0.02, 60.0)
    assert lockstep.waits(SECOND)
    lockstep.answer(SECOND)
    assert not lockstep.waits(SECOND + PERIOD - 4_000_000)
    assert lockstep.waits(SECOND + PERIOD)
    lockstep.answer(SECOND + PERIOD)
    assert not lockstep.waits(SECOND + PERIOD)


def test_while_real_time_is_reached_time_waits_for_answers_that_are_late():
    lockstep = Lockstep("auto", 0.02, 60.0)
    lockstep.answer(SECOND)
    assert not lockstep.waits(SECOND + PERIOD)
    assert lockstep.waits(SECOND + 2 * PERIOD)
    assert lockstep.engage()
    assert lockstep.waits(SECOND + PERIOD)
    assert not lockstep.engage()


def test_without_lockstep_time_never_waits():
    lockstep = Lockstep("never", 0.02, 60.0)
    assert not lockstep.waits(100 * SECOND)
    assert not lockstep.engage()


def test_waiting_ends_with_a_sentence():
    lockstep = Lockstep("always", 0.02, 0.05)
    assert lockstep.waits(SECOND)
    assert not lockstep.problem(SECOND)
    wait_until(lambda: lockstep.problem(SECOND), "the end of the wait", 1.0)
    assert "simulated_time" in lockstep.problem(SECOND)


@pytest.fixture
def lockstep(start, client):
    """A bridge in lockstep, whose first state is there."""
    client.observe(Clock, CLOCK.name, CLOCK.requested)
    given = ros_arguments(clock="true", lockstep="always", start="standing", lockstep_timeout=3.0)
    program = start("run", "sim_bridge", "mujoco_bridge", *given)
    client.until_states()
    return program


def test_each_answer_is_one_control_period_on_the_clock_too_and_without_one_the_bridge_ends(lockstep, client):
    stamps = [answer(client) for _ in range(5)]
    assert np.diff(stamps).tolist() == [PERIOD] * 4
    clock = client.newest[CLOCK.name].clock
    assert clock.sec * SECOND + clock.nanosec == stamps[-1]
    assert client.position[2] > 0.3
    assert lockstep.wait() == 1
    assert "no joint_trajectory has answered the state" in lockstep.output
    assert "Traceback" not in lockstep.output


def test_while_the_bridge_is_not_active_answers_let_time_go_on_and_the_robot_sinks(lockstep, client):
    for _ in range(3):
        answer(client)
    assert client.change_state("mujoco_bridge", "deactivate")
    stamps = [answer(client) for _ in range(50)]
    assert np.diff(stamps).tolist() == [PERIOD] * 49
    assert client.position[2] < 0.3


def answer(client):
    """Answer the state that waits with the stand pose; return the stamp [ns] of the next one that waits."""
    waiting = client.stamp

    def goes_on():
        client.send_targets(STAND, stamp=waiting)
        time.sleep(0.05)
        return client.stamp != waiting

    client.until(goes_on, "a period that has been answered")
    return client.until_still()


@pytest.mark.parametrize("clock", [False, True])
def test_lockstep_needs_a_clock_and_whole_control_periods(clock):
    with pytest.raises(ParameterError):
        BridgeParameters(lockstep="always", clock=clock, control_rate=100.0 if clock else 50.0)
    BridgeParameters(lockstep="always", clock=True, control_rate=50.0)
