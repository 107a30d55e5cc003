"""A simulated robot that is driven as its motors are."""

from __future__ import annotations

import numpy as np
import pytest

from quadruped_sim.physics.live_robot import MotorDrivenRobot
from quadruped_sim.physics.mjcf import stand_height
from quadruped_sim.physics.terrain import TERRAINS

ZERO = np.zeros(12)
SECOND = 500  # time steps


@pytest.fixture
def body(robot):
    return MotorDrivenRobot(robot, TERRAINS["flat"], noise=0.0)


def _stand(body: MotorDrivenRobot) -> None:
    start, gains = body.read_sensors().position, body.robot.gains
    for step in range(2 * SECOND):
        target = start + (body.robot.stand_pose - start) * min(1.0, step / SECOND)
        body.drive(target, ZERO, ZERO, np.full(12, gains.kp), np.full(12, gains.kd))
        body.advance(1)


def test_it_starts_lying_without_torque(body):
    body.advance(SECOND)
    assert body.damped
    np.testing.assert_array_equal(body.read_sensors().torque, 0.0)
    assert body.ground_truth().position[2] < 0.6 * body.robot.nominal_height


def test_it_gets_up_and_its_feet_feel_its_weight(body):
    _stand(body)
    assert not body.damped
    assert body.ground_truth().position[2] > 0.8 * stand_height(body.robot)
    assert body.foot_force().sum() == pytest.approx(9.81 * body.robot.mass, rel=0.05)


def test_each_motor_has_torque_stiffness_and_damping_of_its_own(body):
    _stand(body)
    reading = body.read_sensors()
    stiffness, damping = np.linspace(10.0, 40.0, 12), np.linspace(0.5, 2.0, 12)
    offset, speed, push = np.linspace(-0.2, 0.2, 12), np.linspace(-1.0, 1.0, 12), np.linspace(-3.0, 3.0, 12)
    body.drive(reading.position + offset, speed, push, stiffness, damping)
    body.advance(1)
    expected = push + stiffness * offset + damping * (speed - reading.velocity)
    np.testing.assert_allclose(body.read_sensors().torque, expected, atol=1e-6)


def test_torques_end_at_the_robots_limits_whatever_is_asked(body):
    body.drive(np.full(12, 1e30), np.full(12, -1e30), ZERO, np.full(12, 1023.0), np.full(12, 0.1))
    body.advance(1)
    assert (np.abs(body.read_sensors().torque) <= body.robot.torque_limit).all()


@pytest.mark.parametrize(("stiffness", "damping"), [(1023.9, 0.0), (0.0, 2047.9), (1023.9, 2047.9)])
def test_the_largest_gains_of_the_wire_stay_stable(body, stiffness, damping):
    body.drive(body.robot.stand_pose, ZERO, ZERO, np.full(12, stiffness), np.full(12, damping))
    body.advance(4 * SECOND)
    assert np.isfinite(body.data.qpos).all()
    assert np.abs(body.read_sensors().velocity).max() < 5.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_command_that_is_not_finite_changes_nothing(body, bad):
    _stand(body)
    controls = body.data.ctrl.copy()
    with pytest.raises(ValueError, match="finite"):
        body.drive(ZERO, ZERO, np.full(12, bad), ZERO, ZERO)
    np.testing.assert_array_equal(body.data.ctrl, controls)
    assert not body.damped


def test_a_blocked_joint_stays_while_the_others_follow_and_moves_again_when_freed(body):
    start = body.read_sensors().position[4]
    body.block(4)
    _stand(body)
    joints = body.read_sensors().position
    assert abs(joints[4] - start) < 0.15
    assert abs(joints[1] - start) > 0.3
    body.block(None)
    body.advance(SECOND)
    assert abs(body.read_sensors().position[4] - joints[4]) > 0.1  # the foot stays where it stands


def test_a_reset_takes_the_torque_away(body):
    _stand(body)
    body.reset()
    body.advance(1)
    np.testing.assert_array_equal(body.read_sensors().torque, 0.0)
    assert body.ground_truth().position[2] < 0.6 * body.robot.nominal_height
