"""The URDF of a robot is the robot that the simulation has."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree as Xml

import mujoco
import numpy as np
import pytest

from fcnet_core.legs.kinematics import LegKinematics, standing_height
from fcnet_core.robot import JOINT_NAMES, LEGS
from fcnet_core.rotation import matrix_from_xyzw
from fcnet_core.urdf import robot_urdf
from quadruped_sim.physics.mjcf import build_model
from quadruped_sim.physics.terrain import Flat

# MuJoCo, as a reader of URDF, shall keep the bodies that are fixed to others.
KEEP_ALL = '<mujoco><compiler fusestatic="false" discardvisual="false"/></mujoco></robot>'


@pytest.fixture
def simulated(robot):
    model = build_model(robot, Flat(), 0.004)
    return model, mujoco.MjData(model)


@pytest.fixture
def described(robot):
    model = mujoco.MjModel.from_xml_string(robot_urdf(robot).replace("</robot>", KEEP_ALL))
    return model, mujoco.MjData(model)


def pose(simulated, described, joints):
    """Put both at the same joint angles, the trunk at the origin."""
    model, data = simulated
    data.qpos[:] = [0, 0, 0, 1, 0, 0, 0, *joints]
    mujoco.mj_kinematics(model, data)
    model, data = described
    for name, angle in zip(JOINT_NAMES, joints, strict=True):
        data.joint(name).qpos[:] = angle
    mujoco.mj_kinematics(model, data)


def random_joints(robot, seed):
    return np.random.default_rng(seed).uniform(robot.lower, robot.upper)


def test_every_body_has_the_same_mass_inertia_and_centre(simulated, described):
    for name in ["trunk", *(f"{leg}_{part}" for leg in LEGS for part in ("hip", "thigh", "calf"))]:
        ours, theirs = described[0].body(name), simulated[0].body(name)
        assert ours.mass == pytest.approx(theirs.mass)
        assert ours.ipos == pytest.approx(theirs.ipos)
        assert np.sort(ours.inertia) == pytest.approx(np.sort(theirs.inertia))


def test_the_whole_mass_is_the_robots(robot, described):
    assert described[0].body_mass.sum() == pytest.approx(robot.mass)


@pytest.mark.parametrize("seed", range(5))
def test_bodies_and_feet_are_where_the_simulation_has_them(robot, simulated, described, seed):
    pose(simulated, described, random_joints(robot, seed))
    for leg in LEGS:
        for part in ("hip", "thigh", "calf"):
            ours, theirs = (data.body(f"{leg}_{part}") for _, data in (described, simulated))
            assert ours.xpos == pytest.approx(theirs.xpos, abs=1e-9)
            assert ours.xmat == pytest.approx(theirs.xmat, abs=1e-9)
        foot = described[1].body(f"{leg}_foot").xpos
        assert foot == pytest.approx(simulated[1].site(f"{leg}_foot").xpos, abs=1e-9)


def test_joints_have_the_robots_names_and_limits(robot, described):
    model, _ = described
    assert {model.joint(index).name for index in range(model.njnt)} == set(JOINT_NAMES)
    limits = np.array([model.joint(name).range for name in JOINT_NAMES])
    assert limits == pytest.approx(np.stack([robot.lower, robot.upper], axis=-1))
    root = Xml.fromstring(robot_urdf(robot))
    limit = root.find("joint[@name='FR_calf_joint']/limit").attrib
    assert float(limit["effort"]) == robot.joints["calf"].torque
    assert float(limit["velocity"]) == robot.joints["calf"].velocity


def test_the_base_is_the_frame_of_odom_and_the_imus_frame_is_there(robot):
    root = Xml.fromstring(robot_urdf(robot))
    children = {joint.find("child").get("link") for joint in root.findall("joint")}
    links = {link.get("name") for link in root.findall("link")}
    assert links - children == {"base_link"}
    assert "imu_link" in links


@pytest.mark.parametrize("seed", range(5))
def test_leg_points_are_where_the_simulation_has_them(robot, simulated, described, seed):
    joints = random_joints(robot, seed)
    pose(simulated, described, joints)
    points = LegKinematics(robot).points(joints.reshape(4, 3))
    for number, leg in enumerate(LEGS):
        names = [f"{leg}_{part}" for part in ("hip", "thigh", "calf")]
        expected = [simulated[1].body(name).xpos for name in names] + [simulated[1].site(f"{leg}_foot").xpos]
        assert points[number] == pytest.approx(np.array(expected), abs=1e-9)


def test_a_standing_robot_is_as_high_as_its_legs(robot):
    points = LegKinematics(robot).points(robot.stand_pose.reshape(4, 3))
    height = standing_height(robot, points, np.eye(3))
    assert height == pytest.approx(robot.geometry.foot_radius - points[:, 3, 2].min())
    on_its_back = matrix_from_xyzw([1.0, 0.0, 0.0, 0.0])
    assert standing_height(robot, points, on_its_back) == pytest.approx(robot.geometry.trunk[2])


def test_the_program_writes_it(robot, tmp_path):
    path = tmp_path / "robot.urdf"
    program = "import sys; from fcnet_core.cli import main; sys.exit(main(sys.argv[1:]))"
    subprocess.run([sys.executable, "-c", program, "urdf", robot.name, "--out", str(path)], check=True)
    assert path.read_text() == robot_urdf(robot)
    shown = subprocess.run([sys.executable, "-c", program, "urdf", robot.name], capture_output=True, text=True)
    assert shown.stdout == robot_urdf(robot)
