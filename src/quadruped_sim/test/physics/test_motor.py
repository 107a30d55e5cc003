"""The motors' torque-speed curve: what a motor can give depends on how fast it turns."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from quadruped_sim.physics.mjcf import REAL, build_model
from quadruped_sim.physics.randomization import SIMPLE
from quadruped_sim.physics.terrain import Flat


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
