"""A simulated robot that is never reset by itself, as a real one, with position targets or driven motor by motor."""

import math

import numpy as np
import pytest

from fcnet_core.observation.sensors import sensors_of
from fcnet_core.rotation import matrix_from_xyzw, projected_gravity, roll_pitch_yaw
from quadruped_sim.physics.live_robot import LiveRobot, MotorDrivenRobot
from quadruped_sim.physics.mjcf import stand_height
from quadruped_sim.physics.placement import Place
from quadruped_sim.physics.terrain import TERRAINS, SideSlope

ZERO = np.zeros(12)


@pytest.fixture
def standing(robot) -> LiveRobot:
    return LiveRobot(robot, TERRAINS["flat"], noise=0.0, start="standing")


@pytest.fixture
def driven(robot) -> MotorDrivenRobot:
    return MotorDrivenRobot(robot, TERRAINS["flat"], noise=0.0, timestep=0.002)


def _wait(live: LiveRobot, seconds: float) -> None:
    live.advance(round(seconds / live.time_step))


def _stand(live: LiveRobot) -> None:
    start, second = live.read_sensors().position, round(1.0 / live.time_step)
    for step in range(2 * second):
        live.follow(start + (live.robot.stand_pose - start) * min(1.0, step / second))
        live.advance(1)


@pytest.mark.parametrize("terrain", TERRAINS)
@pytest.mark.parametrize(("start", "gravity"), [("lying", -1.0), ("on_back", 1.0)])
def test_it_starts_at_rest_and_damped_on_belly_or_back_on_every_terrain(aliengo, terrain, start, gravity):
    live = LiveRobot(aliengo, TERRAINS[terrain], noise=0.0, start=start)
    truth = live.ground_truth()
    assert live.damped
    assert np.abs(truth.linear_velocity).max() < 0.1
    assert projected_gravity(truth.orientation)[2] == pytest.approx(gravity, abs=0.1)


@pytest.mark.parametrize("heading", [0.0, 2.0])
@pytest.mark.parametrize("start", ["lying", "standing"])
def test_it_starts_at_its_place_level_with_the_ground(robot, start, heading):
    live = LiveRobot(robot, SideSlope(10.0), noise=0.0, start=start, place=Place(1.0, -0.5, heading))
    live.advance(50)
    trunk = live.ground_truth()
    rotation = matrix_from_xyzw(trunk.orientation)
    np.testing.assert_allclose(trunk.position[:2], [1.0, -0.5], atol=0.12)
    normal = [0.0, -math.sin(math.radians(10.0)), math.cos(math.radians(10.0))]
    assert rotation[:, 2] @ normal > math.cos(0.1)
    assert math.atan2(rotation[1, 0], rotation[0, 0]) == pytest.approx(heading, abs=0.1)


def test_it_gets_up_when_its_joints_are_led_and_a_reset_brings_it_back_while_time_goes_on(robot):
    live = LiveRobot(robot, TERRAINS["flat"], noise=0.0)
    start = live.ground_truth().position
    assert start[2] < 0.6 * live.robot.nominal_height
    _stand(live)
    assert not live.damped
    assert live.ground_truth().position[2] > 0.8 * stand_height(live.robot)
    live.shove(3.0, 0.0)
    _wait(live, 1.0)
    elapsed = live.time
    live.reset()
    assert live.time == pytest.approx(elapsed)
    assert live.damped
    np.testing.assert_allclose(live.ground_truth().position, start, atol=1e-6)


def test_damping_lets_a_standing_robot_sink_slowly_to_the_ground(standing):
    heights = []
    for seconds in (0.5, 0.04, 3.0):
        _wait(standing, seconds)
        heights.append(standing.ground_truth().position[2])
        standing.damp()
    assert heights[1] > 0.9 * heights[0] and heights[2] < 0.5 * heights[0]
    assert projected_gravity(standing.ground_truth().orientation)[2] < -0.9


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_targets_are_clipped_to_the_joint_limits_and_commands_that_are_not_finite_change_nothing(driven, bad):
    driven.follow(np.full(12, 100.0))
    expected = np.outer(driven.robot.upper, [1, 0, 0])
    np.testing.assert_array_equal(driven.data.ctrl.reshape(12, 3), expected)
    for command in (lambda: driven.follow([bad] * 12), lambda: driven.drive(ZERO, ZERO, [bad] * 12, ZERO, ZERO)):
        with pytest.raises(ValueError, match="finite"):
            command()
        np.testing.assert_array_equal(driven.data.ctrl.reshape(12, 3), expected)
        assert not driven.damped


