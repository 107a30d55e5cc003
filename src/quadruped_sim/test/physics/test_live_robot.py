"""A simulated robot that is never reset by itself, as a real one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fcnet_core.rotation import matrix_from_xyzw, projected_gravity, roll_pitch_yaw
from quadruped_sim.physics.live_robot import LiveRobot
from quadruped_sim.physics.mjcf import stand_height
from quadruped_sim.physics.placement import Place
from quadruped_sim.physics.terrain import TERRAINS, SideSlope

SECOND = 250  # time steps


def _stand(live: LiveRobot) -> None:
    start = live.read_sensors().position
    for step in range(2 * SECOND):
        live.follow(start + (live.robot.stand_pose - start) * min(1.0, step / SECOND))
        live.advance(1)


def test_it_starts_at_rest_on_its_belly_and_damped(robot):
    live = LiveRobot(robot, TERRAINS["flat"], noise=0.0)
    truth = live.ground_truth()
    assert live.damped
    assert truth.position[2] < 0.6 * robot.nominal_height
    assert np.abs(truth.linear_velocity).max() < 0.1
    assert projected_gravity(truth.orientation)[2] < -0.95


def test_it_may_start_at_rest_on_its_back(robot):
    live = LiveRobot(robot, TERRAINS["slope_across"], noise=0.0, start="on_back")
    assert live.damped
    assert np.abs(live.ground_truth().linear_velocity).max() < 0.1
    assert projected_gravity(live.ground_truth().orientation)[2] > 0.9


def test_it_gets_up_when_its_joints_are_led_to_the_stand_pose(robot):
    live = LiveRobot(robot, TERRAINS["flat"], noise=0.0)
    _stand(live)
    assert not live.damped
    assert live.ground_truth().position[2] > 0.8 * stand_height(robot)


def test_damping_lets_a_standing_robot_sink_slowly_to_the_ground(robot):
    live = LiveRobot(robot, TERRAINS["flat"], noise=0.0, start="standing")
    live.advance(SECOND // 2)
    standing = live.ground_truth().position[2]
    live.damp()
    live.advance(10)
    assert live.ground_truth().position[2] > 0.9 * standing
    live.advance(3 * SECOND)
    assert live.ground_truth().position[2] < 0.5 * standing
    assert projected_gravity(live.ground_truth().orientation)[2] < -0.9


def test_targets_are_clipped_to_the_joint_limits(robot):
    live = LiveRobot(robot, TERRAINS["flat"], noise=0.0)
    live.follow(np.full(12, 100.0))
    np.testing.assert_array_equal(live.data.ctrl.reshape(12, 3), np.outer(robot.upper, [1, 0, 0]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_targets_that_are_not_finite_change_nothing(robot, bad):
    live = LiveRobot(robot, TERRAINS["flat"], noise=0.0)
    with pytest.raises(ValueError, match="finite"):
        live.follow([bad] * 12)
    assert live.damped
    assert np.isfinite(live.data.ctrl).all()


def test_a_push_changes_the_velocity_in_the_direction_asked_for(robot):
    live = LiveRobot(robot, TERRAINS["flat"], noise=0.0, start="standing")
    before = live.ground_truth().linear_velocity
    assert live.push(0.7, np.pi / 2) == np.pi / 2
    np.testing.assert_allclose(live.ground_truth().linear_velocity - before, [0.0, 0.7, 0.0], atol=0.01)


def test_a_push_above_the_centre_turns_the_robot_over_towards_its_direction(robot):
    live = LiveRobot(robot, TERRAINS["flat"], noise=0.0, start="standing")
    live.push(1.0, np.pi / 2, height=0.1)  # to the left
    rates = live.ground_truth().angular_velocity
    assert rates[0] < -1.0, "a roll to the left is negative about the forward axis"
    assert np.abs(rates[1:]).max() < 0.2 * abs(rates[0])


def test_a_reset_brings_it_back_while_time_goes_on(robot):
    live = LiveRobot(robot, TERRAINS["flat"], noise=0.0)
    start = live.ground_truth().position
    _stand(live)
    live.push(3.0, 0.0)
    live.advance(SECOND)
    elapsed = live.time
    live.reset()
    assert live.time == pytest.approx(elapsed)
    assert live.damped
    np.testing.assert_allclose(live.ground_truth().position, start, atol=1e-6)


def test_the_accelerometer_feels_gravity_and_the_imu_is_upright(robot):
    live = LiveRobot(robot, TERRAINS["flat"], noise=0.0, start="standing")
    live.advance(2 * SECOND)
    reading = live.read_sensors()
    np.testing.assert_allclose(reading.linear_acceleration, -9.81 * projected_gravity(reading.orientation), atol=0.1)
    assert np.linalg.norm(reading.orientation) == pytest.approx(1.0)
    assert np.abs(roll_pitch_yaw(reading.orientation)[:2]).max() < 0.1


def test_noise_is_zero_mean_and_scales_with_its_parameter(robot):
    def spread(noise: float) -> float:
        live = LiveRobot(robot, TERRAINS["flat"], noise=noise, seed=1)
        readings = np.array([live.read_sensors().position - live.data.qpos[7:] for _ in range(500)])
        assert abs(readings.mean()) < 0.1 * noise * 0.01 + 1e-12
        return float(readings.std())

    assert spread(0.0) == 0.0
    assert spread(1.0) == pytest.approx(0.01, rel=0.05)
    assert spread(2.0) == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize("terrain", sorted(TERRAINS))
def test_it_can_be_put_on_every_terrain(aliengo, terrain):
    live = LiveRobot(aliengo, TERRAINS[terrain], noise=0.0)
    assert projected_gravity(live.ground_truth().orientation)[2] < -0.9


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
