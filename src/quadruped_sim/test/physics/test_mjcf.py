"""The generated MuJoCo models say what the robot files say."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from fcnet_core.robot import JOINT_NAMES, LEGS
from quadruped_sim.physics.mjcf import build_model
from quadruped_sim.physics.terrain import TERRAINS, Flat


@pytest.fixture
def model(robot):
    return build_model(robot, Flat(), 0.004)


def test_joints_and_actuators_follow_the_joint_order(model):
    assert tuple(model.joint(1 + index).name for index in range(12)) == JOINT_NAMES
    assert tuple(model.actuator(index).name for index in range(12)) == JOINT_NAMES
    assert model.actuator_trnid[:, 0].tolist() == list(range(1, 13))
    assert model.nq == 19 and model.nu == 12


def test_limits_are_the_robots(robot, model):
    np.testing.assert_allclose(model.jnt_range[1:], np.stack([robot.lower, robot.upper], axis=1))
    assert model.jnt_limited[1:].all()
    np.testing.assert_allclose(model.actuator_forcerange, np.stack([-robot.torque_limit, robot.torque_limit], axis=1))
    assert model.actuator_forcelimited.all()


def test_actuators_are_the_robots_position_loop(robot, model):
    data = mujoco.MjData(model)
    data.qpos[7:], data.qvel[6:], data.ctrl[:] = 0.3, 1.0, 0.5
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.actuator_force, robot.gains.kp * 0.2 - robot.gains.kd * 1.0)


def test_masses_are_the_makers(robot, model):
    makers = {"aliengo": 24.638, "a1": 12.453}  # [kg], sums of the links in the makers' URDFs
    assert model.body_subtreemass[0] == pytest.approx(makers[robot.name], abs=1e-3)


def test_legs_are_mirror_images(model):
    place = {leg: model.body(f"{leg}_hip").pos for leg in LEGS}
    com = {leg: model.body(f"{leg}_hip").ipos for leg in LEGS}
    for leg in LEGS:
        front, left = (1 if leg[0] == "F" else -1), (1 if leg[1] == "L" else -1)
        for one in (place, com):
            np.testing.assert_allclose(one[leg], one["FL"] * [front, left, 1], atol=1e-12)


def test_aliengo_has_legs_of_25_cm(aliengo):
    model = build_model(aliengo, Flat(), 0.004)
    assert model.body("FR_calf").pos[2] == -0.25
    assert model.site("FR_foot").pos[2] == -0.25
    assert model.joint("FR_hip_joint").range.tolist() == [-1.047, 0.873]  # a right hip swings inwards less far


@pytest.mark.parametrize("terrain", TERRAINS.values(), ids=str)
def test_every_terrain_compiles(robot, terrain):
    assert build_model(robot, terrain, 0.004).ngeom > 0
