"""The bridge as a process of its own: what it publishes, follows and refuses."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String

from fcnet_core.robot import JOINT_NAMES, load_robot
from fcnet_core.urdf import robot_urdf
from fcnet_ros.messages import GroundPatch
from fcnet_ros.topics import ROBOT_DESCRIPTION, TERRAIN
from quadruped_sim.physics.terrain import Stairs

STAND = load_robot("aliengo").stand_pose
STIFF = 5.0  # [Nm] a commanded robot that stands needs more than this somewhere


@pytest.fixture
def standing_robot(start, client):
    """A bridge whose robot begins on its feet."""
    program = start("run", "sim_bridge", "mujoco_bridge", "--ros-args", "-p", "start:=standing")
    client.until_states()
    return program


def test_it_publishes_the_state_of_a_robot_that_lies_at_rest(start, client):
    start("run", "sim_bridge", "mujoco_bridge")
    client.until_states()
    assert tuple(client.joints.name) == JOINT_NAMES
    assert len(client.joints.position) == len(client.joints.velocity) == len(client.joints.effort) == 12
    assert client.imu.header.frame_id == "imu_link"
    assert client.imu.orientation.w == pytest.approx(1.0, abs=0.02)
    assert client.imu.linear_acceleration.z == pytest.approx(9.81, abs=2.0)
    assert (client.odom.header.frame_id, client.odom.child_frame_id) == ("odom", "base_link")
    assert client.position[2] < 0.15


def test_it_publishes_the_ground_around_the_robot_and_its_description(start, client):
    client.observe(PointCloud2, TERRAIN.name, TERRAIN.requested)
    client.observe(String, ROBOT_DESCRIPTION.name, ROBOT_DESCRIPTION.requested)
    start("run", "sim_bridge", "mujoco_bridge", "--ros-args", "-p", "terrain:=stairs_up")
    client.until(lambda: {TERRAIN.name, ROBOT_DESCRIPTION.name} <= set(client.newest), "ground and description")
    assert client.newest[ROBOT_DESCRIPTION.name].data == robot_urdf(load_robot("aliengo"))
    ground = GroundPatch.read(client.newest[TERRAIN.name])
    x = ground.x + ground.step * np.arange(ground.heights.shape[1])
    assert x[0] < -3.0 < 3.0 < x[-1]
    np.testing.assert_allclose(ground.heights[40], Stairs(0.06).height(np.round(x, 3) + 1e-6, 0.0 * x), atol=1e-6)


def test_it_follows_targets_and_damps_when_they_stop(standing_robot, client):
    def stands():
        client.send_targets(STAND, duration=0.1)
        return client.position[2] > 0.3 and np.abs(client.joints.effort).max() > STIFF

    client.until(stands, "a robot that stands by its own torque")
    client.until(lambda: client.position[2] < 0.15, "damping lets the robot sink", 10.0)
    assert client.upright
    assert "damping the joints" in standing_robot.output


def test_a_patient_simulation_stands_still_until_a_late_controller_goes_on(start, client):
    program = start("run", "sim_bridge", "mujoco_bridge", "--ros-args", "-p", "start:=standing", "-p", "patience:=10.0")
    client.until_states()
    client.send_targets(STAND, duration=1.0)
    time.sleep(0.5)
    waiting = client.joints.header.stamp
    time.sleep(1.0)
    assert client.joints.header.stamp == waiting
    client.until(lambda: client.send_targets(STAND, 0.02) or client.position[2] > 0.3, "a robot that stands")
    assert client.joints.header.stamp != waiting
    assert "damping the joints" not in program.output


def test_targets_in_another_order_of_joints_mean_the_same(standing_robot, client):
    names, positions = JOINT_NAMES[::-1], STAND[::-1]
    client.send_targets(positions, 1.0, names)
    assert client.position[2] > 0.3


@pytest.mark.parametrize(
    ("names", "positions", "sentence"),
    [
        (("tail_joint", *JOINT_NAMES[1:]), STAND, "unknown ['tail_joint']"),
        (JOINT_NAMES, [math.nan, *STAND[1:]], "FR_hip_joint is not a finite number"),
    ],
)
def test_a_bad_command_is_refused_with_a_sentence_and_moves_nothing(start, client, names, positions, sentence):
    program = start("run", "sim_bridge", "mujoco_bridge")
    client.until_states()
    client.send_targets(positions, 1.0, names)
    client.until(lambda: sentence in program.output, sentence, 5.0)
    assert client.position[2] < 0.15


def test_a_push_moves_the_robot_and_a_reset_brings_it_back(standing_robot, client):
    assert client.call("mujoco_bridge/push").success
    client.send_targets(STAND, duration=0.5)
    assert client.call("mujoco_bridge/reset").success
    time.sleep(0.1)
    assert np.abs(client.position[:2]).max() < 0.1


@pytest.mark.parametrize(
    ("executable", "parameter", "words"),
    [
        ("mujoco_bridge", "robot:=aligo", "known robots: a1, aliengo"),
        ("mujoco_bridge", "terrain:=moon", "moon"),
        ("mujoco_bridge", "publish_rate:=240.0", "publish_rate"),
        ("mujoco_bridge", "real_time_factor:=-1.0", "real_time_factor"),
        ("mujoco_board", "generation:=gen34", "gen33 or gen38"),
        ("mujoco_board", "address:=192.0.2.1", "192.0.2.1"),
    ],
)
def test_an_unusable_parameter_is_named_before_the_program_exits(start, executable, parameter, words):
    program = start("run", "sim_bridge", executable, "--ros-args", "-p", parameter)
    assert program.wait() != 0
    assert words in program.output
    assert "Traceback" not in program.output
