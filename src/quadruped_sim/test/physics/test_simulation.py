"""A batch of simulated robots: commands within limits, exact delays, noticed falls, and robots simulated as drawn."""

import mujoco
import numpy as np
import pytest
from msgspec import convert
from msgspec.structs import replace

from fcnet_core.observation import LAYOUT
from quadruped_sim.physics.body import time_step
from quadruped_sim.physics.mjcf import DAMPING, STIFFNESS
from quadruped_sim.physics.randomization import NOMINAL, RANGES, TYPICAL, Randomization
from quadruped_sim.physics.simulation import Simulation
from quadruped_sim.physics.terrain import Flat, Patch, Rough, Stairs
from quadruped_sim.rollout import Rollout
from quadruped_sim.tasks.setpoints import SetpointRanges

PERIOD, SUBSTEPS, TIMESTEP = 0.02, 5, 0.004


def test_joints_are_never_commanded_beyond_their_limits(robot):
    simulation = Simulation(robot, 2, Flat(), randomization=TYPICAL)
    rng = np.random.default_rng(0)
    for _ in range(25):
        simulation.step(rng.normal(0, 10, (2, 12)))
        counted = [body.data.ctrl for body in simulation.bodies] + simulation.drawn["joint_zero"]
        assert (counted >= robot.lower - 1e-9).all() and (counted <= robot.upper + 1e-9).all()
        torque = np.array([body.data.actuator_force for body in simulation.bodies])
        assert (np.abs(torque) <= robot.torque_limit + 1e-9).all()


@pytest.mark.parametrize("late", [0, 1, 4, 5, 7, 10])
def test_a_target_takes_effect_after_exactly_its_delay(aliengo, late):
    simulation = Simulation(aliengo, 1, Flat(), randomization=replace(NOMINAL, delay=(late * TIMESTEP,) * 2))
    model, expected = simulation.bodies[0].model, mujoco.MjData(simulation.bodies[0].model)
    expected.qpos[:] = simulation.bodies[0].data.qpos
    expected.ctrl[:] = expected.qpos[7:]
    target = aliengo.stand_pose + 0.2
    for step in range(3 * SUBSTEPS):
        if step == late:
            expected.ctrl[:] = target
        mujoco.mj_step(model, expected)
    for _ in range(3):
        simulation.step(target[None])
    np.testing.assert_array_equal(simulation.bodies[0].data.qpos, expected.qpos)
    assert simulation.bodies[0].data.time == pytest.approx(3 * PERIOD)


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
    targets = np.tile(aliengo.stand_pose + 0.1, (2, 1))
    for _ in range(10):
        plain.step(targets)
        samples = sampled.step(targets, record=True)
    np.testing.assert_array_equal(plain.state().position, sampled.state().position)
    assert len(np.unique(samples["foot_force"].reshape(-1, 4), axis=0)) == 2 * SUBSTEPS
    before, feet = samples["foot_position"][-2:]
    np.testing.assert_allclose(samples["foot_velocity"][-1], (feet - before) / TIMESTEP, atol=0.02)
    np.testing.assert_allclose(samples["torque"][-1], [body.data.actuator_force for body in sampled.bodies])
    pitching = samples["joint_rate"][-1].reshape(2, 4, 3)[..., 1:].sum(-1)
    np.testing.assert_allclose(samples["foot_spin"][-1, ..., 1], pitching, atol=0.1)  # the trunk turns little


def test_a_robot_on_its_side_or_belly_has_fallen_and_only_it_stands_again_after_a_reset(aliengo):
    simulation = Simulation(aliengo, 3, Flat())
    standing, tilted, low = (body.data.qpos for body in simulation.bodies)
    tilted[3:7], low[2] = np.sqrt([0.5, 0.5, 0, 0]), 0.08
    fallen, before = simulation.fallen(simulation.state()), standing.copy()
    assert fallen.tolist() == [False, True, True]
    simulation.reset(fallen)
    assert not simulation.fallen(simulation.state()).any()
    assert np.array_equal(standing, before)


def test_height_is_measured_from_the_ground_below_and_robots_that_are_not_active_stay_as_they_are(aliengo):
    simulation = Simulation(aliengo, 2, Stairs(-0.1))
    moving, still = (body.data for body in simulation.bodies)
    moving.qpos[:3] = still.qpos[:3] = 3.05, 0.0, 0.36 - 0.6  # standing on the sixth step down
    still.qpos[2] -= 0.3
    assert simulation.fallen(simulation.state()).tolist() == [False, True]
    simulation.active[1], before = False, still.qpos.copy()
    simulation.step(np.zeros((2, 12)))
    assert np.array_equal(still.qpos, before) and moving.time > 0


