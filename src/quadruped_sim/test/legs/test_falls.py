"""Robots that have fallen right themselves, within the limits of their motors, and get up."""

from __future__ import annotations

import pytest

from fcnet_core.legs.recovery import Lying
from fcnet_core.model_file import load_model, shipped_model
from quadruped_sim.falls import FallTrial

FALLS = 8
IN_TIME = 5.0  # [s]


@pytest.fixture
def model(robot):
    return load_model(shipped_model(robot.name))


@pytest.mark.parametrize("fall", ["dropped", "toppled"])
@pytest.mark.parametrize("degrees", [0.0, 10.0])
def test_a_fallen_robot_rights_itself_in_time_and_within_its_limits_then_walks(robot, model, fall, degrees):
    outcomes = [FallTrial(robot.name, model, fall, degrees, 7, number).run() for number in range(FALLS)]
    assert any(outcome.lay_on is not Lying.BELLY for outcome in outcomes)
    # One in eight may end with a leg across another, which it touches: `fcnet recovery` counts them in hundreds.
    assert sum(outcome.righting <= IN_TIME for outcome in outcomes) >= FALLS - 1
    assert sum(outcome.walked for outcome in outcomes) >= FALLS - 1
    assert max(outcome.power for outcome in outcomes) < robot.safety.max_power
    assert max(outcome.speed for outcome in outcomes) < 1.0
    assert max(outcome.rate for outcome in outcomes) < robot.recovery.max_rate


def test_equal_trials_have_equal_outcomes(robot, model):
    trial = FallTrial(robot.name, model, "dropped", 10.0, 1, 0)
    assert trial.run() == trial.run()
