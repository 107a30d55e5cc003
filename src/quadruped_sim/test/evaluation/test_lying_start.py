"""Robots that begin an episode lying: where, at which heading, and that those that stand already wait for them."""

from __future__ import annotations

import numpy as np
import pytest

from fcnet_core.rotation import roll_pitch_yaw
from quadruped_sim.evaluation.lying_start import stand_up
from quadruped_sim.physics.randomization import NOMINAL
from quadruped_sim.physics.terrain import START, Slope, Stairs
from quadruped_sim.rollout import Rollout, SetpointRanges

LYING = np.array([True, True, False, True])


def _begin(robot, terrain):
    rollout = Rollout(robot, len(LYING), terrain, SetpointRanges(), NOMINAL, seed=5)
    before = rollout.simulation.state()
    failed = stand_up(rollout, LYING, np.random.default_rng(0))
    return rollout.simulation, before, failed


def test_on_a_slope_they_lie_on_the_incline_at_any_heading_and_stand_up_there(aliengo):
    simulation, before, failed = _begin(aliengo, Slope(-12.0))
    assert not failed.any() and simulation.active.all()
    after = simulation.state()
    assert (after.position[LYING, 0] > START + 4.0).all()
    ground = simulation.terrain.height(after.position[:, 0], after.position[:, 1])
    assert (after.position[:, 2] - ground > 0.8 * aliengo.nominal_height).all()
    assert np.ptp(roll_pitch_yaw(after.orientation)[LYING, 2]) > 0.5
    np.testing.assert_array_equal(after.position[~LYING], before.position[~LYING])


def test_before_stairs_they_lie_at_the_start_and_head_ahead(robot):
    simulation, _, failed = _begin(robot, Stairs(0.1))
    assert not failed.any()
    state = simulation.state()
    np.testing.assert_allclose(state.position[:, :2], 0.0, atol=0.15)
    np.testing.assert_allclose(roll_pitch_yaw(state.orientation)[:, 2], 0.0, atol=0.2)


def test_without_any_that_lies_nothing_moves(aliengo):
    rollout = Rollout(aliengo, 2, Stairs(0.1), SetpointRanges(), NOMINAL, seed=5)
    assert not stand_up(rollout, np.zeros(2, dtype=bool), np.random.default_rng(0)).any()
    assert [data.time for data in rollout.simulation.data] == pytest.approx([0.0, 0.0])
