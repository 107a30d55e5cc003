"""Figures of a gait from made-up motions: what is slip and what rolls, chatter, clearance, work, limits of motors."""

import numpy as np
import pytest

from quadruped_sim.evaluation.gait_quality import GRAVITY, GaitRecorder, quality
from quadruped_sim.physics.simulation import Simulation
from quadruped_sim.physics.terrain import Flat, Stairs
from quadruped_sim.tasks.view import View

PERIODS, STEPS, TIMESTEP = 100, 5, 0.004
ALL = np.ones(1, dtype=bool)


def _quality(robot, samples, speed=0.5, rate=2.5, walking=ALL, counted=ALL, terrain=None):
    simulation = Simulation(robot, 1, terrain or Flat())
    recorder, state, nothing = GaitRecorder(simulation), simulation.state(), np.zeros((1, 12))
    state.linear_velocity[:] = speed, 0.0, 0.0
    for period in range(PERIODS):
        now = {name: values[STEPS * period : STEPS * (period + 1)] for name, values in samples.items()}
        view = View(simulation, state, np.zeros((1, 9)), np.zeros(1), walking, nothing, nothing, nothing, now)
        recorder.record(view, np.array([rate]), counted)
    return quality(recorder.sums)


@pytest.fixture
def samples(still_samples):
    """What is recorded in all time steps, of feet that stand and of joints without torque."""
    return still_samples(PERIODS * STEPS, 1)


def test_a_foot_that_rolls_does_not_slip(aliengo, samples):
    radius = aliengo.geometry.foot_radius
    samples["foot_velocity"][:] = 0.1, -0.05, 0.0
    assert _quality(aliengo, samples).slip == pytest.approx(np.hypot(0.1, 0.05))
    assert _quality(aliengo, samples).slip_share == pytest.approx(np.hypot(0.1, 0.05) / 0.5)
    samples["foot_spin"][:] = 0.05 / radius, 0.1 / radius, 0.0
    assert _quality(aliengo, samples).slip == pytest.approx(0.0, abs=1e-12)


def test_a_clean_gait_touches_down_once_a_stride_and_a_bounce_of_one_time_step_counts(aliengo, samples):
    stride = round(1 / (2.5 * TIMESTEP))
    touch, height = samples["foot_force"][:, 0], samples["foot_position"][:, 0, :, 2]
    height[:] = aliengo.geometry.foot_radius
    for start, highest in zip(range(0, len(touch), stride), (0.1, 0.09, 0.08, 0.07, 0.06), strict=True):
        touch[start + 40 : start + 80] = 0.0
        height[start + 40 : start + 80] += highest * np.sin(np.linspace(0, np.pi, 41))[:-1, None]
    clean = _quality(aliengo, samples)
    assert clean.touchdowns == pytest.approx(1.0)
    assert clean.duty == pytest.approx(0.6)
    assert clean.clearance == pytest.approx(0.08, abs=1e-3)
    touch[82::stride, 0] = 0.0  # one foot bounces after every touchdown
    chattering = _quality(aliengo, samples)
    assert chattering.touchdowns == pytest.approx(1.25)
    assert chattering.clearance == pytest.approx(clean.clearance)


def test_clearance_is_above_the_ground_below_the_foot(aliengo, samples):
    samples["foot_position"][:] = 3.0, 0.0, 0.6 + aliengo.geometry.foot_radius
    samples["foot_force"][10 * STEPS : 30 * STEPS] = 0.0
    stairs = Stairs(0.1)
    above = 0.6 - float(stairs.height(np.array(3.0), np.array(0.0)))
    assert _quality(aliengo, samples, terrain=stairs).clearance == pytest.approx(above)


def test_the_cost_of_transport_is_positive_work_per_weight_and_distance(aliengo, samples):
    samples["torque"][:], samples["joint_rate"][:] = 5.0, 1.0
    samples["torque"][..., 0] = -5.0  # a joint that brakes gives nothing back
    cost = _quality(aliengo, samples, speed=0.8).cost_of_transport
    assert cost == pytest.approx(11 * 5.0 / (aliengo.mass * GRAVITY * 0.8))


def test_a_motor_is_limited_earlier_the_faster_it_turns_and_not_while_it_brakes(aliengo, samples):
    knee = 2
    torque, velocity = samples["torque"][..., knee], samples["joint_rate"][..., knee]
    fast = 0.5 * (aliengo.motors["calf"].full_torque_speed + aliengo.motors["calf"].velocity)
    half = float(aliengo.torque_bounds(np.full(12, fast))[1][knee])
    torque[: 10 * STEPS] = aliengo.torque_limit[knee]
    torque[10 * STEPS : 40 * STEPS] = half
    velocity[10 * STEPS : 30 * STEPS] = fast
    velocity[30 * STEPS : 40 * STEPS] = -fast
    found = _quality(aliengo, samples)
    assert half == pytest.approx(aliengo.torque_limit[knee] / 2)
    assert found.torque_saturation == pytest.approx(0.1)
    assert found.speed_saturation == pytest.approx(0.3)
    assert found.joint_speed_saturation == pytest.approx(0.3 / 12)


def test_nothing_counts_before_settling_or_after_a_fall_and_feet_only_while_walking(aliengo, samples):
    standing = _quality(aliengo, samples, walking=~ALL)
    assert np.isnan(standing.duty) and np.isnan(standing.slip) and np.isnan(standing.cost_of_transport)
    assert standing.torque_saturation == 0.0
    out = _quality(aliengo, samples, counted=~ALL)
    assert all(np.isnan(getattr(out, name)) for name in out.__struct_fields__)
