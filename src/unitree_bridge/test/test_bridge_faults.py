"""What goes wrong with a robot, as by attacks: the joints are damped, the reason is reported, and nothing moves until a
reset.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ros_harness import assert_refused
from std_msgs.msg import String
from std_srvs.srv import SetBool

from fcnet_ros.topics import ROBOT_FAULT, TARGET_REFUSAL
from unitree_lowlevel.codec import RemoteState
from unitree_lowlevel.fake_board.faults import BoardFaults

ELSEWHERE = {"network.target": "127.0.0.2"}  # a robot that is off: only ownership messages come from this bridge


@pytest.mark.parametrize("name", ["temperature", "emergency_stop", "remote_stop"])
def test_a_trip_or_stop_is_logged_once_and_lasts_until_a_reset_after_its_cause_has_gone(
    following, client, board, robot, is_damping, name
):
    causes = {"temperature": {"temperature": 90.0}, "remote_stop": {"remote": RemoteState(frozenset({"B"}))}}
    board.faults = BoardFaults(**causes.get(name, {}))
    assert name in causes or client.emergency_stop("aliengo_bridge").success
    client.until(lambda: name in client.fault, "a fault")
    client.until(lambda: is_damping(board.commands.last), "damping")
    client.until(lambda: client.health["trip"] == client.fault, "the trip in the diagnostics")
    if name == "temperature":
        refused = client.call("aliengo_bridge/reset")
        assert not refused.success
        assert "FR_hip_joint has 90 C" in refused.message

    board.faults = BoardFaults()
    assert not client.call("aliengo_bridge/emergency_stop", SetBool, data=False).success
    assert not client.is_followed(board, robot.lie_pose)
    assert client.fault != ""
    client.until(lambda: client.call("aliengo_bridge/reset").success, "a reset")
    client.until(lambda: client.fault == "", "no fault")
    client.begin(board, robot.lie_pose)
    assert board.commands.last_stiff() is not None
    assert sum("tripped" in line for line in following.lines) == 1


@pytest.mark.parametrize(
    ("faults", "advice"),
    [
        (BoardFaults(silence=True), "network.target"),
        (BoardFaults(other_generation=True), "set the generation to gen38"),
    ],
    ids=["silence", "generation"],
)
def test_a_robot_whose_states_end_is_a_fault_and_the_log_says_which_parameter_to_check(
    following, client, board, robot, faults, advice
):
    board.faults = faults
    while not client.fault:
        client.send_targets(robot.lie_pose, 0.02)
    assert "stale_state" in client.fault
    client.until(lambda: advice in following.output, "an advice")


def test_a_fault_that_somebody_else_has_published_is_corrected_by_the_bridge(bridge, client):
    publisher = ROBOT_FAULT.publisher(client.node)
    client.until(lambda: client.fault == "", "a bridge without a fault")
    client.until(publisher.get_subscription_count, "a subscriber of robot_fault")
    publisher.publish(String(data="fault: x"))
    client.until(lambda: client.fault == "fault: x", "the other's fault")
    client.until(lambda: client.fault == "", "the bridge's own")
    client.node.destroy_publisher(publisher)
    assert bridge.alive


def test_a_claim_that_is_repeated_ends_no_motion_and_lets_none_begin(following, client, board, robot, repeated):
    client.observe(String, TARGET_REFUSAL.name, TARGET_REFUSAL.requested)

    def is_in_conflict():
        client.send_targets(robot.lie_pose)
        return any("x also holds this robot" in line for line in following.lines)

    with repeated(client.claims, String(data="holds 0 x")):
        client.until(is_in_conflict, "a conflict in the log")
        client.send_targets(robot.lie_pose, 0.5)
        assert board.commands.last.stiffness.max() > 0.0
        client.until(lambda: not client.is_followed(board, robot.lie_pose), "targets that are not followed")
        refusal = lambda: "x also holds this robot" in client.newest[TARGET_REFUSAL.name].data  # noqa: E731
        client.until(refusal, "a reason why targets are refused")
    client.until(lambda: client.is_followed(board, robot.lie_pose), "the end of the conflict")
    assert following.alive


@pytest.mark.parametrize("other", [{}, ELSEWHERE], ids=["on this computer", "elsewhere"])
def test_a_second_bridge_of_a_robot_is_refused(bridge, start, other):
    assert_refused(start(auto_start=True, **other), "already")
    assert bridge.alive


ATTACKER = Path(__file__).parents[3] / "benchmarks" / "bridge" / "attacker.py"
DURATION = 15.0  # [s], or until every class was tried


def test_attacks_end_no_program_and_bring_nothing_unsafe_to_the_wire(tmp_path):
    options = ["--duration", str(DURATION), "--physics", "joints", "--busy"]
    finished = subprocess.run([sys.executable, ATTACKER, *options, "--json", tmp_path / "result.json"])
    result = json.loads((tmp_path / "result.json").read_text())
    violations = {one["attack"]: one["violations"] for one in result["outcomes"] if one["violations"]}
    assert violations == {} and finished.returncode == 0
    assert {one["kind"] for one in result["outcomes"]} == {"topic", "service", "wire"}
    assert result["commands"] > 100 * DURATION
