"""A batch of simulated robots: commands within limits, delays that are exact, falls that are noticed."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from msgspec.structs import replace

from quadruped_sim.physics.mjcf import stand_height
from quadruped_sim.physics.randomization import NOMINAL, TYPICAL
from quadruped_sim.physics.simulation import CONTROL_PERIOD, SENSOR_COUNT, SENSORS, SUBSTEPS, TIMESTEP, Simulation
from quadruped_sim.physics.terrain import Flat, Rough, Stairs


def test_it_stands_on_its_stand_pose(robot):
    simulation = Simulation(robot, 3, Flat())
    for _ in range(100):
        simulation.step(np.tile(robot.stand_pose, (3, 1)))
    state = simulation.state()
    assert not simulation.fallen(state).any()
    assert state.contact.all()
    height = state.position[:, 2] / stand_height(robot)
    assert (height > 0.85).all() and (height < 1.01).all()  # the joints' springs give in a little under its weight
    np.testing.assert_allclose(state.orientation, np.tile([0, 0, 0, 1], (3, 1)), atol=0.06)
    np.testing.assert_allclose(state.linear_velocity, 0, atol=0.01)


def test_joints_are_never_commanded_beyond_their_limits(robot):
    simulation = Simulation(robot, 2, Flat(), randomization=TYPICAL)
    rng = np.random.default_rng(0)
    for _ in range(25):
        simulation.step(rng.normal(0, 10, (2, 12)))
        for data, zero in zip(simulation.data, simulation.drawn.joint_zero, strict=True):
            counted = data.ctrl + zero
            assert (counted >= robot.lower - 1e-9).all() and (counted <= robot.upper + 1e-9).all()
            assert (np.abs(data.actuator_force) <= robot.torque_limit + 1e-9).all()


@pytest.mark.parametrize("late", [0, 1, 4, 5, 7, 10])
def test_a_target_takes_effect_after_exactly_its_delay(aliengo, late):
    simulation = Simulation(aliengo, 1, Flat(), randomization=replace(NOMINAL, delay=(late * TIMESTEP,) * 2))
    model, expected = simulation.models[0], mujoco.MjData(simulation.models[0])
    expected.qpos[:] = simulation.data[0].qpos
    expected.ctrl[:] = expected.qpos[7:]
    target = aliengo.stand_pose + 0.2
    for step in range(3 * SUBSTEPS):
        if step == late:
            expected.ctrl[:] = target
        mujoco.mj_step(model, expected)
    for _ in range(3):
        simulation.step(target[None])
    np.testing.assert_array_equal(simulation.data[0].qpos, expected.qpos)
    assert simulation.data[0].time == pytest.approx(3 * CONTROL_PERIOD)


def test_jitter_delays_each_target_differently_and_the_newest_that_has_arrived_counts(aliengo, monkeypatch):
    simulation = Simulation(aliengo, 1, Flat(), randomization=replace(NOMINAL, delay=(0.008, 0.008), jitter=0.02))
    commanded, step = [], mujoco.mj_step

    def record(model, data, steps=1):
        commanded.extend([data.ctrl[0]] * steps)
        step(model, data, steps)

    monkeypatch.setattr(mujoco, "mj_step", record)
    targets = 0.001 * np.arange(1, 101)  # of the first joint
    for target in targets:
        simulation.step(aliengo.stand_pose + [target, *[0.0] * 11])
    newest = np.searchsorted(targets, commanded[2 * SUBSTEPS :])  # of the commands, in each time step
    assert (np.diff(newest) >= 0).all()
    late = np.flatnonzero(np.diff(newest)) + 1 + 2 * SUBSTEPS - SUBSTEPS * newest[1:][np.diff(newest) > 0]
    assert set(late) == {2, 3, 4, 5, 6, 7}


def test_sensors_of_every_time_step_are_sampled_without_changing_the_motion(aliengo):
    drawn = replace(NOMINAL, delay=(0.012, 0.012))
    plain, sampled = (Simulation(aliengo, 2, Flat(), randomization=drawn) for _ in range(2))
    samples = np.zeros((SUBSTEPS, 2, SENSOR_COUNT))
    targets = np.tile(aliengo.stand_pose + 0.1, (2, 1))
    for _ in range(10):
        plain.step(targets)
        sampled.step(targets, samples)
    np.testing.assert_array_equal(plain.state().position, sampled.state().position)
    motions = samples.reshape(-1, SENSOR_COUNT)
    assert len(np.unique(motions[:, SENSORS["touch"]], axis=0)) == len(motions)
    feet, last = samples[..., SENSORS["foot_position"]], samples[-1]
    np.testing.assert_allclose(last[:, SENSORS["foot_velocity"]], (feet[-1] - feet[-2]) / TIMESTEP, atol=0.02)
    np.testing.assert_allclose(last[:, SENSORS["torque"]], [data.actuator_force for data in sampled.data])
    spin = last[:, SENSORS["foot_spin"]].reshape(2, 4, 3)
    pitching = last[:, SENSORS["joint_velocity"]].reshape(2, 4, 3)[..., 1:].sum(-1)
    np.testing.assert_allclose(spin[..., 1], pitching, atol=0.1)  # the trunk hardly turns


def test_the_seed_decides_everything(aliengo):
    def walk(seed: int) -> np.ndarray:
        simulation = Simulation(aliengo, 3, Rough(0.04), seed, TYPICAL)
        for _ in range(5):
            simulation.push(np.ones(3, dtype=bool), 0.5)
            simulation.step(np.tile(aliengo.stand_pose, (3, 1)))
        return simulation.state().position

    assert np.array_equal(walk(1), walk(1))
    assert not np.array_equal(walk(1), walk(2))


def test_a_robot_on_its_side_or_belly_has_fallen_and_only_it_stands_again_after_a_reset(aliengo):
    simulation = Simulation(aliengo, 3, Flat())
    simulation.data[1].qpos[3:7] = np.sqrt([0.5, 0.5, 0, 0])
    simulation.data[2].qpos[2] = 0.08
    fallen = simulation.fallen(simulation.state())
    assert fallen.tolist() == [False, True, True]
    before = simulation.data[0].qpos.copy()
    simulation.reset(fallen)
    assert not simulation.fallen(simulation.state()).any()
    assert np.array_equal(simulation.data[0].qpos, before)


def test_height_is_measured_from_the_ground_below_and_robots_that_are_not_active_stay_as_they_are(aliengo):
    simulation = Simulation(aliengo, 2, Stairs(-0.1))
    for data in simulation.data:
        data.qpos[:3] = 3.05, 0.0, 0.36 - 0.6  # standing on the sixth step down
    simulation.data[1].qpos[2] -= 0.3
    assert simulation.fallen(simulation.state()).tolist() == [False, True]
    simulation.active[1] = False
    before = simulation.data[1].qpos.copy()
    simulation.step(np.zeros((2, 12)))
    assert np.array_equal(simulation.data[1].qpos, before)
    assert simulation.data[0].time > 0


def test_none_starts_inside_rough_ground(robot):
    simulation = Simulation(robot, 20, Rough(0.06))
    for model, data in zip(simulation.models, simulation.data, strict=True):
        mujoco.mj_forward(model, data)
        assert data.ncon == 0
