"""A teacher drives a robot and its mirror image alike, in use and in training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.observation import LAYOUT
from fcnet_core.robot import SETPOINT_FIELDS, load_robot
from quadruped_sim.physics.randomization import NOMINAL
from quadruped_sim.physics.terrain import Flat
from quadruped_sim.rollout import Rollout, SetpointRanges
from quadruped_sim.teacher.expert import TeacherExpert
from quadruped_sim.teacher.groups import ACTION_UNIT
from quadruped_sim.teacher.network import Normalised, TeacherPolicy, teacher_model
from quadruped_sim.teacher.privileged import CRITIC_SIZE, TEACHER_SIZE, PrivilegedState
from quadruped_sim.teacher.symmetry import ACTION, OBSERVATION, mirrored

TO_THE_LEFT = SetpointRanges(always=dict.fromkeys(SETPOINT_FIELDS[:6], (0.1, 0.1)))
SIDEWAYS = [SETPOINT_FIELDS.index(field) for field in ("vy", "yaw_rate", "roll")]


@pytest.fixture
def pair(aliengo) -> Rollout:
    """A robot that turns and leans to the left, and its mirror image half a stride on."""
    rollout = Rollout(aliengo, 2, Flat(), TO_THE_LEFT, NOMINAL, seed=3)
    rollout.simulation.drawn.com[:] = (0.01, 0.02, 0.03), (0.01, -0.02, 0.03)
    shaper, lean = rollout.shaper, np.array([0.03, 0.02, 0.04])
    for setpoint in (shaper.requested, shaper.target, shaper.setpoint):
        setpoint[:, :6] = 0.1
        setpoint[1, SIDEWAYS] = -0.1
    shaper.clock.phase[:] = 0.2, 0.7
    shaper.clock.walking[:] = True
    joints = np.random.default_rng(0).uniform(-0.1, 0.1, (1, 12)) + aliengo.stand_pose
    both = np.concatenate([joints, mirrored(joints, ACTION)])
    rollout.last_action, rollout.previous_action = both, 0.9 * both
    for data, side, angles in zip(rollout.simulation.data, (1.0, -1.0), both, strict=True):
        data.qpos[3:7] = 1.0, side * lean[0], lean[1], side * lean[2]
        data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
        data.qpos[7:], data.qvel[6:] = angles, 3.0 * angles
        data.qvel[:6] = 0.3, side * 0.2, 0.1, side * 0.5, 0.4, side * 0.3
    return rollout


def seen(rollout: Rollout) -> np.ndarray:
    simulation = rollout.simulation
    return PrivilegedState(simulation, LegKinematics(simulation.robot), simulation.state()).teacher_observation(rollout)


def test_what_a_robot_and_its_mirror_image_see_are_mirror_images(pair):
    robot, image = seen(pair)
    assert np.abs(robot - image).max() > 0.1
    np.testing.assert_allclose(image, mirrored(robot, OBSERVATION), atol=1e-5)
    np.testing.assert_array_equal(mirrored(mirrored(robot, OBSERVATION), OBSERVATION), robot)
    for stand in (load_robot(name).stand_pose for name in ("aliengo", "a1")):  # actions count from there
        np.testing.assert_array_equal(mirrored(stand, ACTION), stand)


def test_mirrored_robots_fall_alike(aliengo):
    """The physics, by which the signs above are more than a convention."""
    rollout = Rollout(aliengo, 2, Flat(), TO_THE_LEFT, NOMINAL, seed=3)
    targets = aliengo.stand_pose + np.random.default_rng(1).uniform(-0.3, 0.3, (1, 12))
    for _ in range(10):
        rollout.send(np.concatenate([targets, mirrored(targets, ACTION)]))
    robot, image = seen(rollout)
    at = LAYOUT["command"].start  # the command is the same for both
    off = (image - mirrored(robot, OBSERVATION))[:at]
    assert np.linalg.norm(off) < 0.1 * np.linalg.norm((image - robot)[:at])


def test_a_teacher_drives_both_alike_whatever_its_network_has_learned(aliengo, pair, teacher):
    expert, simulation = TeacherExpert(teacher, aliengo, 2), pair.simulation
    robot, image = expert.act(simulation.state(), pair)
    assert np.abs(robot - image).max() > 0.01
    np.testing.assert_allclose(image, mirrored(robot, ACTION), atol=1e-6)


def test_the_actor_that_learns_is_the_teacher_that_acts(aliengo, pair):
    rng = np.random.default_rng(2)
    policy = TeacherPolicy(
        Box(-np.inf, np.inf, (CRITIC_SIZE,)),
        Box(-6, 6, (12,)),
        lambda _: 1e-4,
        hidden=(16,),
        critic_learning_rate=1e-3,
        features_extractor_class=Normalised,
        features_extractor_kwargs={
            "mean": rng.normal(0, 0.1, CRITIC_SIZE).astype(np.float32),
            "deviation": np.ones(CRITIC_SIZE, np.float32),
        },
    )
    expert = TeacherExpert(teacher_model(policy, aliengo, {}), aliengo, 2)
    observation = np.concatenate([seen(pair), np.zeros((2, CRITIC_SIZE - TEACHER_SIZE), np.float32)], axis=1)
    with torch.no_grad():
        action = policy.mean_action(torch.as_tensor(observation)).numpy()
        exploring, _, _ = policy(torch.as_tensor(observation), deterministic=True)
    targets = expert.act(pair.simulation.state(), pair)
    np.testing.assert_allclose(aliengo.stand_pose + ACTION_UNIT * action, targets, atol=1e-6)
    np.testing.assert_array_equal(exploring.numpy(), action)