def test_none_starts_inside_rough_ground(robot):
    simulation = Simulation(robot, 20, Rough(0.06))
    for body in simulation.bodies:
        mujoco.mj_forward(body.model, body.data)
        assert body.data.ncon == 0


def test_robots_are_drawn_from_the_ranges_and_are_simulated_as_drawn(aliengo):
    ranges = replace(TYPICAL, friction=(0.4, 0.8), payload=(1.0, 4.0), strength=(0.7, 0.9), com=(-0.05, 0.02))
    simulation = Simulation(aliengo, 40, Flat(), randomization=ranges)
    drawn, models = simulation.drawn, [body.model for body in simulation.bodies]
    for name, values in drawn.items():
        low, high = getattr(ranges, name)
        assert low <= values.min() < low + 0.2 * (high - low)
        assert high - 0.2 * (high - low) < values.max() <= high
    nominal = Simulation(aliengo, 1, Flat(), randomization=NOMINAL).bodies[0].model
    trunk = nominal.body("trunk").id
    strength = drawn["strength"][:, None]
    expected = {
        "friction": ([model.geom_friction[0, 0] for model in models], drawn["friction"]),
        "mass": ([model.body_subtreemass[0] for model in models], aliengo.mass + drawn["payload"]),
        "com": ([model.body_ipos[trunk] - nominal.body_ipos[trunk] for model in models], drawn["com"]),
        "torque": ([model.actuator_forcerange[:, 1] for model in models], aliengo.torque_limit * strength),
        "kp": ([m.actuator_gainprm[:, STIFFNESS] for m in models], aliengo.gains.kp * strength * drawn["gain"]),
        "kd": ([m.actuator_gainprm[:, DAMPING] for m in models], aliengo.gains.kd * strength * drawn["gain"]),
        "armature": ([m.dof_armature[6:] for m in models], aliengo.armature * drawn["armature"][:, None]),
        "damping": ([m.dof_damping[6] for m in models], aliengo.motors["hip"].damping * drawn["joint_damping"]),
        "loss": ([m.dof_frictionloss[6] for m in models], aliengo.motors["hip"].friction * drawn["joint_friction"]),
    }
    for name, (found, wanted) in expected.items():
        np.testing.assert_allclose(found, wanted, atol=1e-12, err_msg=name)
    strong = Simulation(aliengo, 1, Flat(), randomization=replace(NOMINAL, strength=(1.2, 1.2))).bodies[0].model
    np.testing.assert_allclose(strong.actuator_forcerange[:, 1], aliengo.torque_limit)  # the peak is not exceeded


def test_only_the_robots_that_are_asked_for_are_drawn_anew(aliengo):
    simulation = Simulation(aliengo, 3, Flat(), randomization=TYPICAL)
    before, mass, mask = simulation.drawn["payload"].copy(), simulation.mass, np.array([False, True, False])
    simulation.redraw(mask)
    change = simulation.drawn["payload"] - before
    assert (change != 0).tolist() == mask.tolist()
    np.testing.assert_allclose(simulation.mass - mass, change, atol=1e-9)


def test_a_robot_stands_where_its_encoders_not_its_joints_are_at_the_target(aliengo):
    plain = Simulation(aliengo, 1, Flat(), randomization=NOMINAL)
    shifted = Simulation(aliengo, 1, Flat(), randomization=replace(NOMINAL, joint_zero=(0.05, 0.05)))
    for simulation in (plain, shifted):
        for _ in range(100):
            simulation.step(aliengo.stand_pose[None])
    difference = shifted.state().joint_position - plain.state().joint_position
    np.testing.assert_allclose(difference[0, [0, 3, 6, 9]].mean(), -0.05, atol=0.02)
    ideal, measured = (shifted.signals(ideal)["joint_position"] for ideal in (True, False))
    np.testing.assert_array_equal(ideal, shifted.state().joint_position)
    np.testing.assert_allclose(measured, ideal + 0.05)


def test_while_states_drop_out_the_last_one_is_seen(aliengo):
    ranges = replace(NOMINAL, dropout=(0.0, 0.1), dropout_interval=0.5)
    simulation = Simulation(aliengo, 20, Flat(), randomization=ranges)
    seen, steps = [], 300
    for step in range(steps):
        simulation.step(np.tile(aliengo.stand_pose + 0.1 * np.sin(0.3 * step), (20, 1)))
        seen.append(simulation.signals()["joint_velocity"][:, 0])
    held = np.diff(seen, axis=0) == 0
    lengths = [len(run) for robot in held.T for run in "".join("x" if one else " " for one in robot).split()]
    assert np.percentile(lengths, 95) == round(0.1 / PERIOD)  # two may follow each other
    assert 0.5 < len(lengths) / (20 * steps * PERIOD / 0.5) < 1.1
    again = simulation.signals()
    assert all(np.array_equal(again[name], values) for name, values in simulation.signals().items())
    simulation.reset()
    np.testing.assert_array_equal(simulation.signals()["joint_velocity"], simulation.state().joint_velocity)


