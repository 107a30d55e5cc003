"""Twelve joints that weigh nothing."""

from types import SimpleNamespace

import numpy as np
import pytest
from low_level_samples import command

from unitree_lowlevel.codec import OFF, POSITION_STOP, VELOCITY_STOP, LowCommand
from unitree_lowlevel.fake_board.board import motor_terms
from unitree_lowlevel.fake_board.physics import STOP_MARGIN, JointPhysics

PERIOD = 0.002


@pytest.fixture
def physics(robot) -> JointPhysics:
    return JointPhysics(robot, noise=0.0)


def _sense(physics: JointPhysics, given: LowCommand, cycles: int = 1) -> SimpleNamespace:
    physics.drive(*motor_terms(given))
    for _ in range(cycles):
        physics.advance(PERIOD)
    return SimpleNamespace(**physics.sense())


@pytest.mark.parametrize(
    "given",
    [
        command(position=np.full(12, POSITION_STOP), stiffness=np.full(12, 50.0)),
        command(velocity=np.full(12, VELOCITY_STOP), damping=np.full(12, 5.0)),
        command(mode=np.full(12, OFF, np.uint8), torque=np.full(12, 5.0), stiffness=np.full(12, 50.0)),
    ],
    ids=["position stop", "velocity stop", "off"],
)
def test_the_vendors_special_values_switch_their_term_off(physics, given):
    state = _sense(physics, given)
    np.testing.assert_array_equal(state.torque, 0.0)


def test_the_largest_gains_of_the_wire_stay_stable_and_within_torque_limits(physics, robot):
    wild = command(position=robot.stand_pose, stiffness=np.full(12, 1023.9), damping=np.full(12, 2047.9))
    for _ in range(500):
        state = _sense(physics, wild)
        assert (np.abs(state.torque) <= robot.torque_limit).all()
        assert (np.abs(state.velocity) < 50.0).all()


def test_joints_end_at_mechanical_stops_outside_the_vendors_limits(physics, robot):
    state = _sense(physics, command(torque=np.full(12, 30.0)), 1000)
    np.testing.assert_allclose(state.position, robot.upper + STOP_MARGIN)
    np.testing.assert_array_equal(state.velocity, 0.0)
