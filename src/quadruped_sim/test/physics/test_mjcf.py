"""The generated MuJoCo models match the robot files, torque-speed curves of the motors included."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from fcnet_core.robot import JOINT_NAMES, LEGS
from quadruped_sim.physics.mjcf import REAL, build_model
from quadruped_sim.physics.randomization import SIMPLE
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


def _torque(robot, effects, error, velocity) -> np.ndarray:
    """Torques (12,) of motors that are `error` [rad] short of their target and turn at `velocity` [rad/s]."""
    model = build_model(robot, Flat(), 0.004, effects)
    data = mujoco.MjData(model)
    data.qpos[2] = 10.0
    data.qpos[7:] = robot.stand_pose
    data.ctrl[:] = robot.stand_pose + error
    data.qvel[6:] = velocity
    mujoco.mj_forward(model, data)
    return data.actuator_force.copy()


@pytest.mark.parametrize("error", [-3.0, -0.3, 0.0, 0.3, 3.0])
@pytest.mark.parametrize("velocity", [-25.0, -12.0, -5.0, 0.0, 5.0, 12.0, 25.0])
def test_a_motor_gives_what_its_controller_wants_within_the_curve(robot, error, velocity):
    wanted = robot.gains.kp * error - robot.gains.kd * velocity
    low, high = robot.torque_bounds(np.full(12, velocity))
    np.testing.assert_allclose(_torque(robot, REAL, error, velocity), np.clip(wanted, low, high), atol=1e-9)


def test_the_curve_is_flat_up_to_its_speed_then_falls_to_nothing_and_brakes_fully(robot):
    limit = robot.torque_limit
    for share, torque in ((0.0, 1.0), (0.44, 1.0), (0.45 + 0.55 / 2, 0.5), (1.0, 0.0)):
        low, high = robot.torque_bounds(share * robot.velocity_limit)
        np.testing.assert_allclose(high, torque * limit, atol=0.01)
        np.testing.assert_allclose(low, -limit)
        np.testing.assert_allclose(np.negative(robot.torque_bounds(-share * robot.velocity_limit)[::-1]), (low, high))


def test_without_the_curve_only_the_peak_limits(robot):
    np.testing.assert_allclose(_torque(robot, SIMPLE, 3.0, 18.0), robot.torque_limit)
