"""The torques that hold a robot still agree with MuJoCo's inverse dynamics."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from fcnet_core.legs.statics import LegStatics
from fcnet_core.rotation import matrix_from_xyzw, xyzw_from_roll_pitch
from quadruped_sim.physics.mjcf import build_model
from quadruped_sim.physics.terrain import Flat


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
