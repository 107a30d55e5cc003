"""Policies that move no joints: one of a Gymnasium task, and one whose action is a command for a walking robot.

Both go the whole way: interface, data, training, model file, runner.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from policy_forms import parallel

from fcnet_core.arrays import Array
from fcnet_core.control.runner import PolicyRunner
from fcnet_core.errors import FcnetError
from fcnet_core.files import converted
from fcnet_core.learning.config import TrainConfig
from fcnet_core.learning.dataset import DatasetWriter, Manifest
from fcnet_core.learning.imitation import Imitation
from fcnet_core.model_file import load_model, save_model
from fcnet_core.names import Mode
from fcnet_core.observation import PolicyInterface
from fcnet_core.policy import load_policy
from fcnet_core.robot import SETPOINT_FIELDS
from fcnet_core.rotation import matrix_from_xyzw
from quadruped_sim.controlled_robot import ControlledRobot
from quadruped_sim.physics.live_robot import LiveRobot
from quadruped_sim.physics.terrain import Flat

PENDULUM = {
    "environment": "Pendulum-v1",
    "rate": 20,
    "inputs": {"observation": {"terms": [{"term": "vector", "name": "observation", "size": 3}]}},
    "action": {"kind": "vector", "size": 1, "scale": 2.0, "clip": 1.0},
}
GOAL = {
    "rate": 10,
    "inputs": {"observation": {"terms": [{"term": "vector", "name": "goal", "size": 2}]}},
    "action": {"kind": "command", "fields": ["vx", "yaw_rate"], "scale": [0.8, 0.9], "clip": 1.0},
}


def trained(section: dict[str, Any], observation: Array, output: Array, folder: Path, steps: int) -> PolicyRunner:
    """Return the runner of an MLP that was trained on outputs (S, T, n) for one input (S, T, n), saved and loaded."""
    interface = converted(section, PolicyInterface)
    (name,) = interface.inputs
    writer = DatasetWriter(folder / "data", Manifest.of(interface, {}))
    writer.add({}, action=output, first=np.arange(output.shape[1]) == np.zeros((len(output), 1)), **{name: observation})
    settings = {"steps": steps, "batch": 32, "crop": 20, "learning_rate": 5e-3}
    network = {"policy_type": "mlp", "config": {"window": 1, "hidden": [64, 64]}}
    run = Imitation(TrainConfig(data=(str(folder / "data"),), **network, **settings))
    assert run.trainer.run(lambda progress: None, lambda: False)
    save_model(run.policy("test"), folder / "policy.safetensors")
    model = load_model(folder / "policy.safetensors")
    assert (model.card.interface, model.card.format_version) == (interface, 2)
    policy, row = load_policy(model), np.asarray(observation[0, :1], np.float32)
    scaled = parallel(model, model.normalisation.input(row, name))
    expected = model.scales["action_mean"] + model.scales["action_scale"] * scaled
    np.testing.assert_allclose(policy.step(row[0]), expected[0], atol=2e-6)
    return PolicyRunner(policy, interface, provides=interface.reads)


def swing_up(seen: Array) -> Array:
    """Return the torque (1,), as a share of the largest, that brings a pendulum up by its energy and holds it there."""
    cosine, sine, rate = seen
    energy = 0.5 * rate**2 + 15.0 * (cosine - 1.0)
    wanted = -6.0 * np.arctan2(sine, cosine) - 1.5 * rate if cosine > 0.93 else -0.5 * rate * energy
    return np.clip(np.array([wanted]), -1.0, 1.0)


def episode(act: Callable[[Array], Array], seed: int) -> tuple[Array, Array, float]:
    """Return observations (200, 3) and actions (200, 1) of an episode, and its return."""
    env = gymnasium.make("Pendulum-v1")
    seen, _ = env.reset(seed=seed)
    observations, actions, total = [], [], 0.0
    for _ in range(200):
        observations.append(seen)
        actions.append(act(seen))
        seen, reward, *_ = env.step(actions[-1].astype(np.float32))
        total += float(reward)
    return np.array(observations), np.array(actions), total


def test_a_policy_of_a_gymnasium_task_is_trained_saved_and_acts_in_it(tmp_path) -> None:
    observations, torques, expert = zip(
        *(episode(lambda seen: 2.0 * swing_up(seen), seed) for seed in range(20)), strict=True
    )
    runner = trained(PENDULUM, np.array(observations), np.array(torques) / 2.0, tmp_path, 600)

    def act(seen: Array) -> Array:
        return runner.targets({"observation": seen})

    returns = []
    for seed in range(100, 105):
        runner.reset()
        _, actions, total = episode(act, seed)
        returns.append(total)
        assert 1.0 < np.abs(actions).max() <= 2.0 and runner.steps == 200
    idle = np.mean([episode(lambda seen: np.zeros(1), seed)[2] for seed in range(100, 105)])
    assert np.mean(returns) > 0.5 * (np.mean(expert) + idle)


def test_a_policy_whose_action_is_a_command_leads_a_walking_robot_to_a_goal(aliengo, tmp_path) -> None:
    goals = np.random.default_rng(0).uniform(-4.0, 4.0, (20, 100, 2))
    angle = np.arctan2(goals[..., 1], goals[..., 0])
    speed = np.where(np.abs(angle) < 0.7, np.minimum(np.linalg.norm(goals, axis=-1), 1.0), 0.0)
    runner = trained(GOAL, goals, np.stack([speed, np.clip(2.0 * angle, -1.0, 1.0)], axis=-1), tmp_path, 200)
    fields = [SETPOINT_FIELDS.index(name) for name in runner.interface.action.fields]

    live = LiveRobot(aliengo, Flat(), start="standing")
    robot = ControlledRobot(live, load_model("aliengo"))
    robot.measure().walk_on()
    goal, setpoint, away = np.array([1.5, 2.5, 0.0]), np.zeros(len(SETPOINT_FIELDS)), []
    for cycle in range(round(20.0 / live.period)):
        if cycle % round(1.0 / (runner.interface.rate * live.period)) == 0:
            truth = live.ground_truth()
            seen = matrix_from_xyzw(truth.orientation).T @ (goal - truth.position)
            setpoint[fields] = runner.targets({"goal": seen[:2]})
            away.append(float(np.linalg.norm((goal - truth.position)[:2])))
        robot.cycle(setpoint)
    assert robot.controller.mode is Mode.WALKING and runner.steps == 200
    assert away[0] > 2.5 and min(away) < 0.5


def test_data_with_an_input_that_the_network_does_not_take_are_refused_by_its_name(tmp_path) -> None:
    section = GOAL | {"inputs": {"place": GOAL["inputs"]["observation"]}}
    with pytest.raises(FcnetError, match="place"):
        trained(section, np.zeros((2, 30, 2)), np.zeros((2, 30, 2)), tmp_path, 1)
