"""The expert walks, turns and stands in step with the gait clock; forces at its feet carry the robot."""

import numpy as np
import pytest

from fcnet_core.control.command import CommandShaper
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.robot import SETPOINT_FIELDS
from fcnet_core.rotation import GRAVITY, roll_pitch_yaw
from quadruped_sim.physics.randomization import KIND, TYPICAL
from quadruped_sim.physics.simulation import Simulation
from quadruped_sim.physics.terrain import Flat
from quadruped_sim.rollout import Rollout
from quadruped_sim.tasks.setpoints import SetpointRanges
from quadruped_sim.trot_expert import TrotExpert, share_forces

SECONDS = 4.0


def _walk(robot, randomization=KIND, **commands):
    """State after four seconds, turn [rad] and falls of four robots, whose accuracy is that of the expert and not of a
    draw's centre of mass and joint zeros.
    """
    ranges = SetpointRanges({name: (value, value) for name, value in commands.items()})
    rollout = Rollout(robot, 4, Flat(), ranges, randomization, seed=0)
    turned, last = np.zeros(4), np.zeros(4)
    for _ in range(round(SECONDS / 0.02)):
        seen = rollout.observe()
        yaw = roll_pitch_yaw(seen.state.orientation)[:, 2]
        turned, last = turned + (yaw - last + np.pi) % (2 * np.pi) - np.pi, yaw
        rollout.send(rollout.advise(seen))
    state = rollout.simulation.state()
    return state, turned, rollout.simulation.fallen(state)


def test_it_walks_ahead(robot):
    state, turned, fallen = _walk(robot, vx=0.5)
    assert not fallen.any() and np.abs(turned).max() < 0.4
    np.testing.assert_allclose(state.position[:, 0], 0.5 * SECONDS, rtol=0.25)
    state, _, fallen = _walk(robot, TYPICAL, vx=0.5)  # a robot that differs from its model
    assert not fallen.any()
    np.testing.assert_allclose(np.hypot(*state.position[:, :2].T), 0.5 * SECONDS, rtol=0.25)


def test_it_walks_sideways_and_turns_on_the_spot(robot):
    state, _, fallen = _walk(robot, vy=-0.25)
    assert not fallen.any() and (state.position[:, 1] < -0.5 * 0.25 * SECONDS).all()
    state, turned, fallen = _walk(robot, yaw_rate=0.8)
    assert not fallen.any() and np.abs(state.position[:, :2]).max() < 0.5
    np.testing.assert_allclose(turned, 0.8 * SECONDS, rtol=0.3)


def test_it_stands_at_the_commanded_height_and_tilt(robot):
    state, _, fallen = _walk(robot, height=-0.06, pitch=0.15, roll=-0.2)
    assert not fallen.any()
    np.testing.assert_allclose(state.position[:, 2], robot.nominal_height - 0.06, atol=0.02)
    np.testing.assert_allclose(roll_pitch_yaw(state.orientation)[:, :2], np.tile([-0.2, 0.15], (4, 1)), atol=0.05)
    np.testing.assert_allclose(state.linear_velocity, 0, atol=0.03)
    assert state.contact.all()


def _targets(expert, state, steps, **commands):
    """Yield the phase (B,) of the clock and the targets (B, 12) of an expert that sees robots frozen in one state."""
    robot, batch = expert.robot, len(state.position)
    shaper = CommandShaper(robot.commands, robot.gait, 0.02, batch)
    wanted = np.tile([commands.get(name, 0.0) for name in SETPOINT_FIELDS], (batch, 1)).astype(float)
    for _ in range(steps):
        shaper.step(wanted)
        yield shaper.clock.phase.copy(), expert.act(state, shaper)


