"""Twelve joints that weigh nothing."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from unitree_lowlevel.codec import OFF, POSITION_STOP, SERVO, VELOCITY_STOP, LowCommand
from unitree_lowlevel.fake_board.board import motor_terms
from unitree_lowlevel.fake_board.physics import STOP_MARGIN, JointPhysics

PERIOD = 0.002
NOTHING = LowCommand(np.full(12, SERVO, np.uint8), *np.zeros((5, 12)))


@pytest.fixture
def physics(robot) -> JointPhysics:
    return JointPhysics(robot, noise=0.0)


def _sense(physics: JointPhysics, command: LowCommand, cycles: int = 1) -> SimpleNamespace:
    physics.drive(*motor_terms(command))
    for _ in range(cycles):
        physics.advance(PERIOD)
    return SimpleNamespace(**physics.sense())


@pytest.mark.parametrize(
    "command",
    [
        replace(NOTHING, position=np.full(12, POSITION_STOP), stiffness=np.full(12, 50.0)),
        replace(NOTHING, velocity=np.full(12, VELOCITY_STOP), damping=np.full(12, 5.0)),
        replace(NOTHING, mode=np.full(12, OFF, np.uint8), torque=np.full(12, 5.0), stiffness=np.full(12, 50.0)),
    ],
    ids=["position stop", "velocity stop", "off"],
)
def test_the_vendors_special_values_switch_their_term_off(physics, command):
    state = _sense(physics, command)
    np.testing.assert_array_equal(state.torque, 0.0)


def test_the_largest_gains_of_the_wire_stay_stable_and_within_torque_limits(physics, robot):
    wild = replace(NOTHING, position=robot.stand_pose, stiffness=np.full(12, 1023.9), damping=np.full(12, 2047.9))
    for _ in range(500):
        state = _sense(physics, wild)
        assert (np.abs(state.torque) <= robot.torque_limit).all()
        assert (np.abs(state.velocity) < 50.0).all()


def test_joints_end_at_mechanical_stops_outside_the_vendors_limits(physics, robot):
    state = _sense(physics, replace(NOTHING, torque=np.full(12, 30.0)), 1000)
    np.testing.assert_allclose(state.position, robot.upper + STOP_MARGIN)
    np.testing.assert_array_equal(state.velocity, 0.0)
