"""Robots stand up and lie down on every terrain and get up after falls, with the code that the controller runs; in
batches some begin an episode lying, and those that stand already wait for them.
"""

from __future__ import annotations

import numpy as np
import pytest

from fcnet_core.legs.recovery import Lying
from fcnet_core.model_file import load_model, shipped_model
from fcnet_core.rotation import roll_pitch_yaw
from quadruped_sim.evaluation.getting_up import FALLS, GROUNDS, IN_TIME, GettingUp
from quadruped_sim.evaluation.lying_start import stand_up
from quadruped_sim.physics.randomization import NOMINAL
from quadruped_sim.physics.terrain import START, Slope, Stairs
from quadruped_sim.rollout import Rollout
from quadruped_sim.tasks.setpoints import SetpointRanges

SAG = 0.05  # [rad] on level ground
LYING = np.array([True, True, False, True])  # robots of a batch
REPEATS = 3  # of each kind of fall


@pytest.mark.parametrize(
    ("ground", "number"),  # the first four numbers head along the axes
    [
        *(("flat", 0), ("rough", 5), ("slope_up", 0), ("slope_across_15", 5), ("slope_down_15", 0), ("stairs_up", 5)),
        *(("stairs_down", 0), ("obstacles", 5)),
    ],
)
def test_a_robot_stands_up_holds_and_lies_down(robot, ground, number):
    start = GettingUp(robot.name, "stand_up", 7, 0).stand_up(ground, number)
    assert not start.failure
    assert start.sag < (SAG if ground in ("flat", "slope_up", "slope_across_15", "slope_down_15") else 0.2)
    assert start.torque < robot.safety.max_torque
    assert start.target_rate < 0.2 * robot.safety.max_target_rate
    assert start.joint_error < robot.safety.max_joint_error


def test_a_fallen_robot_rights_itself_in_time_and_within_its_limits_then_walks(robot):
    trial = GettingUp(robot.name, "recovery", 7, 0, load_model(shipped_model(robot.name)))
    outcomes = [trial.recover(fall, degrees, number) for fall, degrees in FALLS for number in range(REPEATS)]
    assert any(outcome.lay_on is not Lying.BELLY for outcome in outcomes)
    # One in eight may end with a leg across another, which it touches; the scenario counts them in hundreds.
    assert sum(outcome.righting <= IN_TIME for outcome in outcomes) >= 7 / 8 * len(outcomes)
    assert sum(not outcome.failure for outcome in outcomes) >= 7 / 8 * len(outcomes)
    assert max(outcome.power for outcome in outcomes) < robot.safety.max_power
    assert max(outcome.speed for outcome in outcomes) < 1.0
    assert max(outcome.turning for outcome in outcomes) < robot.recovery.max_rate


@pytest.mark.parametrize("kind", ["stand_up", "recovery"])
def test_equal_episodes_have_equal_outcomes_and_terrains_and_falls_come_in_turn(kind):
    trial = GettingUp("a1", kind, 1, 14)
    outcome = trial.run()
    if kind == "stand_up":
        assert trial.stand_up(list(GROUNDS)[2], 1) == outcome
    else:
        assert trial.recover(*FALLS[2], 3).righting == outcome.righting


def test_a_robot_that_cannot_carry_itself_has_failed(monkeypatch):
    monkeypatch.setattr("quadruped_sim.evaluation.getting_up.FRICTION", (0.01, 0.01))
    assert GettingUp("a1", "stand_up", 0, 0).stand_up("slope_up_15", 0).failure


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
    assert rollout.simulation.time == pytest.approx([0.0, 0.0])