def test_feet_lift_diagonally_in_step_with_the_gait_clock(robot):
    """With the robot frozen in its stand pose, only the clock moves the feet."""
    state, legs = Simulation(robot, 1, Flat()).state(), LegKinematics(robot)
    phase, targets = map(np.array, zip(*_targets(TrotExpert(robot, 1), state, 100, vy=0.1), strict=True))
    height = legs.feet(targets[50:].reshape(-1, 4, 3))[0][..., 2]
    highest = phase[50:, 0][height.argmax(axis=0)]  # of FR, FL, RR, RL
    apart = (highest[[0, 1]] - highest[[3, 2]] + 0.5) % 1.0 - 0.5
    np.testing.assert_allclose(apart, 0, atol=0.1)
    assert (highest[1] - highest[0]) % 1.0 == pytest.approx(0.5, abs=0.1)


def test_equal_pasts_give_equal_targets_and_a_reset_forgets(aliengo):
    state, used = Simulation(aliengo, 2, Flat()).state(), TrotExpert(aliengo, 2)
    *_, (_, fresh) = _targets(TrotExpert(aliengo, 2), state, 7, vx=0.5)
    list(_targets(used, state, 30, vx=0.5))
    used.reset(np.array([True, False]))
    *_, (_, again) = _targets(used, state, 7, vx=0.5)
    np.testing.assert_array_equal(again[0], fresh[0])
    assert not np.array_equal(again[1], fresh[1])


def test_targets_are_within_the_joint_limits_in_every_attitude(robot):
    rng = np.random.default_rng(0)
    simulation = Simulation(robot, 50, Flat())
    for data in (body.data for body in simulation.bodies):
        data.qpos[3:7] = rng.normal(size=4)
        data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
        data.qpos[7:] = rng.uniform(robot.lower, robot.upper)
        data.qvel[:] = rng.normal(0, 3, 18)
    shaper = CommandShaper(robot.commands, robot.gait, 0.02, 50)
    expert = TrotExpert(robot, 50)
    for _ in range(5):
        shaper.step(rng.uniform(-2, 2, (50, len(SETPOINT_FIELDS))))
        targets = expert.act(simulation.state(), shaper)
        assert (targets >= robot.lower).all() and (targets <= robot.upper).all()


FRICTION = 0.3


def _forces(robot, stance, wrench):
    """Feet (B, 4, 3) in the stand pose, and the forces on them that are to give the wrenches (B, 6)."""
    feet = (LegKinematics(robot).neutral - [0, 0, robot.nominal_height])[None].repeat(len(stance), 0)
    return feet, share_forces(feet, stance, wrench, 12 * robot.mass, FRICTION)


@pytest.mark.parametrize("stance", [(1, 1, 1, 1), (1, 0, 0, 1), (0, 1, 1, 0)])
def test_the_feet_in_stance_carry_the_weight_and_turn_the_trunk_as_asked(robot, stance):
    on, weight = np.array([stance], dtype=bool), robot.mass * GRAVITY
    feet, forces = _forces(robot, on, np.array([[0, 0, weight, 0, 0, 0]]))
    assert forces.sum(axis=1)[0, 2] == pytest.approx(weight, rel=0.02)
    np.testing.assert_allclose(np.cross(feet, forces).sum(axis=1)[0], 0, atol=0.01 * weight * robot.geometry.hip_x)
    assert not forces[~on].any()
    if on.all():
        feet, forces = _forces(robot, on, np.array([[0, 0, weight, 5, 0, 0]]))  # a roll moment: by the outer feet
        assert forces[0, [1, 3], 2].sum() > forces[0, [0, 2], 2].sum()
        assert np.cross(feet, forces).sum(axis=1)[0, 0] == pytest.approx(5, rel=0.05)


def test_forces_push_within_friction_and_strength_whatever_is_asked(robot):
    rng = np.random.default_rng(0)
    stance = rng.random((200, 4)) < 0.6
    _, forces = _forces(robot, stance, rng.normal(0, 300, (200, 6)))
    assert (forces[..., 2] >= 0).all() and (forces[..., 2] <= 12 * robot.mass).all()
    assert (np.abs(forces[..., :2]) <= FRICTION * forces[..., 2:] + 1e-9).all()
    assert not forces[~stance].any()
