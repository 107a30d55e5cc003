"""A simulation that waits for its controller: in lockstep for each of its targets."""

import time

import pytest
from ros_harness import COMMAND_PERIOD, ros_arguments
from rosgraph_msgs.msg import Clock

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
    lockstep.answered = SECOND
    assert not lockstep.waits(SECOND + PERIOD - 4_000_000)
    assert lockstep.waits(SECOND + PERIOD)
    lockstep.answered = SECOND + PERIOD
    assert not lockstep.waits(SECOND + PERIOD)


def test_while_real_time_is_reached_time_waits_for_answers_that_are_late_and_without_lockstep_never():
    lockstep, never = Lockstep("auto", 0.02, 60.0), Lockstep("never", 0.02, 60.0)
    lockstep.answered = SECOND
    assert not lockstep.waits(SECOND + PERIOD)
    assert lockstep.waits(SECOND + 2 * PERIOD)
    assert not never.waits(100 * SECOND)
    lockstep.mode = "always"
    assert lockstep.waits(SECOND + PERIOD)


@pytest.fixture
def lockstep(start, client):
    """A bridge in lockstep, whose first state is there."""
    client.observe(Clock, CLOCK.name, CLOCK.requested)
    given = ros_arguments(clock="true", lockstep="always", start="standing", lockstep_timeout=3.0)
    program = start("run", "sim_bridge", "mujoco_bridge", *given)
    client.until_states()
    return program


def answer(client):
    """Answer the state that waits with the stand pose; return the stamp [ns] of the next one, a period later."""
    waiting = client.stamp

    def has_advanced():
        if client.stamp == waiting:
            client.send_targets(STAND, COMMAND_PERIOD, stamp=waiting)
        return client.stamp == waiting + PERIOD

    client.until(has_advanced, "the next period, and no more")
    return waiting + PERIOD


def test_each_answer_is_one_control_period_also_while_inactive_and_without_one_the_bridge_ends(lockstep, client):
    for _ in range(5):
        stamp = answer(client)
    time.sleep(0.3)
    assert client.stamp == stamp
    clock = client.newest[CLOCK.name].clock
    assert clock.sec * SECOND + clock.nanosec == stamp
    assert client.position[2] > 0.3
    assert client.change_state("mujoco_bridge", "deactivate")
    for _ in range(50):
        answer(client)
    assert client.position[2] < 0.3
    assert lockstep.wait() == 1
    assert "no joint_trajectory has answered the state" in lockstep.output
    assert "Traceback" not in lockstep.output


@pytest.mark.parametrize(("rate", "states"), [(30.0, 270.0), (50.0, 250.0), (100.0, 300.0), (0.0, 250.0)])
def test_states_come_at_a_multiple_of_the_control_rate_which_is_the_policys_by_default(rate, states):
    parameters = BridgeParameters(lockstep="always", clock=True, control_rate=rate)
    assert parameters.time_step == pytest.approx(1.0 / states)
