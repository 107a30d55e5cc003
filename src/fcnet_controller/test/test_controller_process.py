"""How a controller process begins and ends."""

import json
import signal
import time
from pathlib import Path

import pytest
from lifecycle_msgs.msg import State
from lifecycle_msgs.srv import GetState
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from ros_harness import assert_refused, wait_until
from std_msgs.msg import String

from fcnet_controller.controller_node import load_controller
from fcnet_controller.parameters import ControllerParameters
from fcnet_core.model_file import shipped_model
from fcnet_core.names import CONTROLLER, Mode
from fcnet_ros.health import LoopStatistics
from fcnet_ros.parameters import declare_fixed_parameters
from fcnet_ros.topics import JOINT_GAINS, ROBOT_FAULT, TARGET_OWNER, TARGET_REFUSAL


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"policy": __file__}, "damaged"),
        ({"policy": str(shipped_model("a1"))}, "a1, not"),
        ({"control_rate": 75.0}, "75 Hz"),
        ({"robot": "spot"}, "spot"),
    ],
)
def test_unusable_parameters_are_refused_by_name(make_node, given, named):
    overrides = [Parameter(name, value=value) for name, value in given.items()]
    node = make_node("controller", parameter_overrides=overrides)
    with pytest.raises((ValueError, OSError), match=named):
        load_controller(declare_fixed_parameters(node, ControllerParameters), LoopStatistics())


def test_a_refusal_when_starting_or_configuring_ends_the_process_with_one_line(start):
    assert_refused(start(control_rate=1e4), "control_rate", "between 0 and 500")
    assert_refused(start(auto_start=True, policy="/nowhere/policy.safetensors"), "/nowhere/policy.safetensors")


def test_a_signal_damps_the_robot_and_ends_the_process_with_code_0(start, bench, model_path):
    bench.begin_again()
    bench.trajectories.clear()
    program = start(auto_start=True, policy=model_path, stand_up_time=1.5)
    bench.until_mode(Mode.WALKING)
    bench.until(lambda: bench.trajectories and not bench.damped, "targets")
    assert program.end(signal.SIGTERM) == 0, program.output
    bench.until(lambda: bench.damped, "damping")
    assert "Traceback" not in program.output


def test_a_signal_ends_a_controller_that_is_compiling_and_leaves_a_cache_that_can_be_used(
    start, model_path, tmp_path, monkeypatch
):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    program = start(auto_activate=True, policy=model_path)
    loaded = Path(f"/proc/{program.process.pid}/maps")
    wait_until(lambda: "llvmlite" in loaded.read_text(), "a controller that has loaded the compiler")
    assert program.end() == 0, program.output
    assert not list(tmp_path.rglob("*.step-*.nbi"))  # it has not come to the end
    assert "Traceback" not in program.output
    program = start(auto_activate=True, policy=model_path)
    program.until_printed("mode: passive")
    assert program.end() == 0, program.output


def test_a_controller_for_a_robot_activates_itself_stays_passive_and_goes_to_fault_with_its_bridge(
    start, bench, model_path, robot
):
    bench.begin_again()
    offered = []
    JOINT_GAINS.subscribe(bench.node, lambda message: offered.append(message.data))
    robot_fault = ROBOT_FAULT.publisher(bench.node)
    program = start(auto_activate=True, auto_start=True, policy=model_path, stand_up_time=1.5)
    bench.until_mode(Mode.PASSIVE)
    bench.until(lambda: offered, "gains")
    gains = json.loads(offered[-1])
    assert gains["kp"] == dict.fromkeys(robot.joints, robot.gains.kp)
    assert gains["kd"] == dict.fromkeys(robot.joints, robot.gains.kd)
    time.sleep(1.0)
    assert bench.modes == [Mode.PASSIVE]

    def stand_up():  # a request that precedes the bridge's message ends in fault
        bench.call("controller/reset")
        return bench.call("controller/stand_up")

    refusal, owner = TARGET_REFUSAL.publisher(bench.node), TARGET_OWNER.publisher(bench.node)
    for publisher, reason in ((robot_fault, "FR_calf_joint has 95 deg C"), (refusal, "a damp must come first")):
        bench.until(lambda: stand_up().success, "standing up")
        bench.until_mode(Mode.STANDING)
        publisher.publish(String(data=reason))
        bench.until_mode(Mode.FAULT)
        bench.until(lambda reason=reason: reason in bench.health.get("fault", ""), "the reason")
        assert publisher is refusal or reason in bench.call("controller/reset").message
        publisher.publish(String(data=""))

    owner.publish(String(data=f"/other {bytes(16).hex()}"))
    bench.until(lambda: "/other" in stand_up().message, "a refusal")
    for publisher in (robot_fault, refusal, owner):
        bench.node.destroy_publisher(publisher)
    assert program.end() == 0, program.output


def test_a_managed_controller_waits_to_be_configured_and_activated(start, bench, model_path):
    bench.begin_again()
    program = start(policy="/nowhere/policy.safetensors")
    assert not bench.change_state(CONTROLLER, "configure")
    assert bench.call("controller/get_state", GetState).current_state.id == State.PRIMARY_STATE_UNCONFIGURED
    assert set_policy(bench, model_path).successful
    assert bench.change_state(CONTROLLER, "configure")
    refused = set_policy(bench, "/nowhere/policy.safetensors")
    assert not refused.successful
    assert "clean up" in refused.reason
    inactive = bench.call("controller/stand_up")
    assert not inactive.success
    assert "not active" in inactive.message
    bench.trajectories.clear()
    for _ in range(2):
        assert bench.change_state(CONTROLLER, "activate")
        bench.until_mode(Mode.PASSIVE)
        bench.until(lambda: bench.call("controller/stand_up").success, "standing up")
        bench.until_mode(Mode.STANDING_UP)
        assert bench.change_state(CONTROLLER, "deactivate")
        bench.until(lambda: bench.damped, "damping")
        bench.restore()
    assert bench.change_state(CONTROLLER, "cleanup")
    assert program.end() == 0, program.output


def set_policy(bench, path):
    setting = Parameter("policy", value=str(path)).to_parameter_msg()
    return bench.call("controller/set_parameters", SetParameters, parameters=[setting]).results[0]
