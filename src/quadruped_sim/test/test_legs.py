"""Closed-form legs and the torques that hold a robot still agree with MuJoCo and with themselves."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.legs.statics import LegStatics
from fcnet_core.robot import LEGS
from fcnet_core.rotation import matrix_from_xyzw, xyzw_from_roll_pitch
from quadruped_sim.physics.mjcf import build_model
from quadruped_sim.physics.terrain import Flat


def _bent_legs(robot, count=200):
    """Joint positions within the limits with the feet below the hips and the knees neither stretched nor folded."""
    low, high = robot.lower.reshape(4, 3).copy(), robot.upper.reshape(4, 3).copy()
    low[:, 0], high[:, 0] = -0.6, 0.6
    low[:, 1], high[:, 1] = 0.2, 1.4
    low[:, 2], high[:, 2] = -2.4, -1.0
    return np.random.default_rng(0).uniform(low, high, (count, 4, 3))


def test_feet_are_where_mujoco_has_them(robot):
    model = build_model(robot, Flat(), 0.004)
    data = mujoco.MjData(model)
    joints = _bent_legs(robot, 20)
    feet, _ = LegKinematics(robot).feet(joints)
    for case in range(len(joints)):
        data.qpos[:3], data.qpos[3:7], data.qpos[7:] = (0, 0, 5), (1, 0, 0, 0), joints[case].ravel()
        mujoco.mj_kinematics(model, data)
        sites = np.array([data.site(f"{leg}_foot").xpos for leg in LEGS]) - [0, 0, 5]
        np.testing.assert_allclose(feet[case], sites, atol=1e-9)


def test_joints_that_are_solved_for_are_the_joints(robot):
    legs, joints = LegKinematics(robot), _bent_legs(robot)
    np.testing.assert_allclose(legs.joints(legs.feet(joints)[0]), joints, atol=1e-9)


def test_torques_that_balance_forces_at_the_feet_give_these_forces(robot):
    legs, joints = LegKinematics(robot), _bent_legs(robot, 20)
    forces = np.random.default_rng(1).uniform(-100.0, 100.0, (20, 4, 3))
    torques = -np.einsum("...ji,...j->...i", legs.feet(joints)[1], forces)
    np.testing.assert_allclose(legs.ground_forces(joints, torques), forces, atol=1e-6)


def test_the_jacobian_is_the_derivative(robot):
    legs, joints = LegKinematics(robot), _bent_legs(robot)
    _, jacobian = legs.feet(joints)
    for joint in range(3):
        small = np.zeros(3)
        small[joint] = 1e-6
        slope = (legs.feet(joints + small)[0] - legs.feet(joints - small)[0]) / 2e-6
        np.testing.assert_allclose(jacobian[..., joint], slope, atol=1e-8)


def test_feet_out_of_reach_are_approached_on_the_same_line(robot):
    legs = LegKinematics(robot)
    far = legs.neutral + np.array([0.3, 0.0, -2.0])
    joints = legs.joints(far[None])
    assert np.isfinite(joints).all()
    reached, _ = legs.feet(joints)
    near = reached[0] - legs.neutral
    np.testing.assert_allclose(near[:, 0] / near[:, 2], 0.3 / -2.0, rtol=1e-6)


@pytest.mark.parametrize("attitude", [(0.0, 0.0), (0.26, 0.0), (-0.1, 0.2)])
@pytest.mark.parametrize("pose", ["stand", "crouch"])
def test_the_robot_is_in_equilibrium_on_its_feet(robot, attitude, pose):
    joints = robot.stand_pose if pose == "stand" else 0.5 * (robot.stand_pose + robot.lie_pose)
    orientation = xyzw_from_roll_pitch(*attitude)
    model = build_model(robot, Flat(), 0.004)
    data = mujoco.MjData(model)
    data.qpos[:3], data.qpos[3:7], data.qpos[7:] = (0, 0, 5), orientation[[3, 0, 1, 2]], joints
    mujoco.mj_forward(model, data)  # in the air: qfrc_bias is the weight
    torque = LegStatics(robot).torques(joints, -matrix_from_xyzw(orientation)[2])
    forces = np.zeros(12)
    jacobians = []
    down = matrix_from_xyzw(orientation) @ [0, 0, -robot.geometry.foot_radius]
    for leg in ("FR", "FL", "RR", "RL"):
        jacobian = np.zeros((3, model.nv))
        mujoco.mj_jac(model, data, jacobian, None, data.site(f"{leg}_foot").xpos + down, model.body(f"{leg}_calf").id)
        jacobians.append(jacobian)
    stacked = np.concatenate(jacobians)  # (12, 18)
    left = data.qfrc_bias - np.concatenate([np.zeros(6), torque])
    forces = np.linalg.lstsq(stacked.T, left, rcond=None)[0]
    np.testing.assert_allclose(stacked.T @ forces, left, atol=1e-6)
    assert (forces.reshape(4, 3)[:, 2] > 0).all()