def test_each_range_can_be_one_number_in_a_settings_file():
    for name in RANGES:
        assert getattr(convert({name: 0.5}, Randomization), name) == (0.5, 0.5)


def test_a_patch_keeps_its_friction_whatever_is_drawn(aliengo):
    simulation = Simulation(aliengo, 1, Patch(0.1), randomization=replace(NOMINAL, friction=(1.0, 1.0)))
    data, model = simulation.bodies[0].data, simulation.bodies[0].model
    data.qpos[0] = 1.8 - aliengo.geometry.hip_x  # fore feet on the patch, hind feet before it
    for _ in range(25):
        simulation.step(aliengo.stand_pose[None])
    friction = {model.geom(contact.geom.max()).name[:2]: contact.friction[0] for contact in data.contact}
    assert friction == {"FR": 0.1, "FL": 0.1, "RR": 1.0, "RL": 1.0}


@pytest.mark.parametrize(
    ("period", "step"), [(0.02, 0.004), (0.01, 0.01 / 3), (1 / 30, 1 / 270), (0.1, 0.004), (0.003, 0.003)]
)
def test_a_time_step_is_the_longest_of_at_most_4_ms_that_divides_the_control_period(aliengo, period, step):
    assert time_step(period) == pytest.approx(step, rel=1e-12)
    simulation = Simulation(aliengo, 1, Flat(), randomization=replace(NOMINAL, delay=(period, period)), period=period)
    target = np.tile(aliengo.stand_pose + 0.2, (1, 1))
    first, second = (simulation.step(target, record=True)["torque"].copy() for _ in range(2))
    assert len(first) == len(second) == round(period / step)
    assert simulation.time == pytest.approx(2 * period)
    assert np.abs(second[0] - first[-1]).min() > 5.0  # the target has arrived after one period


def measured_walk(aliengo, sensors="board", amplitude=0.1, seed=0):
    """Errors of the sensors (T, B, 70) and what arrived, of two robots that are driven by hand."""
    ranges, commands = replace(NOMINAL, sensors=sensors), SetpointRanges()
    rollout = Rollout(aliengo, 2, Flat(), commands, ranges, seed)
    found, seen = [], []
    for step in range(20):
        situation = rollout.observe()
        seen.append(situation.observation)
        found.append(rollout.sense(situation) - situation.observation)
        rollout.send(np.tile(aliengo.stand_pose + amplitude * np.sin(0.3 * step), (2, 1)))
    return np.array(found), np.array(seen)


def test_two_policies_see_the_same_errors_of_the_same_seed(aliengo):
    one, seen = measured_walk(aliengo)
    two, others = measured_walk(aliengo, amplitude=0.05)
    three, _ = measured_walk(aliengo, seed=1)
    imu = [np.arange(70)[LAYOUT[part]] for part in ("projected_gravity", "angular_velocity")]
    imu = np.concatenate(imu)  # joint velocities are rounded besides
    assert np.abs(seen - others).max() > 0.01
    np.testing.assert_allclose(one[..., imu], two[..., imu], atol=1e-6)
    assert np.abs(one[..., imu] - three[..., imu]).max() > 1e-3


def test_the_boards_attitude_drifts_where_the_white_one_jumps(aliengo):
    gravity = LAYOUT["projected_gravity"].start
    jumps = {
        model: np.diff(measured_walk(aliengo, model)[0][..., gravity], axis=0).std() for model in ("board", "white")
    }
    assert jumps["board"] < 0.005 < 0.02 < jumps["white"]


def test_joint_velocities_are_measured_one_time_step_late(aliengo):
    targets = np.tile(aliengo.stand_pose + 0.2, (2, 1))
    for sensors, late in (("board", True), ("white", False)):
        simulation = Simulation(aliengo, 2, Flat(), randomization=replace(NOMINAL, sensors=sensors))
        before = simulation.step(targets, record=True)["joint_rate"][-1]  # of the start of the last time step
        now, measured = simulation.state().joint_velocity, simulation.signals()["joint_velocity"]
        np.testing.assert_array_equal(measured, before if late else now)
        assert np.abs(before - now).max() > 0.1
        np.testing.assert_array_equal(simulation.signals(ideal=True)["joint_velocity"], now)
