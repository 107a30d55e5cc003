"""What goes wrong with a robot: the joints are damped, one sentence says why, and nothing moves until a reset."""

import json
import time

import pytest
from std_msgs.msg import String
from std_srvs.srv import SetBool

from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.fake_board.faults import BoardFaults
from unitree_lowlevel.messages import RemoteState


def test_a_trip_is_told_once_and_lasts_until_a_reset_after_its_cause_has_gone(
    following, person, board, robot, is_damping
):
    board.faults = BoardFaults(temperature=90.0)
    person.until(lambda: "temperature" in person.fault, "a fault")
    assert is_damping(board.commands.last)
    person.until(lambda: person.health["trip"] == person.fault, "the trip in the diagnostics")
    refused = person.call("aliengo_bridge/reset")
    assert not refused.success
    assert "FR_hip_joint has 90 C" in refused.message

    board.faults = BoardFaults()
    board.commands.reset()
    person.send(None, 0.2)
    person.send(robot.lie_pose, 0.5)
    assert board.commands.last_stiff() is None
    assert person.faults[-1] != ""
    person.until(lambda: person.call("aliengo_bridge/reset").success, "a reset")
    person.until(lambda: person.fault == "", "no fault")
    person.send(None, 0.1)
    person.send(robot.lie_pose, 0.5)
    assert board.commands.last_stiff() is not None
    assert sum("tripped" in line for line in following.lines) == 1


def test_after_a_reset_nobody_jumps_back_to_motion(following, person, board, robot):
    assert person.stop("aliengo_bridge").success
    person.until(lambda: "emergency_stop" in person.fault, "a fault")
    person.until(lambda: person.call("aliengo_bridge/reset").success, "a reset")
    board.commands.reset()
    person.send(robot.lie_pose, 0.3)
    time.sleep(0.2)  # a silence, after which commands are obeyed again
    assert board.commands.last_stiff() is None
    person.send(robot.lie_pose, 0.3)
    assert board.commands.last_stiff() is not None


def test_an_emergency_stop_is_not_lifted_by_asking_for_its_opposite(bridge, person):
    answer = person.call("aliengo_bridge/emergency_stop", SetBool, data=False)
    assert not answer.success
    assert "~/reset" in answer.message


def test_the_red_button_of_the_remote_stops_the_robot(following, person, board, is_damping):
    board.faults = BoardFaults(remote=RemoteState(frozenset({"B"})))
    person.until(lambda: "remote" in person.fault, "a fault")
    assert is_damping(board.commands.last)
    board.faults = BoardFaults()
    person.until(lambda: person.call("aliengo_bridge/reset").success, "a reset")


def test_a_robot_that_falls_silent_is_a_fault_and_what_to_check_is_told(following, person, board):
    board.faults = BoardFaults(silence=True)
    while not person.fault:
        person.send([0.0, 1.36, -2.65] * 4)
        time.sleep(0.02)
    assert "stale_state" in person.fault
    person.until(lambda: "no answer from 127.0.0.1" in following.output, "a sentence")
    board.faults = BoardFaults()
    person.until(lambda: person.call("aliengo_bridge/reset").success, "a reset")


def test_packets_of_the_other_generation_are_refused_by_name_of_the_parameter(bridge, person, board):
    board.faults = BoardFaults(other_generation=True)
    person.until(lambda: "set the generation to gen38" in bridge.output, "a sentence that names the parameter")
    person.until_phase("waiting")
    assert board.commands.last.stiffness.max() == 0


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ({"kp": dict.fromkeys(JOINT_NAMES, 1e4), "kd": dict.fromkeys(JOINT_NAMES, 2.0)}, "at most"),
        ({"kp": dict.fromkeys(JOINT_NAMES[:11], 40.0), "kd": dict.fromkeys(JOINT_NAMES, 2.0)}, "RL_calf_joint"),
    ],
)
def test_gains_beyond_bounds_are_refused_and_keep_the_robot_from_following(bridge, person, board, robot, gains, words):
    person.gains.publish(String(data=json.dumps(gains)))
    person.until(lambda: "refused" in person.health.get("gains", ""), "a refusal in the diagnostics")
    assert words in bridge.output
    person.send(None, 0.1)
    person.send(robot.lie_pose, 0.3)
    assert board.commands.last_stiff() is None


def test_gains_that_are_offered_are_used(bridge, person, board, robot):
    gains = {"kp": dict.fromkeys(JOINT_NAMES, 40.0), "kd": dict.fromkeys(JOINT_NAMES, 1.5)}
    person.gains.publish(String(data=json.dumps(gains)))
    person.until(lambda: "offered" in person.health.get("gains", ""), "gains in the diagnostics")
    person.send(None, 0.1)
    person.send(robot.lie_pose, 1.0)
    assert board.commands.largest_stiffness == 40.0
