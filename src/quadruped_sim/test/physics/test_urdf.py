"""The URDF of a robot and the closed-form legs are the robot that the simulation has."""

from xml.etree import ElementTree as Xml

import mujoco
import numpy as np
import pytest
from made_robots import TAILED

from fcnet_core.cli import main
from fcnet_core.legs.kinematics import LegKinematics, standing_height
from fcnet_core.robot import LEGS, load_robot
from fcnet_core.rotation import matrix_from_xyzw, xyzw_from_roll_pitch
from fcnet_core.urdf import robot_urdf
from quadruped_sim.physics.mjcf import build_model
from quadruped_sim.physics.terrain import Flat

# MuJoCo, as a reader of URDF, shall keep the bodies that are fixed to others.
KEEP_ALL = '<mujoco><compiler fusestatic="false" discardvisual="false"/></mujoco></robot>'
PARTS = ("hip", "thigh", "calf")


@pytest.fixture(params=["aliengo", "a1", TAILED], ids=["aliengo", "a1", "tailed"])
def robot(request):
    return load_robot(request.param)


@pytest.fixture
def simulated(robot):
    model = build_model(robot, Flat(), 0.004)
    return model, mujoco.MjData(model)


@pytest.fixture
def described(robot):
    model = mujoco.MjModel.from_xml_string(robot_urdf(robot).replace("</robot>", KEEP_ALL))
    return model, mujoco.MjData(model)


def test_every_body_has_the_same_mass_inertia_and_centre_and_nothing_else_has_mass(robot, simulated, described):
    for name in ["trunk", *(f"{leg}_{part}" for leg in LEGS for part in PARTS), *robot.primitives.links]:
        ours, theirs = described[0].body(name), simulated[0].body(name)
        assert ours.mass == pytest.approx(theirs.mass)
        assert ours.ipos == pytest.approx(theirs.ipos)
        assert np.sort(ours.inertia) == pytest.approx(np.sort(theirs.inertia))
    assert described[0].body_mass.sum() == pytest.approx(robot.mass)


@pytest.mark.parametrize("seed", range(5))
def test_bodies_and_feet_are_where_the_simulation_has_them(robot, simulated, described, seed):
    joints = np.random.default_rng(seed).uniform(robot.lower, robot.upper)
    (model, data), (described_model, described_data) = simulated, described
    data.qpos[:7] = [0, 0, 0, 1, 0, 0, 0]
    for name, angle in zip(robot.joint_names, joints, strict=True):
        data.joint(name).qpos[:] = described_data.joint(name).qpos[:] = angle
    mujoco.mj_kinematics(model, data)
    mujoco.mj_kinematics(described_model, described_data)
    legs = LegKinematics(robot)
    points, (feet, _) = legs.points(joints[robot.leg_rows]), legs.feet(joints[None, robot.leg_rows])
    for number, leg in enumerate(LEGS):
        foot = data.site(f"{leg}_foot").xpos
        for ours, theirs in ((described_data.body(f"{leg}_{part}"), data.body(f"{leg}_{part}")) for part in PARTS):
            assert ours.xpos == pytest.approx(theirs.xpos, abs=1e-9)
            assert ours.xmat == pytest.approx(theirs.xmat, abs=1e-9)
        assert described_data.body(f"{leg}_foot").xpos == pytest.approx(foot, abs=1e-9)
        expected = np.array([*(data.body(f"{leg}_{part}").xpos for part in PARTS), foot])
        assert points[number] == pytest.approx(expected, abs=1e-9)
        assert feet[0, number] == pytest.approx(foot, abs=1e-9)


def test_joints_have_the_robots_names_and_limits_and_the_base_is_the_frame_of_odom(robot, described):
    model, _ = described
    assert {model.joint(index).name for index in range(model.njnt)} == set(robot.joint_names)
    limits = np.array([model.joint(name).range for name in robot.joint_names])
    assert limits == pytest.approx(np.stack([robot.lower, robot.upper], axis=-1))
    root = Xml.fromstring(robot_urdf(robot))
    limit, calf = root.find("joint[@name='FR_calf_joint']/limit").attrib, robot.leg_rows[0, 2]
    assert (float(limit["effort"]), float(limit["velocity"])) == (robot.torque_limit[calf], robot.velocity_limit[calf])
    links = {link.get("name") for link in root.findall("link")}
    assert links - {child.get("link") for child in root.findall("joint/child")} == {"base_link"}
    assert "imu_link" in links


