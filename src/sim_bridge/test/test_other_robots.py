"""A robot of 8 joints without legs, on a policy of 100 Hz, is simulated, controlled, shown and recorded."""

import json
from urllib.request import urlopen

import numpy as np
import pytest
from made_robots import BIPED, small_model
from ros_harness import Client, ros_arguments
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.model_file import save_model
from fcnet_core.names import Mode
from fcnet_core.robot import load_robot
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.read_run import read_run
from fcnet_ros.topics import IMU, JOINT_STATES, JOINT_TRAJECTORY, RELIABLE

RATE = 100.0  # [Hz]


@pytest.fixture(scope="module")
def biped():
    return load_robot(BIPED)


@pytest.fixture
def policy(biped, tmp_path):
    """A policy that holds the stand pose."""
    save_model(small_model(biped, RATE, spread=0.0), tmp_path / "biped.safetensors")
    return tmp_path / "biped.safetensors"


def test_a_robot_of_eight_joints_is_simulated_controlled_shown_and_recorded_at_its_policys_rate(
    start, domain, biped, policy, tmp_path
):
    common = {"robot": BIPED, "policy": policy}
    with Client(domain) as client:
        targets: list[JointTrajectory] = []
        client.subscribe(JointTrajectory, JOINT_TRAJECTORY.name, targets.append, RELIABLE)
        monitor = start("run", "fcnet_teleop", "monitor", *ros_arguments(robot=BIPED, port=0))
        address = monitor.until_printed(r"open (http://\S+) in a browser")[1]
        topics = [JOINT_STATES.name, IMU.name, JOINT_TRAJECTORY.name, "controller/policy_step", "controller/mode"]
        recorder = start("bag", "record", "--output", str(tmp_path / "bag"), *(f"/{topic}" for topic in topics))
        simulated = ros_arguments(**common, clock="true", lockstep="always", start="standing", recorder_timeout=20.0)
        start("run", "sim_bridge", "mujoco_bridge", *simulated)
        started = {"auto_start": "true", "simulated_time": "true", "stand_up_time": 0.5}
        start("run", "fcnet_controller", "controller", *ros_arguments(**common, **started))
        client.until_mode(Mode.WALKING)
        client.until(lambda: len(targets) > 200, "targets")
        facts = json.load(urlopen(f"{address}/facts.json"))
        assert (facts["joints"], facts["legs"], facts["plotted"]) == (list(biped.joint_names), [], list(range(8)))
        assert recorder.end() == 0
    run = read_run(open_bag(tmp_path / "bag"), "", joint_names=biped.joint_names)
    assert run.joints.position.shape[1] == run.targets.position.shape[1] == len(biped.joint_names)
    assert np.median(np.diff(run.targets.stamp)) == pytest.approx(1.0 / RATE, abs=1e-6)
    assert np.median(np.diff(run.joints.stamp)) == pytest.approx(1.0 / (3 * RATE), abs=1e-6)
    assert len(run.steps.target_stamp) > 0