def test_a_push_has_the_direction_asked_for_and_above_the_centre_it_turns_the_robot_over(standing):
    before = standing.ground_truth().linear_velocity
    assert standing.shove(0.7, np.pi / 2) == np.pi / 2
    np.testing.assert_allclose(standing.ground_truth().linear_velocity - before, [0.0, 0.7, 0.0], atol=0.01)
    standing.shove(1.0, np.pi / 2, height=0.1)  # to the left
    rates = standing.ground_truth().angular_velocity
    assert rates[0] < -1.0, "a roll to the left is negative about the forward axis"
    assert np.abs(rates[1:]).max() < 0.2 * abs(rates[0])


def test_the_accelerometer_feels_gravity_and_the_imu_is_upright(standing):
    _wait(standing, 2.0)
    reading = standing.read_sensors()
    np.testing.assert_allclose(reading.linear_acceleration, -9.81 * projected_gravity(reading.orientation), atol=0.1)
    assert np.linalg.norm(reading.orientation) == pytest.approx(1.0)
    assert np.abs(roll_pitch_yaw(reading.orientation)[:2]).max() < 0.1


@pytest.mark.parametrize("noise", [0.0, 1.0, 2.0])
def test_errors_of_its_sensors_are_the_boards_and_scale_with_their_parameter(aliengo, noise):
    live, board = LiveRobot(aliengo, TERRAINS["flat"], noise=noise, seed=1), sensors_of("board")
    readings = [live.read_sensors() for _ in range(500)]  # of one instant, so that nothing drifts
    offsets = np.array([reading.position - live.data.qpos[7:] for reading in readings])
    assert np.abs(offsets).max() <= noise * board["joint_position"].step
    spins = np.array([reading.angular_velocity for reading in readings]) - live.data.sensor("gyroscope").data
    tilts = np.array([projected_gravity(reading.orientation) for reading in readings])
    tilts = (tilts - projected_gravity(live.orientation))[:, :2]
    for name, errors in (("angular_velocity", spins), ("projected_gravity", tilts)):
        assert errors.std(axis=0) == pytest.approx(noise * board[name].white, rel=0.1, abs=1e-9)
        assert 1e-4 * noise <= np.abs(errors.mean(axis=0)).max() <= noise * board[name].bound * 1.1 + 1e-9


def test_driven_by_its_motors_it_starts_without_torque_stands_on_its_feet_and_a_reset_takes_the_torque_away(driven):
    def lies_without_torque() -> bool:
        torque, height = driven.read_sensors().torque, driven.ground_truth().position[2]
        return driven.damped and not torque.any() and height < 0.6 * driven.robot.nominal_height

    _wait(driven, 1.0)
    assert lies_without_torque()
    _stand(driven)
    assert not driven.damped
    assert driven.ground_truth().position[2] > 0.8 * stand_height(driven.robot)
    assert driven.foot_force().sum() == pytest.approx(9.81 * driven.robot.mass, rel=0.05)
    driven.reset()
    driven.advance(1)
    assert lies_without_torque()


def test_each_motor_has_torque_stiffness_and_damping_of_its_own(driven):
    _stand(driven)
    reading = driven.read_sensors()
    stiffness, damping = np.linspace(10.0, 40.0, 12), np.linspace(0.5, 2.0, 12)
    offset, speed, push = np.linspace(-0.2, 0.2, 12), np.linspace(-1.0, 1.0, 12), np.linspace(-3.0, 3.0, 12)
    driven.drive(reading.position + offset, speed, push, stiffness, damping)
    driven.advance(1)
    expected = push + stiffness * offset + damping * (speed - reading.velocity)
    np.testing.assert_allclose(driven.read_sensors().torque, expected, atol=1e-6)


@pytest.mark.parametrize(("stiffness", "damping"), [(1023.9, 0.0), (0.0, 2047.9), (1023.9, 2047.9)])
def test_the_largest_gains_of_the_wire_stay_stable_and_torques_end_at_the_robots_limits(driven, stiffness, damping):
    driven.drive(driven.robot.stand_pose, ZERO, ZERO, np.full(12, stiffness), np.full(12, damping))
    _wait(driven, 4.0)
    assert np.isfinite(driven.data.qpos).all()
    assert np.abs(driven.read_sensors().velocity).max() < 5.0
    driven.drive(np.full(12, 1e30), np.full(12, -1e30), ZERO, np.full(12, stiffness), np.full(12, damping))
    driven.advance(1)
    assert (np.abs(driven.read_sensors().torque) <= driven.robot.torque_limit).all()


def test_a_blocked_joint_stays_while_the_others_follow_and_moves_again_when_freed(driven):
    start = driven.read_sensors().position[4]
    driven.block(4)
    _stand(driven)
    joints = driven.read_sensors().position
    assert abs(joints[4] - start) < 0.15
    assert abs(joints[1] - start) > 0.3
    driven.block(None)
    _wait(driven, 1.0)
    assert abs(driven.read_sensors().position[4] - joints[4]) > 0.1  # the foot stays where it stands
