"""Figures of a gait from made-up motions: what is slip and what rolls, chatter, clearance, work, limits of motors."""

from __future__ import annotations

import numpy as np
import pytest

from quadruped_sim.evaluation.gait_quality import GRAVITY, GaitRecorder, quality
from quadruped_sim.physics.simulation import SENSOR_COUNT, SENSORS, SUBSTEPS, TIMESTEP, Simulation
from quadruped_sim.physics.terrain import Flat, Stairs

PERIODS = 100
ALL = np.ones(1, dtype=bool)


def _samples():
    """Sensors (periods, SUBSTEPS, 1, n) of feet that stand and of joints without torque."""
    samples = np.zeros((PERIODS, SUBSTEPS, 1, SENSOR_COUNT))
    samples[..., SENSORS["touch"]] = 50.0
    return samples


def _quality(robot, samples, speed=0.5, rate=2.5, walking=ALL, counted=ALL, terrain=None):
    simulation = Simulation(robot, 1, terrain or Flat())
    recorder, state = GaitRecorder(simulation), simulation.state()
    state.linear_velocity[:] = speed, 0.0, 0.0
    for period in samples:
        recorder.record(period, state, np.array([rate]), walking, counted)
    return quality(recorder.sums)


def test_a_foot_that_rolls_does_not_slip(aliengo):
    samples, radius = _samples(), aliengo.geometry.foot_radius
    samples[..., SENSORS["foot_velocity"]] = np.tile([0.1, -0.05, 0.0], 4)
    assert _quality(aliengo, samples).slip == pytest.approx(np.hypot(0.1, 0.05))
    assert _quality(aliengo, samples).slip_share == pytest.approx(np.hypot(0.1, 0.05) / 0.5)
    samples[..., SENSORS["foot_spin"]] = np.tile([0.05 / radius, 0.1 / radius, 0.0], 4)
    assert _quality(aliengo, samples).slip == pytest.approx(0.0, abs=1e-12)


def test_a_clean_gait_touches_down_once_a_stride_and_a_bounce_of_one_time_step_counts(aliengo):
    samples, stride = _samples(), round(1 / (2.5 * TIMESTEP))
    steps = samples.reshape(-1, SENSOR_COUNT)  # a view
    touch, height = steps[:, SENSORS["touch"]], steps[:, SENSORS["foot_position"]][:, 2::3]
    height[:] = aliengo.geometry.foot_radius
    for start in range(0, len(touch), stride):
        touch[start + 40 : start + 80] = 0.0
        height[start + 40 : start + 80] += 0.08 * np.sin(np.linspace(0, np.pi, 41))[:-1, None]
    clean = _quality(aliengo, samples)
    assert clean.touchdowns == pytest.approx(1.0)
    assert clean.duty == pytest.approx(0.6)
    assert clean.clearance == pytest.approx(0.08, abs=1e-3)
    touch[82::stride, 0] = 0.0  # one foot bounces after every touchdown
    chattering = _quality(aliengo, samples)
    assert chattering.touchdowns == pytest.approx(1.25)
    assert chattering.clearance == pytest.approx(clean.clearance)


def test_clearance_is_above_the_ground_below_the_foot(aliengo):
    samples = _samples()
    samples[..., SENSORS["foot_position"]] = np.tile([3.0, 0.0, 0.6 + aliengo.geometry.foot_radius], 4)
    samples[10:30, ..., SENSORS["touch"]] = 0.0
    stairs = Stairs(0.1)
    above = 0.6 - float(stairs.height(np.array(3.0), np.array(0.0)))
    assert _quality(aliengo, samples, terrain=stairs).clearance == pytest.approx(above)


def test_the_cost_of_transport_is_positive_work_per_weight_and_distance(aliengo):
    samples = _samples()
    samples[..., SENSORS["torque"]], samples[..., SENSORS["joint_velocity"]] = 5.0, 1.0
    samples[..., SENSORS["torque"].start] = -5.0  # a joint that brakes gives nothing back
    cost = _quality(aliengo, samples, speed=0.8).cost_of_transport
    assert cost == pytest.approx(11 * 5.0 / (aliengo.mass * GRAVITY * 0.8))


def test_a_motor_is_limited_earlier_the_faster_it_turns_and_not_while_it_brakes(aliengo):
    samples, knee = _samples(), 2
    torque, velocity = SENSORS["torque"].start + knee, SENSORS["joint_velocity"].start + knee
    fast = 0.5 * (aliengo.motors["calf"].full_torque_speed + aliengo.motors["calf"].velocity)
    half = float(aliengo.torque_bounds(np.full(12, fast))[1][knee])
    samples[:10, ..., torque] = aliengo.torque_limit[knee]
    samples[10:40, ..., torque] = half
    samples[10:30, ..., velocity] = fast
    samples[30:40, ..., velocity] = -fast
    found = _quality(aliengo, samples)
    assert half == pytest.approx(aliengo.torque_limit[knee] / 2)
    assert found.torque_saturation == pytest.approx(0.1)
    assert found.speed_saturation == pytest.approx(0.3)
    assert found.joint_speed_saturation == pytest.approx(0.3 / 12)


def test_nothing_counts_before_settling_or_after_a_fall_and_feet_only_while_walking(aliengo):
    standing = _quality(aliengo, _samples(), walking=~ALL)
    assert np.isnan(standing.duty) and np.isnan(standing.slip) and np.isnan(standing.cost_of_transport)
    assert standing.torque_saturation == 0.0
    out = _quality(aliengo, _samples(), counted=~ALL)
    assert all(np.isnan(getattr(out, name)) for name in out.__struct_fields__)
