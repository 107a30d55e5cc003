"""A robot stands up and lies down wherever it lies, with the code that the controller runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fcnet_core.rotation import matrix_from_xyzw
from quadruped_sim.physics.live_robot import LiveRobot
from quadruped_sim.physics.placement import Place
from quadruped_sim.physics.terrain import SideSlope
from quadruped_sim.standing import StartTrial

SAG = 0.05  # [rad] on level ground


@pytest.mark.parametrize("number", [0, 5])
@pytest.mark.parametrize(
    "ground", ["flat", "rough", "slope_up", "slope_across_15", "slope_down_15", "stairs_up", "stairs_down", "obstacles"]
)
def test_a_robot_stands_up_holds_and_lies_down(robot, ground, number):
    start = StartTrial(robot.name, ground, seed=7, number=number).run()
    assert not start.failure
    assert start.sag < (SAG if ground in ("flat", "slope_up", "slope_across_15", "slope_down_15") else 0.2)
    assert start.torque < robot.safety.max_torque
    assert start.rate < 0.2 * robot.safety.max_target_rate
    assert start.error < robot.safety.max_joint_error


def test_equal_trials_give_equal_results():
    trial = StartTrial("a1", "slope_up", seed=1, number=4)
    assert trial.run() == trial.run()


@pytest.mark.parametrize("heading", [0.0, 2.0])
@pytest.mark.parametrize("start", ["lying", "standing"])
def test_a_live_robot_begins_at_its_place_level_with_the_ground(robot, start, heading):
    live = LiveRobot(robot, SideSlope(10.0), noise=0.0, start=start, place=Place(1.0, -0.5, heading))
    live.advance(50)
    trunk = live.ground_truth()
    rotation = matrix_from_xyzw(trunk.orientation)
    np.testing.assert_allclose(trunk.position[:2], [1.0, -0.5], atol=0.12)
    normal = [0.0, -math.sin(math.radians(10.0)), math.cos(math.radians(10.0))]
    assert rotation[:, 2] @ normal > math.cos(0.1)
    assert math.atan2(rotation[1, 0], rotation[0, 0]) == pytest.approx(heading, abs=0.1)


def test_unknown_terrains_are_refused_with_those_that_exist(fcnet):
    process = fcnet("standing", "--terrains", "flat,moon", "--starts", "1")
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "moon" in errors
    assert "slope_across_15" in errors
