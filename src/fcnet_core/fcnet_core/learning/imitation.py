"""An imitation run from its settings to the policy: data, robot, normalisation, network, trainer, model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import torch
from torch import nn

from fcnet_core.arrays import Array, Floats, Single
from fcnet_core.control.command import setpoints_of
from fcnet_core.control.envelope import Envelope
from fcnet_core.errors import FcnetError
from fcnet_core.learning.config import TrainConfig, folders_and_weights
from fcnet_core.learning.dataset import Dataset, Shard
from fcnet_core.learning.processes import Processes
from fcnet_core.learning.sampler import CropSampler
from fcnet_core.learning.trainer import ALONE, Trainer
from fcnet_core.model_file import PolicyCard, PolicyModel, card_for_robot, check_robot
from fcnet_core.observation import vector_interface, velocity_interface
from fcnet_core.policies import policy_type
from fcnet_core.policies.export import exported_step
from fcnet_core.policies.normalisation import Normalisation, observation_scales
from fcnet_core.robot import SETPOINT_FIELDS, Robot, load_robot

LONGEST_DESCRIPTIONS = 500_000  # [characters] of all data folders, in a policy's card: about half of what is read


class Imitation:
    """A run that is ready to start: the data of `config`, opened, and the trainer, from random weights or from `init`.

    Weights and normalisation of `init` are kept, so that a DAgger iteration continues with the same units.
    Raises FcnetError if data, robot, network and `init` do not match, or a recorded value is not finite.
    """

    def __init__(self, config: TrainConfig, init: PolicyModel | None = None, processes: Processes = ALONE) -> None:
        folders, self.weights = folders_and_weights(config.data)
        self.config, self.init = config, init
        self.data = data = Dataset(folders)
        self.robot = _robot(data)
        spec, arrays = config.policy_config.observation_spec, data.manifest.arrays
        _check_arrays(config, data)
        if self.robot:
            config.policy_config.check_robot(self.robot)
        statistics = processes.from_first(lambda: data.statistics)
        torch.manual_seed(config.seed)
        kind = policy_type(config.policy_type)
        network: nn.Module = kind.part(kind.network)(config.policy_config)
        if init is None:
            scales = observation_scales(statistics, spec, arrays) | self._action_scales(statistics["action"].mean)
            normalisation = Normalisation(scales, config.observation_clip)
        else:
            self._check_init(init)
            network.load_state_dict({name: torch.tensor(weight) for name, weight in init.weights.items()})
            normalisation = init.normalisation
        shares = (config.held_out_share, config.episode_start_share)
        crops = CropSampler(data, (*spec, "action"), self.weights, config.crop, *shares, seed=config.seed)
        self.trainer = Trainer(network, config, crops, normalisation, arrays, processes)

    def policy(self, command_line: str) -> PolicyModel:
        """Return the current policy, with a card that describes its training."""
        normalisation = self.trainer.normalisation
        facts: dict[str, Any] = {
            "window_policy": self.config.window_policy,
            "observation_clip": normalisation.clip,
            "training": self._summary(command_line),
        }
        if self.robot:
            rate, config = self.data.manifest.control_rate, self.config.policy_config
            card = card_for_robot(self.robot, config, control_rate=rate, envelope=self._envelope, **facts)
        else:
            manifest, kind, config = self.data.manifest, self.config.policy_type, self.config.policy_config
            interface = vector_interface(config.observation_spec, config.action, manifest.control_rate, manifest.robot)
            card = PolicyCard(interface=interface, policy_type=kind, config=config, **facts)
        weights = {name: weight.cpu().numpy().copy() for name, weight in self.trainer.network.state_dict().items()}
        return PolicyModel(card, weights, dict(normalisation.scales), exported_step(self.config.policy_config))

    @cached_property
    def _envelope(self) -> Envelope | None:
        """The command envelope. Reads all data once per run."""
        return envelope_of(self.data, self.robot) if self.robot else None

    def _summary(self, command_line: str) -> dict[str, Any]:
        progress = self.trainer.progress
        steps = dict.fromkeys(self.data.folders, 0)
        for shard in self.data.shards:
            steps[shard.path.parent] += shard.steps
        descriptions: list[dict[str, Any] | None] = [manifest.description for manifest in self.data.manifests]
        if len(json.dumps(descriptions)) > LONGEST_DESCRIPTIONS:  # of many folders: the card would not be read again
            descriptions = [None] * len(descriptions)
        return {
            "command_line": command_line,
            "steps": progress.step,
            "seconds": round(progress.seconds, 1),
            "loss": progress.loss,
            "held_out_error": progress.held_out_error,
            "data": [
                {"folder": str(folder), "weight": weight, "steps": steps[folder], "description": description}
                for folder, weight, description in zip(self.data.folders, self.weights, descriptions, strict=True)
            ],
            "started_from": None if self.init is None else self.init.fingerprint,
            "settings": {name: value for name, value in msgspec.to_builtins(self.config).items() if name != "data"},
        }

    def _action_scales(self, mean: Array) -> dict[str, Single]:
        """Return the units of actions: action_scale around the robot's stand pose, or around the data's mean."""
        mean = mean if self.robot is None else self.robot.stand_pose
        scale = np.full(len(mean), self.config.action_scale, np.float32)
        return {"action_mean": mean.astype(np.float32), "action_scale": scale}

    def _check_init(self, init: PolicyModel) -> None:
        if self.robot is not None:
            check_robot(init, self.robot)
        pairs = {
            "policy type": (init.card.policy_type, self.config.policy_type),
            "configuration": (init.card.config, self.config.policy_config),
            "window policy": (init.card.window_policy, self.config.window_policy),
        }
        for name, (of_model, of_run) in pairs.items():
            if of_model != of_run:
                raise FcnetError(
                    f"the model to start from has the {name} {of_model}, the training configuration {of_run}; make them"
                    " equal or leave out --init"
                )


def envelope_of(data: Dataset, robot: Robot) -> Envelope | None:
    """Return the command envelope of a robot's data, or None if they have no setpoints or too few."""
    rate = data.manifest.control_rate
    seen = velocity_interface(robot, rate).spec["observation"]
    if data.manifest.arrays.get("observation") != seen:
        return None
    return Envelope.from_setpoints(_Setpoints(data.shards, seen.slices()["command"]), rate, robot.commands)


