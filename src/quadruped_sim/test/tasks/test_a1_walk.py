"""The A1-Walk task: what a robot sees and does, and what ends its episode."""

import numpy as np
import pytest

from quadruped_sim.environments import EPISODE
from quadruped_sim.tasks.robots import RenewedRobots, TaskRobots
from quadruped_sim.tasks.task import load_task

TASK = load_task("a1_walk")
INTERFACE = TASK.policy_interface(TASK.driven())
POSE = INTERFACE.pose


def suite_order(values: np.ndarray) -> np.ndarray:
    """Joints of the task as the robot orders them."""
    return np.array([values[INTERFACE.joints.index(name)] for name in TASK.driven().joint_names])


@pytest.fixture
def walk() -> TaskRobots:
    return TaskRobots(TASK, 1, 0)


def test_an_observation_is_the_authors_with_their_scales(walk) -> None:
    action, offset, rate = 0.25 * np.arange(12), np.arange(12) / 10, np.arange(12) - 5.0
    walk.step(action[None])
    data = walk.simulation.bodies[0].data
    data.qpos[3:7] = 1.0, 0.0, 0.0, 0.0
    data.qpos[7:], data.qvel[6:] = suite_order(POSE + offset), suite_order(rate)
    data.qvel[:3], data.qvel[3:6] = (3.0, 2.0, 1.0), (0.4, -0.8, 1.2)
    walk.observe()
    seen = np.stack([walk.observe(new_command=False)[0] for _ in range(200)])
    assert seen.shape == (200, 48) and seen.dtype == np.float32
    expected = [np.zeros(3), [0.1, -0.2, 0.3], [0, 0, -1], [1.0, 0, 0], offset, 0.05 * rate, action]
    noise = np.repeat([0.0, 0.05, 0.05, 0.0, 0.01, 0.075, 0.0], [3, 3, 3, 3, 12, 12, 12])
    error = np.abs(seen - np.concatenate(expected))
    assert (error <= noise + 1e-6).all()
    assert (error.max(axis=0) >= 0.9 * noise).all()


def test_actions_are_position_targets_about_the_default_pose_within_what_25_nm_can_ask_for(walk) -> None:
    assert (walk.robot.kp == 50.0).all() and (walk.robot.kd == 1.0).all()
    data = walk.simulation.bodies[0].data
    for speed, action, offset in (
        (0.0, 0.1 * np.arange(12), np.minimum(0.05 * np.arange(12), 0.5)),
        (2.0, np.full(12, -100.0), -0.5 + 0.04),
    ):
        data.qpos[7:], data.qvel[6:] = suite_order(POSE), speed
        walk.observe()
        np.testing.assert_allclose(walk.rollout.runner.decode(action[None])[0], suite_order(POSE + offset))


def test_the_trunk_on_the_ground_ends_an_episode_and_feet_do_not(walk) -> None:
    for _ in range(10):
        _, fell = walk.step(np.zeros((1, 12)))
        walk.observe()
    assert not fell.any() and walk.simulation.state().contact.all()
    contact = TASK.functions("terminations", 1)["contact"]
    data = walk.simulation.bodies[0].data
    data.qpos[2] = 1.0
    data.qpos[3:7], data.qvel[:] = (0.0, 1.0, 0.0, 0.0), 0.0  # falls on its back
    for _ in range(100):
        walk.step(np.zeros((1, 12)))
        if contact(walk)[0]:
            return
    pytest.fail("its back never touched the ground")


def test_robots_are_replaced_when_they_fall_or_grow_old_and_their_last_observation_is_returned() -> None:
    robots, ends = RenewedRobots(TaskRobots(TASK, 4, 1), TASK.episode, 1), []
    robots._age[:] = EPISODE - 3, EPISODE - 3, 0, 0
    drawn = robots.robots.simulation.drawn["payload"].copy()
    for period in range(1, 60):
        action = np.zeros((4, 12)) if period < 10 else np.full((4, 12), 100.0 * (-1.0) ** (period // 4))
        observation, reward, fell, old, last = robots.step(action)
        assert np.isfinite(observation).all() and (reward >= 0).all() and not (fell & old).any()
        for robot in np.flatnonzero(fell | old):
            assert not np.array_equal(last[robot], observation[robot])
            assert not observation[robot, -12:].any()  # the last action
        ends += [("old", period)] * int(old.sum()) + [("fell", 0)] * int(fell.sum())
        if ("fell", 0) in ends:
            break
    assert ends.count(("old", 3)) == 2 and ("fell", 0) in ends
    assert (robots.robots.simulation.drawn["payload"] != drawn)[:2].all()
