"""Robots that differ from their model: what is drawn is what is simulated, and what it does can be seen."""

from __future__ import annotations

import mujoco
import numpy as np
from msgspec import convert
from msgspec.structs import replace

from fcnet_core.observation import LAYOUT, SENSOR_NOISE
from quadruped_sim.physics.mjcf import DAMPING, STIFFNESS
from quadruped_sim.physics.randomization import KIND, NOMINAL, RANGES, TYPICAL, Draw, Randomization
from quadruped_sim.physics.sensors import NOISE_LEVELS, Sensors, noisy
from quadruped_sim.physics.simulation import CONTROL_PERIOD, Simulation
from quadruped_sim.physics.terrain import Flat, Patch


def test_robots_are_drawn_from_the_ranges_and_are_simulated_as_drawn(aliengo):
    ranges = replace(TYPICAL, friction=(0.4, 0.8), payload=(1.0, 4.0), strength=(0.7, 0.9), com=(-0.05, 0.02))
    simulation = Simulation(aliengo, 40, Flat(), randomization=ranges)
    drawn, models = simulation.drawn, simulation.models
    for name in Draw.__dataclass_fields__:
        (low, high), values = getattr(ranges, name), getattr(drawn, name)
        assert low <= values.min() < low + 0.2 * (high - low)
        assert high - 0.2 * (high - low) < values.max() <= high
    nominal = Simulation(aliengo, 1, Flat(), randomization=NOMINAL).models[0]
    trunk = nominal.body("trunk").id
    strength = drawn.strength[:, None]
    expected = {
        "friction": ([model.geom_friction[0, 0] for model in models], drawn.friction),
        "mass": ([model.body_subtreemass[0] for model in models], aliengo.mass + drawn.payload),
        "com": ([model.body_ipos[trunk] - nominal.body_ipos[trunk] for model in models], drawn.com),
        "torque": ([model.actuator_forcerange[:, 1] for model in models], aliengo.torque_limit * strength),
        "kp": ([m.actuator_gainprm[:, STIFFNESS] for m in models], aliengo.gains.kp * strength * drawn.gain),
        "kd": ([m.actuator_gainprm[:, DAMPING] for m in models], aliengo.gains.kd * strength * drawn.gain),
        "armature": ([m.dof_armature[6:] for m in models], aliengo.armature * drawn.armature[:, None]),
        "damping": ([m.dof_damping[6] for m in models], aliengo.joints["hip"].damping * drawn.joint_damping),
        "loss": ([m.dof_frictionloss[6] for m in models], aliengo.joints["hip"].friction * drawn.joint_friction),
    }
    for name, (found, wanted) in expected.items():
        np.testing.assert_allclose(found, wanted, atol=1e-12, err_msg=name)
    strong = Simulation(aliengo, 1, Flat(), randomization=replace(NOMINAL, strength=(1.2, 1.2))).models[0]
    np.testing.assert_allclose(strong.actuator_forcerange[:, 1], aliengo.torque_limit)  # the peak is not exceeded


def test_only_the_robots_that_are_asked_for_are_drawn_anew(aliengo):
    simulation = Simulation(aliengo, 3, Flat(), randomization=TYPICAL)
    before, mass = simulation.drawn.payload.copy(), [model.body_mass.sum() for model in simulation.models]
    mask = np.array([False, True, False])
    simulation.redraw(mask)
    simulation.reset(mask)
    assert (simulation.drawn.payload != before).tolist() == mask.tolist()
    changed = [model.body_mass.sum() for model in simulation.models]
    np.testing.assert_allclose(np.subtract(changed, mass), simulation.drawn.payload - before, atol=1e-9)


def test_a_robot_stands_where_its_encoders_not_its_joints_are_at_the_target(aliengo):
    plain = Simulation(aliengo, 1, Flat(), randomization=NOMINAL)
    shifted = Simulation(aliengo, 1, Flat(), randomization=replace(NOMINAL, joint_zero=(0.05, 0.05)))
    for simulation in (plain, shifted):
        for _ in range(100):
            simulation.step(aliengo.stand_pose[None])
    difference = shifted.state().joint_position - plain.state().joint_position
    np.testing.assert_allclose(difference[0, [0, 3, 6, 9]].mean(), -0.05, atol=0.02)
    measured = Sensors(shifted, np.random.default_rng(0)).measure(shifted.state())
    np.testing.assert_allclose(measured.joint_position, shifted.state().joint_position + 0.05)


def test_while_states_drop_out_the_last_one_is_seen(aliengo):
    ranges = replace(NOMINAL, dropout=(0.0, 0.1), dropout_interval=0.5)
    simulation = Simulation(aliengo, 20, Flat(), randomization=ranges)
    sensors = Sensors(simulation, np.random.default_rng(0))
    seen, steps = [], 300
    for step in range(steps):
        simulation.step(np.tile(aliengo.stand_pose + 0.1 * np.sin(0.3 * step), (20, 1)))
        seen.append(sensors.measure(simulation.state()).joint_velocity[:, 0])
    held = np.diff(seen, axis=0) == 0
    lengths = [len(run) for robot in held.T for run in "".join("x" if one else " " for one in robot).split()]
    assert np.percentile(lengths, 95) == round(0.1 / CONTROL_PERIOD)  # two may follow each other
    assert 0.5 < len(lengths) / (20 * steps * CONTROL_PERIOD / 0.5) < 1.1
    sensors.reset(np.ones(20, dtype=bool))
    state = simulation.state()
    np.testing.assert_array_equal(sensors.measure(state).joint_velocity, state.joint_velocity)


def test_each_range_can_be_one_number_in_a_settings_file():
    for name in RANGES:
        assert getattr(convert({name: 0.5}, Randomization), name) == (0.5, 0.5)


def test_the_kind_simulator_draws_what_the_first_release_drew(aliengo):
    simulation = Simulation(aliengo, 4, Flat(), randomization=KIND)
    drawn = simulation.drawn
    for name in ("strength", "joint_friction", "joint_damping", "armature"):
        np.testing.assert_array_equal(getattr(drawn, name), 1.0)
    assert not drawn.com.any() and not drawn.joint_zero.any()
    assert simulation.models[0].opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL


def test_a_patch_keeps_its_friction_whatever_is_drawn(aliengo):
    simulation = Simulation(aliengo, 1, Patch(0.1), randomization=replace(NOMINAL, friction=(1.0, 1.0)))
    data, model = simulation.data[0], simulation.models[0]
    data.qpos[0] = 1.8 - aliengo.geometry.hip_x  # fore feet on the patch, hind feet before it
    for _ in range(25):
        simulation.step(aliengo.stand_pose[None])
    friction = {model.geom(contact.geom.max()).name[:2]: contact.friction[0] for contact in data.contact}
    assert friction == {"FR": 0.1, "FL": 0.1, "RR": 1.0, "RL": 1.0}


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
