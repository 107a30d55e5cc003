"""The teacher: observations and training; it has no memory, and drives a robot and its mirror image alike."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from msgspec.structs import replace

from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.errors import SimulationError
from fcnet_core.model_file import PolicyModel, load_model, shipped_model
from fcnet_core.observation import LAYOUT
from fcnet_core.robot import SETPOINT_FIELDS, load_robot
from quadruped_sim.collection import CollectionPlan
from quadruped_sim.physics.randomization import NOMINAL, TYPICAL
from quadruped_sim.physics.terrain import Flat
from quadruped_sim.rollout import Rollout
from quadruped_sim.tasks.robots import RenewedRobots
from quadruped_sim.tasks.setpoints import SetpointRanges
from quadruped_sim.tasks.task import load_task
from quadruped_sim.tasks.view import TrueState
from quadruped_sim.teacher.expert import (
    ACTION_UNIT,
    Privileged,
    TeacherExpert,
    action_mirror,
    mirrored,
    observation_mirror,
)
from quadruped_sim.teacher.groups import Groups, TeacherConfig
from quadruped_sim.teacher.network import TeacherPolicy, TeacherPPO, teacher_model

VELOCITY = load_task("velocity")
ALIENGO = load_robot("aliengo")
ACTION, OBSERVATION = action_mirror(ALIENGO), observation_mirror(VELOCITY.teacher_interface(ALIENGO), ALIENGO)
WALK = SetpointRanges(always={"vx": (0.3, 0.6)})
TO_THE_LEFT = SetpointRanges(always=dict.fromkeys(SETPOINT_FIELDS[:6], (0.1, 0.1)))
SIDEWAYS = [SETPOINT_FIELDS.index(field) for field in ("vy", "yaw_rate", "roll")]
PLAN = {
    "robot": "aliengo",
    "shards": 2,
    "robots": 4,
    "seconds": 0.4,
    "parts": {"walk": {"share": 1, "terrains": [{"kind": "flat"}], "setpoints": {"always": {"vx": [0.3, 0.6]}}}},
}
SETTINGS = {"hidden": [16], "imitation_steps": 6, "imitation_epochs": 1, "robots": 4, "groups": 2, "n_steps": 4,
            "batch_size": 16, "n_epochs": 1, "critic_rounds": 1}  # fmt: skip


@pytest.fixture
def rollout(aliengo):
    return Rollout(aliengo, 3, Flat(), WALK, TYPICAL, seed=5)


def expert_of(rollout: Rollout, model: PolicyModel) -> TeacherExpert:
    return TeacherExpert(model, rollout.simulation.robot, rollout.shaper, rollout.limiter)


def privileged(rollout: Rollout) -> TrueState:
    return TrueState(rollout.simulation, rollout.simulation.state())


def seen_in(rollout: Rollout) -> np.ndarray:
    """The observation (B, 97) of the teacher."""
    return Privileged(VELOCITY, rollout.simulation.robot, rollout.simulation.batch).observe(
        privileged(rollout), rollout.shaper, rollout.limiter
    )


def test_the_teacher_sees_what_robots_have_drawn_and_the_critic_the_ground_as_well(rollout):
    robot, seen = rollout.simulation.robot, seen_in(rollout)
    assert seen.shape == (3, 97) and seen.dtype == np.float32
    place = VELOCITY.teacher_interface(robot).spec["observation"].slices()["friction"]
    np.testing.assert_allclose(seen[:, place][:, 0], rollout.simulation.drawn["friction"], rtol=1e-6)
    critic = Privileged(VELOCITY, robot, 3, critic=True)
    known = critic.observe(privileged(rollout), rollout.shaper, rollout.limiter)
    assert known.shape == (3, 132)
    np.testing.assert_array_equal(known[:, :97], seen)


def test_a_teacher_has_no_memory(rollout, teacher):
    expert, simulation = expert_of(rollout, teacher), rollout.simulation
    first = expert.act(rollout.observe().state, simulation)
    for _ in range(5):
        rollout.send(first)
        expert.act(rollout.observe().state, simulation)
    now = rollout.observe().state
    np.testing.assert_array_equal(expert.act(now, simulation), expert_of(rollout, teacher).act(now, simulation))


def test_targets_are_as_the_encoders_count(rollout, teacher):
    expert, state, limiter = expert_of(rollout, teacher), rollout.observe().state, rollout.limiter
    wrong = np.full((3, 12), 0.05)
    before = expert.act(state, rollout.simulation)
    rollout.simulation.drawn["joint_zero"][:] += wrong
    limiter.last, limiter.previous = limiter.last + wrong, limiter.previous + wrong
    np.testing.assert_allclose(expert.act(state, rollout.simulation) - before, wrong, atol=1e-6)


def test_a_policy_is_not_accepted_as_a_teacher(rollout, standing_policy):
    with pytest.raises(SimulationError):
        expert_of(rollout, standing_policy)


def group_of_four(seconds: float) -> RenewedRobots:
    plan = replace(msgspec.convert(PLAN, CollectionPlan), seconds=seconds)
    return Groups(VELOCITY, plan, TeacherConfig(robots=4, groups=1, renewal=10**9), seed=0)._groups[0][1]


def test_the_robots_of_a_group_that_makes_place_end_as_old_ones_do():
    plan = replace(msgspec.convert(PLAN, CollectionPlan), seconds=1000.0)
    groups = Groups(VELOCITY, plan, TeacherConfig(robots=4, groups=2, renewal=3), seed=0)
    for period in range(1, 4):
        observation, _, fell, old, last = groups.step(groups.advise())
        assert not fell.any() and old.tolist() == [False, False, *[period == 3] * 2]
    assert not np.array_equal(last[2:], observation[2:])


def test_the_trots_actions_lead_to_the_trots_targets(aliengo):
    group = group_of_four(1000.0)  # none grows old
    advice = group.robots.advise()
    group.step(advice)
    sent = group.robots.rollout.limiter.last - group.robots.rollout.simulation.drawn["joint_zero"]
    np.testing.assert_allclose(sent, np.clip(aliengo.stand_pose + ACTION_UNIT * advice, aliengo.lower, aliengo.upper))


@pytest.fixture
def pair(aliengo) -> Rollout:
    """A robot that turns and leans to the left, and its mirror image half a stride on."""
    rollout = Rollout(aliengo, 2, Flat(), TO_THE_LEFT, NOMINAL, seed=3)
    rollout.simulation.drawn["com"][:] = (0.01, 0.02, 0.03), (0.01, -0.02, 0.03)
    shaper, lean = rollout.shaper, np.array([0.03, 0.02, 0.04])
    for setpoint in (shaper.requested, shaper.target, shaper.setpoint):
        setpoint[:, :6] = 0.1
        setpoint[1, SIDEWAYS] = -0.1
    shaper.clock.phase[:] = 0.2, 0.7
    shaper.clock.walking[:] = True
    joints = np.random.default_rng(0).uniform(-0.1, 0.1, (1, 12)) + aliengo.stand_pose
    both = np.concatenate([joints, mirrored(joints, ACTION)])
    rollout.limiter.last, rollout.limiter.previous = both, 0.9 * both
    for body, side, angles in zip(rollout.simulation.bodies, (1.0, -1.0), both, strict=True):
        data = body.data
        data.qpos[3:7] = 1.0, side * lean[0], lean[1], side * lean[2]
        data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
        data.qpos[7:], data.qvel[6:] = angles, 3.0 * angles
        data.qvel[:6] = 0.3, side * 0.2, 0.1, side * 0.5, 0.4, side * 0.3
    return rollout


def test_what_a_robot_and_its_mirror_image_see_are_mirror_images(pair):
    robot, image = seen_in(pair)
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
    robot, image = seen_in(rollout)
    at = LAYOUT["command"].start  # the command is the same for both
    off = (image - mirrored(robot, OBSERVATION))[:at]
    assert np.linalg.norm(off) < 0.1 * np.linalg.norm((image - robot)[:at])


def test_a_teacher_drives_both_alike_whatever_its_network_has_learned(aliengo, pair, teacher):
    robot, image = expert_of(pair, teacher).act(pair.simulation.state(), pair.simulation)
    assert np.abs(robot - image).max() > 0.01
    np.testing.assert_allclose(image, mirrored(robot, ACTION), atol=1e-6)


def test_the_actor_that_learns_is_the_teacher_that_acts(aliengo, pair):
    rng = np.random.default_rng(2)
    policy = TeacherPolicy(
        Box(-np.inf, np.inf, (132,)),
        Box(-6, 6, (12,)),
        lambda _: 1e-4,
        networks={
            "hidden": (16,),
            "mean": rng.normal(0, 0.1, 132).astype(np.float32),
            "deviation": np.ones(132, np.float32),
            "mirrors": (OBSERVATION, ACTION),
        },
        critic_learning_rate=1e-3,
    )
    expert = expert_of(pair, teacher_model(policy, aliengo, {}, 50.0))
    observation = np.concatenate([seen_in(pair), np.zeros((2, 132 - 97), np.float32)], axis=1)
    with torch.no_grad():
        action = policy.mlp_extractor.forward_actor(torch.as_tensor(observation)).numpy()
        exploring, _, _ = policy(torch.as_tensor(observation), deterministic=True)
    targets = expert.act(pair.simulation.state(), pair.simulation)
    np.testing.assert_allclose(aliengo.stand_pose + ACTION_UNIT * action, targets, atol=1e-6)
    np.testing.assert_array_equal(exploring.numpy(), action)


def test_a_teacher_is_made_continued_and_used_as_the_expert(tmp_path: Path, capsys):
    plan, settings, folder = tmp_path / "plan.yaml", tmp_path / "settings.yaml", tmp_path / "teacher"
    teacher, one = folder / "teacher.safetensors", ("--processes", "1")
    plan.write_text(json.dumps(PLAN))

    def succeeds(*arguments: str | Path) -> str:
        code, printed = main([*map(str, arguments)]), capsys.readouterr()
        assert code == 0, printed.err
        return printed.out

    for rate in (1e-4, 2e-5):
        settings.write_text(json.dumps(SETTINGS | {"learning_rate": rate}))
        succeeds("teach", "--config", plan, "--settings", settings, "--out", folder, "--minutes", "0.01")
    learner = TeacherPPO.load(folder / "checkpoint.zip", device="cpu")
    assert [group["lr"] for group in learner.policy.optimizer.param_groups] == [2e-5, 1e-3]
    model = load_model(teacher)
    assert model.card.training["steps"] >= 2 * 10 * 4 * 8
    assert len((folder / "log.jsonl").read_text().splitlines()) >= 2
    made, result = tmp_path / "data", tmp_path / "result.json"
    succeeds("collect", "--config", plan, "--teacher", teacher, "--out", made, *one)
    assert json.loads((made / "manifest.json").read_text())["description"]["teacher"] == model.fingerprint
    few = ("--scenarios", "stand", "--episodes", "1", "--no-fail", *one)
    succeeds("evaluate", "--teacher", teacher, *few, "--json", result)
    assert json.loads(result.read_text())["subject"]["teacher"] == model.fingerprint
    plan.write_text(json.dumps(PLAN | {"robot": "a1"}))
    settings.write_text(json.dumps(SETTINGS | {"critic_rounds": 10**6}))
    other = ("teach", "--config", plan, "--settings", settings, "--out", tmp_path / "a1", "--minutes", "0.001", *one)
    student = shipped_model("aliengo-mlp")
    for init in (tmp_path / "absent", student):
        assert main([*map(str, other), "--init", str(init)]) == USAGE_ERROR
        assert capsys.readouterr().err.startswith("fcnet: ")
    assert "trot:" not in succeeds(*other, "--init", teacher)
    successor = load_model(tmp_path / "a1" / "teacher.safetensors")  # the critic alone has learned
    assert successor.card.interface.name == "a1"
    np.testing.assert_equal(dict(successor.weights), dict(model.weights))