@dataclass(frozen=True)
class _Setpoints:
    """The setpoints (N, 9) shard by shard, read again in each pass."""

    shards: list[Shard]
    columns: slice  # of the command

    def __iter__(self) -> Iterator[Floats]:
        for shard in self.shards:
            yield setpoints_of(shard.observation[..., self.columns]).reshape(-1, len(SETPOINT_FIELDS))


def _robot(data: Dataset) -> Robot | None:
    """Return the robot of the data, or None for a task without joint names."""
    if not data.manifest.joint_names:
        return None
    robot = load_robot(data.manifest.robot)
    if data.manifest.joint_names != robot.joint_names:
        names = ", ".join(robot.joint_names)
        raise FcnetError(f"the joints of {data.folders[0]} are not in the order {names}; collect again")
    return robot


def _check_arrays(config: TrainConfig, data: Dataset) -> None:
    """Raise FcnetError if the data lack an array that the network reads, or have it in another shape or type."""
    arrays, robot = data.manifest.arrays, data.manifest.joint_names
    if robot and config.policy_config.action != len(robot):
        action = config.policy_config.action
        raise FcnetError(f"the network's action is {action}, but {data.folders[0]} has {len(robot)} joints")
    expected = {name: (spec.shape, spec.dtype) for name, spec in config.policy_config.observation_spec.items()}
    for name, kind in (expected | {"action": ((config.policy_config.action,), "float32")}).items():
        found = (arrays[name].shape, arrays[name].dtype) if name in arrays else None
        if found != kind:
            has = f"{found[1]} of shape {found[0]}" if found else "no such array"
            raise FcnetError(
                f"the network's {name} is {kind[1]} of shape {kind[0]}, but {data.folders[0]} has {has};"
                " change config, or take other data"
            )
