"""The generated MuJoCo models match the robot files: joints, masses, motors, and legs that touch each other."""

import mujoco
import numpy as np
import pytest
from msgspec.structs import replace

from fcnet_core.robot import LEGS
from quadruped_sim.physics.mjcf import REAL, build_model
from quadruped_sim.physics.randomization import KIND, SIMPLE
from quadruped_sim.physics.terrain import Flat
from quadruped_sim.rollout import Rollout
from quadruped_sim.tasks.setpoints import SetpointRanges

MAKERS = {"aliengo": (24.638, 0.25), "a1": (12.453, 0.2)}  # [kg], sums of the links in their URDFs, and calf [m]


@pytest.fixture
def model(robot):
    return build_model(robot, Flat(), 0.004)


def test_joints_and_motors_are_in_order_with_the_robots_limits_and_position_loop(robot, model):
    assert tuple(model.joint(1 + index).name for index in range(12)) == robot.joint_names
    assert tuple(model.actuator(index).name for index in range(12)) == robot.joint_names
    assert model.actuator_trnid[:, 0].tolist() == list(range(1, 13))
    assert model.nq == 19 and model.nu == 12
    np.testing.assert_allclose(model.jnt_range[1:], np.stack([robot.lower, robot.upper], axis=1))
    np.testing.assert_allclose(model.actuator_forcerange, np.stack([-robot.torque_limit, robot.torque_limit], axis=1))
    assert model.jnt_limited[1:].all() and model.actuator_forcelimited.all()
    data = mujoco.MjData(model)
    data.qpos[7:], data.qvel[6:], data.ctrl[:] = 0.3, 1.0, 0.5
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.actuator_force, robot.gains.kp * 0.2 - robot.gains.kd * 1.0)


def test_masses_and_legs_are_the_makers_and_mirror_images(robot, model):
    mass, calf = MAKERS[robot.name]
    assert model.body_subtreemass[0] == pytest.approx(mass, abs=1e-3)
    assert model.body("FR_calf").pos[2] == model.site("FR_foot").pos[2] == -calf
    for leg in LEGS:
        front, left = (1 if leg[0] == "F" else -1), (1 if leg[1] == "L" else -1)
        for place in (lambda leg: model.body(f"{leg}_hip").pos, lambda leg: model.body(f"{leg}_hip").ipos):
            np.testing.assert_allclose(place(leg), place("FL") * [front, left, 1], atol=1e-12)


def _in_the_air(robot, joints, effects=REAL):
    model = build_model(robot, Flat(), 0.004, effects)
    data = mujoco.MjData(model)
    data.qpos[2] = 10.0
    data.qpos[7:] = joints
    mujoco.mj_forward(model, data)
    return model, data


@pytest.mark.parametrize("velocity", [-25.0, -12.0, -5.0, 0.0, 5.0, 12.0, 25.0])
@pytest.mark.parametrize("effects", [REAL, SIMPLE], ids=["real", "simple"])
def test_a_motor_gives_what_its_controller_wants_within_the_curve_or_within_the_peak_alone(robot, effects, velocity):
    limits = (
        robot.torque_bounds(np.full(12, velocity)) if effects is REAL else (-robot.torque_limit, robot.torque_limit)
    )
    model, data = _in_the_air(robot, robot.stand_pose, effects)
    for error in (-3.0, -0.3, 0.0, 0.3, 3.0):
        data.ctrl[:], data.qvel[6:] = robot.stand_pose + error, velocity
        mujoco.mj_forward(model, data)
        wanted = robot.gains.kp * error - robot.gains.kd * velocity
        np.testing.assert_allclose(data.actuator_force, np.clip(wanted, *limits), atol=1e-9)


def test_the_curve_is_flat_up_to_its_speed_then_falls_to_nothing_and_brakes_fully(robot):
    limit = robot.torque_limit
    for share, torque in ((0.0, 1.0), (0.44, 1.0), (0.45 + 0.55 / 2, 0.5), (1.0, 0.0)):
        low, high = robot.torque_bounds(share * robot.velocity_limit)
        np.testing.assert_allclose(high, torque * limit, atol=0.01)
        np.testing.assert_allclose(low, -limit)
        np.testing.assert_allclose(np.negative(robot.torque_bounds(-share * robot.velocity_limit)[::-1]), (low, high))


def _touching(model, data) -> set[frozenset[str]]:
    """Pairs of bodies of the robot that touch."""
    bodies = [model.geom_bodyid[contact.geom] for contact in data.contact]
    return {frozenset(model.body(body).name for body in pair) for pair in bodies if 0 not in pair}


def test_legs_that_cross_touch_and_are_pushed_apart_and_poses_of_rest_do_not_touch(robot):
    for pose in (robot.stand_pose, robot.lie_pose):
        assert not _touching(*_in_the_air(robot, pose))
    crossed = robot.stand_pose.copy()
    while not _touching(*_in_the_air(robot, crossed)):
        crossed[[0, 3]] += 0.02, -0.02  # both fore legs inwards
        assert (crossed <= robot.upper).all()
    crossed[[0, 3]] += 0.02, -0.02
    model, data = _in_the_air(robot, crossed)
    assert _touching(model, data) == {frozenset({"FR_calf", "FL_calf"})}
    assert not _touching(*_in_the_air(robot, crossed, SIMPLE))
    model.opt.gravity[:], data.ctrl[:] = 0.0, crossed
    before = min(contact.dist for contact in data.contact)
    mujoco.mj_step(model, data, 100)
    assert min((contact.dist for contact in data.contact), default=0.0) > 0.5 * before


@pytest.mark.parametrize(
    "commands",
    [
        {"vx": 0.8, "vy": 0.2, "yaw_rate": 0.8},
        {"vx": 1.5},
        {"vx": 0.4, "height": -0.1},
        {"vx": 0.3, "width": -0.3},
        {"roll": 0.25, "pitch": -0.18, "height": -0.06},
    ],
    ids=str,
)
def test_a_robot_that_walks_does_not_touch_itself(robot, commands):
    drawn = replace(KIND, effects=replace(SIMPLE, self_collision=True))
    ranges = SetpointRanges({name: (value, value) for name, value in commands.items()})
    rollout = Rollout(robot, 1, Flat(), ranges, drawn, seed=0)
    body = rollout.simulation.bodies[0]
    for _ in range(150):
        rollout.send(rollout.advise(rollout.observe()))
        assert not _touching(body.model, body.data)
