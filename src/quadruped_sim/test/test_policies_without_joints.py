"""A policy that moves no joints, whose action is a command for a walking robot, goes the whole way: interface, data,
training, model file, runner.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
    return PolicyRunner(load_policy(model), interface, provides=interface.reads)


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
