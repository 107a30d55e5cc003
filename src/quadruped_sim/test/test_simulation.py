"""A batch of simulated robots: commands within limits, delays that are exact, falls that are noticed."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from msgspec.structs import replace

from fcnet_core.observation import LAYOUT
from quadruped_sim.physics.mjcf import stand_height
from quadruped_sim.physics.randomization import NOMINAL, TYPICAL, Randomization
from quadruped_sim.physics.sensors import NOISE_LEVELS, SENSOR_NOISE, noisy
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
        for data in simulation.data:
            assert (data.ctrl >= robot.lower).all() and (data.ctrl <= robot.upper).all()
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
    feet = samples[..., SENSORS["foot_position"]]
    moved = (feet[-1] - feet[-2]) / TIMESTEP
    np.testing.assert_allclose(samples[-1][:, SENSORS["foot_velocity"]], moved, atol=0.02)
    last = [data.actuator_force for data in sampled.data]
    np.testing.assert_allclose(samples[-1][:, SENSORS["torque"]], last)
    spin = samples[-1][:, SENSORS["foot_spin"]].reshape(2, 4, 3)
    pitching = samples[-1][:, SENSORS["joint_velocity"]].reshape(2, 4, 3)[..., 1:].sum(-1)
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


def test_a_robot_on_its_side_has_fallen_and_stands_again_after_a_reset(aliengo):
    simulation = Simulation(aliengo, 3, Flat())
    simulation.data[1].qpos[3:7] = np.sqrt([0.5, 0.5, 0, 0])
    simulation.data[2].qpos[2] = 0.08
    fallen = simulation.fallen(simulation.state())
    assert fallen.tolist() == [False, True, True]
    before = simulation.data[0].qpos.copy()
    simulation.reset(fallen)
    assert not simulation.fallen(simulation.state()).any()
    assert np.array_equal(simulation.data[0].qpos, before)


def test_height_is_measured_from_the_ground_below(aliengo):
    simulation = Simulation(aliengo, 2, Stairs(-0.1))
    for data in simulation.data:
        data.qpos[:3] = 3.05, 0.0, 0.36 - 0.6  # standing on the sixth step down
    simulation.data[1].qpos[2] -= 0.3
    assert simulation.fallen(simulation.state()).tolist() == [False, True]


def test_robots_that_are_not_active_stay_as_they_are(aliengo):
    simulation = Simulation(aliengo, 2, Flat())
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


def test_robots_are_drawn_from_the_ranges(aliengo):
    drawn = Randomization((0.4, 0.8), (1.0, 4.0), (0.9, 1.1), (0.7, 0.9), (0.01, 0.03))
    simulation = Simulation(aliengo, 40, Flat(), randomization=drawn)
    strength = np.array([model.actuator_forcerange[:, 1] / aliengo.torque_limit for model in simulation.models])
    gain = np.array([model.actuator_gainprm[:, 0] for model in simulation.models]) / aliengo.gains.kp / strength
    damping = np.array([-model.actuator_biasprm[:, 2] for model in simulation.models]) / aliengo.gains.kd / strength
    friction = np.array([model.geom_friction[0, 0] for model in simulation.models])
    payload = np.array([model.body_mass.sum() for model in simulation.models]) - aliengo.mass
    for values, (low, high) in (
        (strength, drawn.strength),
        (gain, drawn.gain),
        (friction, drawn.friction),
        (payload, drawn.payload),
    ):
        assert low - 1e-9 <= values.min() < low + 0.2 * (high - low)
        assert high - 0.2 * (high - low) < values.max() <= high + 1e-9
    np.testing.assert_allclose(gain, damping)
    assert np.ptp(strength, axis=1).max() < 1e-9  # a robot's motors are weak together


def test_sensor_noise_has_the_documented_deviations():
    rng = np.random.default_rng(0)
    clean = np.zeros((20000, 70), dtype=np.float32)
    for scale in (1.0, 2.0):
        spread = noisy(clean, scale, rng).std(axis=0)
        for part, deviation in SENSOR_NOISE.items():
            np.testing.assert_allclose(spread[LAYOUT[part]], scale * deviation, rtol=0.05)
        for exact in ("last_action", "command"):
            assert not spread[LAYOUT[exact]].any()
    assert noisy(clean, 0.0, rng) is clean
    assert NOISE_LEVELS.dtype == np.float32
