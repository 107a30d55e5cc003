"""The bridge as a process: what it publishes, follows and refuses."""

import re
import time

import numpy as np
import pytest
from rclpy.parameter import Parameter
from ros_fixtures import domain as domain
from ros_fixtures import make_node as make_node
from ros_fixtures import run as run
from ros_harness import Client, assert_refused, ros_arguments

from fcnet_core.robot import load_robot
from fcnet_core.urdf import robot_urdf
from fcnet_ros.parameters import declare_fixed_parameters
from fcnet_ros.state_messages import GroundPatch
from fcnet_ros.topics import ROBOT_DESCRIPTION, TERRAIN
from quadruped_sim.physics.terrain import Stairs
from sim_bridge.mujoco_bridge import MujocoHardware
from sim_bridge.parameters import BoardParameters, BridgeParameters

JOINTS = load_robot("aliengo").joint_names
STAND = load_robot("aliengo").stand_pose
PATIENCE = 1.0  # [s]
STIFF = 5.0  # [Nm] a commanded robot that stands needs more than this somewhere


@pytest.fixture(scope="module")
def bridge(run):
    """A bridge whose robot starts on its feet, before stairs."""
    given = ros_arguments(start="standing", terrain="stairs_up", patience=PATIENCE)
    return run(["ros2", "run", "sim_bridge", "mujoco_bridge", *given])


@pytest.fixture
def standing(bridge, client):
    """The client of a robot that stands where it started."""
    client.until_states()
    assert client.call("mujoco_bridge/reset").success
    client.until(lambda: client.position[2] > 0.3, "a robot that stands")
    return client


@pytest.fixture
def lying(standing):
    """The client of a robot that was damped and has sunk."""
    standing.send_targets(None)
    standing.until(lambda: standing.position[2] < 0.15 and standing.speed < 0.02, "a robot that lies")
    return standing


def test_it_publishes_the_state_of_a_robot_that_lies_at_rest(lying):
    assert tuple(lying.joints.name) == JOINTS
    assert len(lying.joints.position) == len(lying.joints.velocity) == len(lying.joints.effort) == 12
    assert lying.imu.header.frame_id == "imu_link"
    assert lying.imu.orientation.w == pytest.approx(1.0, abs=0.02)
    gravity = pytest.approx(9.81, abs=2.0)
    lying.until(lambda: lying.imu.linear_acceleration.z == gravity, "gravity, once it lies still")
    assert (lying.odom.header.frame_id, lying.odom.child_frame_id) == ("odom", "base_link")


def test_it_publishes_the_ground_around_the_robot_and_its_description(bridge, client):
    for topic in (TERRAIN, ROBOT_DESCRIPTION):
        client.observe(topic.kind, topic.name, topic.requested)
    client.until(lambda: {TERRAIN.name, ROBOT_DESCRIPTION.name} <= set(client.newest), "ground and description")
    assert client.newest[ROBOT_DESCRIPTION.name].data == robot_urdf(load_robot("aliengo"))
    ground = GroundPatch.read(client.newest[TERRAIN.name])
    x = ground.x + ground.step * np.arange(ground.heights.shape[1])
    assert x[0] < -3.0 < 3.0 < x[-1]
    np.testing.assert_allclose(ground.heights[40], Stairs(0.06).height(np.round(x, 3) + 1e-6, 0.0 * x), atol=1e-6)


def test_it_follows_targets_and_damps_when_they_stop_for_longer_than_it_waits(bridge, standing):
    def stands():
        standing.send_targets(STAND, duration=0.1)
        return standing.position[2] > 0.3 and np.abs(standing.joints.effort).max() > STIFF

    standing.until(stands, "a robot that stands by its own torque")
    stopped = time.monotonic()
    standing.until(lambda: standing.position[2] < 0.15, "damping lets the robot sink", 10.0)
    assert time.monotonic() - stopped > PATIENCE
    assert standing.upright
    assert "damping the joints" in bridge.output


@pytest.mark.parametrize(
    ("kind", "parameter", "value", "named"),
    [
        (BridgeParameters, "terrain", "moon", "moon"),
        (BridgeParameters, "real_time_factor", -1.0, "real_time_factor"),
        (BridgeParameters, "lockstep", "always", "clock:=true"),
        (BoardParameters, "generation", "gen34", "generation"),
    ],
)
def test_an_unusable_parameter_is_refused_by_name(make_node, kind, parameter, value, named):
    node = make_node("simulator", parameter_overrides=[Parameter(parameter, value=value)])
    with pytest.raises(ValueError, match=named):
        MujocoHardware().configure(node, declare_fixed_parameters(node, kind))


def test_a_board_whose_address_cannot_be_used_exits_with_the_reason(run):
    assert_refused(run(["ros2", "run", "sim_bridge", "mujoco_board", *ros_arguments(address="192.0.2.1")]), "192.0.2.1")


def test_a_second_controller_neither_moves_nor_damps_a_robot_and_is_reported(bridge, standing, domain):
    with Client(domain, "second") as second:
        refused = int(standing.health.get("commands_refused", "0"))
        warning = re.compile("targets of .* are rejected: the robot follows /test_client")

        def stands():
            standing.send_targets(STAND)
            second.send_targets(None)
            assert standing.position[2] > 0.3
            are_refused = int(standing.health.get("commands_refused", "0")) > refused + 20
            return are_refused and warning.search(bridge.output)

        standing.until(stands, "targets that are refused, with a warning")
