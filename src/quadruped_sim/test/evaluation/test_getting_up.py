"""Robots stand up and lie down on every terrain and get up after falls, with the code that the controller runs."""

from __future__ import annotations

import pytest

from fcnet_core.legs.recovery import Lying
from fcnet_core.model_file import load_model, shipped_model
from quadruped_sim.evaluation.getting_up import FALLS, GROUNDS, IN_TIME, GettingUp

SAG = 0.05  # [rad] on level ground
REPEATS = 4  # of each kind of fall


@pytest.mark.parametrize("number", [0, 5])
@pytest.mark.parametrize(
    "ground", ["flat", "rough", "slope_up", "slope_across_15", "slope_down_15", "stairs_up", "stairs_down", "obstacles"]
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
