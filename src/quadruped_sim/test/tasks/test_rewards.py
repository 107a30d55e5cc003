"""Rewards and signals of the shipped tasks are those of the first releases; data/rewards.npz has their numbers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fcnet_core.robot import load_robot
from quadruped_sim.physics.simulation import BodyState, Simulation
from quadruped_sim.physics.terrain import Flat, Rough
from quadruped_sim.tasks.task import Rewards, load_task
from quadruped_sim.tasks.view import View

RECORDED = np.load(Path(__file__).parent.parent / "data" / "rewards.npz")
STEPS, BATCH = 8, 2
RESET = 5  # the first robot starts again before this period


def periods(name: str) -> Iterator[View]:
    """Random control periods of two robots on rough ground."""
    robot, rng, shape = load_robot(name), np.random.default_rng(0), (STEPS, BATCH)
    simulation = SimpleNamespace(
        robot=robot, terrain=Rough(0.04, 3), period=0.02, touching=lambda *_: np.zeros(BATCH, bool)
    )
    quaternion = rng.normal(0, 0.05, (*shape, 4)) + [0, 0, 0, 1.0]
    around = robot.stand_pose + rng.normal(0, 0.05, (3, *shape, 12))
    state = {
        "position": rng.uniform([-2, -2, 0.25], [2, 2, 0.45], (*shape, 3)),
        "orientation": quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True),
        "linear_velocity": rng.normal(0, 0.1, (*shape, 3)),
        "angular_velocity": rng.normal(0, 0.2, (*shape, 3)),
        "joint_position": np.clip(around[0], robot.lower, robot.upper),
        "joint_velocity": rng.normal(0, 0.5, (*shape, 12)),
        "contact": rng.random((*shape, 4)) < 0.5,
    }
    setpoint, phase, walking = rng.normal(0, 0.05, (*shape, 9)), rng.random(shape), rng.random(shape) < 0.8
    samples = (STEPS, 5, BATCH, 12)
    torque = rng.normal(0, 1.5, samples) * np.where(rng.random(samples) < 0.005, 30, 1)
    rate = rng.normal(0, 1.5, samples)
    force = rng.uniform(0, 50.0, (*samples[:3], 4)) * (rng.random((*samples[:3], 4)) < 0.6)
    if name == "a1":
        setpoint[..., :3] = 0.5, 0.1, 0.2
    sent = np.concatenate([np.broadcast_to(robot.stand_pose, (1, BATCH, 12)), around[2]])
    for step in range(STEPS):
        records = {"torque": torque[step], "joint_rate": rate[step], "foot_force": force[step]}
        now = BodyState(**{name: values[step] for name, values in state.items()})
        clock, targets = (phase[step], walking[step]), (around[1][step], sent[step + 1], sent[step])
        yield View(simulation, now, setpoint[step], *clock, *targets, records)


@pytest.mark.parametrize(
    ("task", "section", "robot", "recorded"),
    [
        ("velocity", "rewards", "aliengo", "teacher"),
        ("velocity", "score", "aliengo", "score"),
        ("a1_walk", "rewards", "a1", "a1_walk"),
    ],
)
def test_a_reward_is_that_of_the_first_releases(task, section, robot, recorded) -> None:
    rewards = Rewards(load_task(task), BATCH, section)
    scale = 0.02 if section == "score" else 1.0  # of a period; recorded per second
    for step, view in enumerate(periods(robot)):
        if step == RESET:
            rewards.reset(np.array([True, False]))
        np.testing.assert_allclose(rewards(view)[0], scale * RECORDED[recorded][step], rtol=1e-12, atol=1e-12)


def test_the_signals_of_a_teacher_and_its_critic_are_those_of_the_first_releases() -> None:
    signals = load_task("velocity").functions("signals", BATCH)
    assert list(signals) == ["trunk_height", "feet_ground", "foot_speed", "ground_slope", "vertical_velocity"]
    for step, view in enumerate(periods("aliengo")):
        if step % 4 == 0:
            seen = np.concatenate([signal(view) for signal in signals.values()], axis=1)
            recorded = RECORDED["critic"][step // 4]
            np.testing.assert_allclose(seen, np.delete(recorded, [*range(19), *range(20, 27)], axis=1), atol=1e-6)


@pytest.fixture
def one(still_samples):
    """Makes a view of one robot that stands still under a command of 0.5 m/s, except for changes by field."""

    def make(name: str, **changes: object) -> View:
        simulation = Simulation(load_robot(name), 1, Flat())
        true, pose = simulation.state(), simulation.robot.stand_pose[None]
        state = replace(true, **{field: np.array([changes.pop(field)]) for field in vars(true) if field in changes})
        period = {"setpoint": 0.5 * np.eye(1, 9), "phase": np.zeros(1), "walking": np.zeros(1, dtype=bool)}
        targets = {field: changes.pop(field, pose) for field in ("requested", "sent", "before")}
        return View(simulation, state, **period, **targets, records=still_samples(5, 1, **changes))

    return make


def paid(task: str, view: View, section: str = "rewards") -> float:
    return float(Rewards(load_task(task), 1, section)(view)[0][0])


FASTER = np.full((1, 12), 0.5)


def test_a_score_is_never_negative_and_a_reward_not_below_its_lowest_sum(one) -> None:
    dreadful = {"linear_velocity": [9.0, 0.0, 0.0], "torque": 40.0, "sent": FASTER, "requested": 100 * FASTER}
    assert paid("velocity", one("aliengo", **dreadful), "score") == 0.0
    assert paid("velocity", one("aliengo", **dreadful)) == pytest.approx(-0.05)
    assert paid("a1_walk", one("a1", torque=25.0, joint_rate=20.0)) == 0.0


@pytest.mark.parametrize(
    ("reason", "changes", "over"),
    [
        ("tilt", {"orientation": [np.sin(-0.375), 0, 0, np.cos(0.375)]}, False),
        ("tilt", {"orientation": [np.sin(-0.425), 0, 0, np.cos(0.425)]}, True),
        ("tilt", {"orientation": [0, np.sin(0.6), 0, np.cos(0.6)]}, False),
        ("height", {}, False),
        ("height", {"position": [0.0, 0.0, 0.1]}, True),
        ("height", {"position": [0.0, 0.0, 1.6]}, True),
        ("contact", {}, False),
    ],
)
def test_tilt_and_height_end_an_episode(one, reason, changes, over) -> None:
    assert bool(load_task("a1_walk").functions("terminations", 1)[reason](one("a1", **changes))[0]) is over
