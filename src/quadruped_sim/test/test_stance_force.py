"""Forces at the feet carry the robot and keep within friction."""

from __future__ import annotations

import numpy as np
import pytest

from fcnet_core.legs.kinematics import LegKinematics
from quadruped_sim.trot_expert import share_forces

GRAVITY = 9.81
FRICTION = 0.3


@pytest.fixture
def feet(robot):
    return (LegKinematics(robot).neutral - [0, 0, robot.nominal_height])[None]


def _wrench(*entries):
    return np.array([entries], dtype=float)


@pytest.mark.parametrize("stance", [(1, 1, 1, 1), (1, 0, 0, 1), (0, 1, 1, 0)])
def test_the_feet_in_stance_carry_the_weight_without_turning_the_trunk(robot, feet, stance):
    weight = robot.mass * GRAVITY
    forces = share_forces(
        feet, np.array([stance], dtype=bool), _wrench(0, 0, weight, 0, 0, 0), 12 * robot.mass, FRICTION
    )
    assert forces.sum(axis=1)[0, 2] == pytest.approx(weight, rel=0.02)
    moment = np.cross(feet, forces).sum(axis=1)[0]
    np.testing.assert_allclose(moment, 0, atol=0.01 * weight * robot.geometry.hip_x)
    assert not forces[0, ~np.array(stance, dtype=bool)].any()


def test_a_roll_moment_comes_from_the_outer_feet(robot, feet):
    stance = np.ones((1, 4), dtype=bool)
    forces = share_forces(feet, stance, _wrench(0, 0, robot.mass * GRAVITY, 5, 0, 0), 12 * robot.mass, FRICTION)
    right, left = forces[0, [0, 2], 2].sum(), forces[0, [1, 3], 2].sum()
    assert left > right
    assert np.cross(feet, forces).sum(axis=1)[0, 0] == pytest.approx(5, rel=0.05)


def test_forces_push_within_friction_and_strength_whatever_is_asked(robot, feet):
    rng = np.random.default_rng(0)
    count, strongest = 200, 12 * robot.mass
    stance = rng.random((count, 4)) < 0.6
    wrench = rng.normal(0, 300, (count, 6))
    forces = share_forces(np.repeat(feet, count, 0), stance, wrench, strongest, FRICTION)
    assert (forces[..., 2] >= 0).all() and (forces[..., 2] <= strongest).all()
    assert (np.abs(forces[..., :2]) <= FRICTION * forces[..., 2:] + 1e-9).all()
    assert not forces[~stance].any()