def test_a_standing_robot_is_as_high_as_its_legs(robot):
    points = LegKinematics(robot).points(robot.stand_pose[robot.leg_rows])
    height = standing_height(robot, points, np.eye(3))
    assert height == pytest.approx(robot.geometry.foot_radius - points[:, 3, 2].min())
    on_its_back = matrix_from_xyzw([1.0, 0.0, 0.0, 0.0])
    assert standing_height(robot, points, on_its_back) == pytest.approx(robot.geometry.trunk[2])


def test_the_program_writes_it(aliengo, tmp_path, capsys):
    assert main(["urdf", "aliengo", "--out", str(tmp_path / "robot.urdf")]) == 0
    assert (tmp_path / "robot.urdf").read_text() == robot_urdf(aliengo)
    capsys.readouterr()
    assert main(["urdf", "aliengo"]) == 0
    assert capsys.readouterr().out == robot_urdf(aliengo)


@pytest.fixture
def bent(robot):
    """Joints (200, 4, 3) within the limits with the feet below the hips, the knees neither stretched nor folded."""
    return np.random.default_rng(0).uniform((-0.6, 0.2, -2.4), (0.6, 1.4, -1.0), (200, 4, 3))


def test_joints_are_solved_for_feet_and_the_jacobian_is_the_derivative(robot, bent):
    legs = LegKinematics(robot)
    feet, jacobian = legs.feet(bent)
    np.testing.assert_allclose(legs.joints(feet), bent, atol=1e-9)
    for joint, small in enumerate(1e-6 * np.eye(3)):
        slope = (legs.feet(bent + small)[0] - legs.feet(bent - small)[0]) / 2e-6
        np.testing.assert_allclose(jacobian[..., joint], slope, atol=1e-8)


def test_feet_out_of_reach_are_approached_on_the_same_line(robot):
    legs = LegKinematics(robot)
    joints = legs.joints((legs.neutral + [0.3, 0.0, -2.0])[None])
    assert np.isfinite(joints).all()
    near = legs.feet(joints)[0][0] - legs.neutral
    np.testing.assert_allclose(near[:, 0] / near[:, 2], 0.3 / -2.0, rtol=1e-6)


def test_torques_that_balance_forces_at_the_feet_give_these_forces(robot, bent):
    legs = LegKinematics(robot)
    forces = np.random.default_rng(1).uniform(-100.0, 100.0, bent.shape)
    torques = -np.einsum("...ji,...j->...i", legs.feet(bent)[1], forces)
    np.testing.assert_allclose(legs.ground_forces(bent, torques), forces, atol=1e-6)


@pytest.mark.parametrize("robot", ["aliengo", "a1"], indirect=True)
@pytest.mark.parametrize("attitude", [(0.0, 0.0), (0.26, 0.0), (-0.1, 0.2)])
@pytest.mark.parametrize("pose", ["stand", "crouch"])
def test_the_robot_is_in_equilibrium_on_its_feet(robot, simulated, attitude, pose):
    joints = robot.stand_pose if pose == "stand" else 0.5 * (robot.stand_pose + robot.lie_pose)
    orientation = xyzw_from_roll_pitch(*attitude)
    model, data = simulated
    data.qpos[:3], data.qpos[3:7], data.qpos[7:] = (0, 0, 5), orientation[[3, 0, 1, 2]], joints
    mujoco.mj_forward(model, data)  # in the air: qfrc_bias is the weight
    torque = LegKinematics(robot).torques(joints[robot.leg_rows], -matrix_from_xyzw(orientation)[2]).ravel()
    jacobians = np.zeros((4, 3, model.nv))
    down = matrix_from_xyzw(orientation) @ [0, 0, -robot.geometry.foot_radius]
    for leg, jacobian in zip(LEGS, jacobians, strict=True):
        mujoco.mj_jac(model, data, jacobian, None, data.site(f"{leg}_foot").xpos + down, model.body(f"{leg}_calf").id)
    stacked = jacobians.reshape(12, -1)
    left = data.qfrc_bias - np.concatenate([np.zeros(6), torque])
    forces = np.linalg.lstsq(stacked.T, left, rcond=None)[0]
    np.testing.assert_allclose(stacked.T @ forces, left, atol=1e-6)
    assert (forces.reshape(4, 3)[:, 2] > 0).all()
