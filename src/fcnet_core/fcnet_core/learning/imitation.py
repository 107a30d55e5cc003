"""An imitation run from its settings to the policy: data, robot, normalisation, network, trainer, model."""

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import torch
from msgspec import structs

from fcnet_core.arrays import Array, ArraySpec, Floats, Single
from fcnet_core.control.envelope import Envelope
from fcnet_core.errors import FcnetError
from fcnet_core.learning.config import TrainConfig, folders_and_weights, with_settings
from fcnet_core.learning.dataset import Dataset
from fcnet_core.learning.processes import Processes
from fcnet_core.learning.sampler import CropSampler
from fcnet_core.learning.trainer import Trainer
from fcnet_core.model_file import PolicyCard, PolicyModel, check_robot, fitting
from fcnet_core.observation import JointTargets, PolicyInterface, vector_interface, velocity_interface
from fcnet_core.observation.terms import Command
from fcnet_core.policies import PolicyConfig, policy_type
from fcnet_core.policies.network import PolicyNetwork
from fcnet_core.policies.normalisation import Normalisation, observation_scales
from fcnet_core.robot import SETPOINT_FIELDS, Robot, load_robot, per_joint

ALONE = Processes()
LONGEST_DESCRIPTIONS = 500_000  # [characters] of all data folders, in a policy's card: about half of what is read


class Imitation:
    """A run that is ready to start: the data of `config`, opened, and the trainer, from random weights or from `init`.

    Weights and normalisation of `init` are kept, so that a DAgger iteration continues with the same units.
    Raises FcnetError if data, robot, network and `init` do not match, or a recorded value is not finite.
    """

    def __init__(self, config: TrainConfig, init: PolicyModel | None = None, processes: Processes = ALONE) -> None:
        folders, self.weights = folders_and_weights(config.data)
        self.init = init
        self.data = data = Dataset(folders)
        self.robot = _robot(data)
        self.interface = interface_of(data, self.robot)
        network_config = config.for_interface(self.interface, self.robot.legs if self.robot else {})
        config = self.config = with_settings(config, config=msgspec.to_builtins(network_config))
        spec, arrays = config.policy_config.observation_spec, data.manifest.arrays
        _check_arrays(config.policy_config, data)
        if self.robot:
            config.policy_config.check_robot(self.interface, self.robot)
        statistics = processes.from_first(lambda: data.statistics)
        torch.manual_seed(config.seed)
        kind = policy_type(config.policy_type)
        network: PolicyNetwork = kind.part(kind.network)(config.policy_config)
        if init is None:
            scales = observation_scales(statistics, spec, arrays) | self._action_scales(statistics["action"].mean)
            normalisation = Normalisation(scales, config.observation_clip)
        else:
            self._check_init(init)
            network.load_state_dict({name: torch.tensor(weight) for name, weight in init.weights.items()})
            normalisation = init.normalisation
        shares = (config.held_out_share, config.episode_start_share)
        crops = CropSampler(data, (*spec, "action"), self.weights, config.crop, *shares, seed=config.seed)
        self.trainer = Trainer(network, config, crops, normalisation, arrays, processes, self.interface)

    def policy(self, command_line: str) -> PolicyModel:
        """Return the current policy, with a card that describes its training."""
        from fcnet_core.policies.export import exported_step  # training itself needs no ONNX Runtime

        normalisation = self.trainer.normalisation
        config = self.config.policy_config
        commands = structs.replace(self.interface.commands, envelope=self._envelope)
        card = PolicyCard(
            interface=fitting(structs.replace(self.interface, commands=commands), config),
            policy_type=self.config.policy_type,
            config=config,
            window_policy=self.config.window_policy,
            observation_clip=normalisation.clip,
            training=self._summary(command_line),
        )
        weights = {name: weight.cpu().numpy().copy() for name, weight in self.trainer.network.state_dict().items()}
        return PolicyModel(card, weights, dict(normalisation.scales), exported_step(config))

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
        action, scale = self.interface.action, np.full(len(mean), self.config.action_scale, np.float32)
        if isinstance(action, JointTargets):
            joints, pose = self.interface.joints, self.interface.pose
            unit = per_joint(action.scale, joints, "scale")
            mean = (pose - (pose if action.offset is None else per_joint(action.offset, joints, "offset"))) / unit
            scale = (scale / unit).astype(np.float32)
        return {"action_mean": mean.astype(np.float32), "action_scale": scale}

    def _check_init(self, init: PolicyModel) -> None:
        if self.robot is not None:
            check_robot(init, self.robot)
        run, model = self.config, init.card
        pairs = {"policy_type": (model.policy_type, run.policy_type), "config": (model.config, run.policy_config)}
        pairs["window_policy"] = model.window_policy, run.window_policy
        for name, (of_model, of_run) in pairs.items():
            if of_model != of_run:
                both = f"the {name} of the model to start from is {of_model}, that of the run {of_run}"
                raise FcnetError(f"{both}; make them equal or leave out --init")


def interface_of(data: Dataset, robot: Robot | None) -> PolicyInterface:
    """Return the interface of the data, or the one that data without an interface mean."""
    manifest = data.manifest
    if manifest.interface is not None:
        return manifest.interface
    inputs = {name: array for name, array in manifest.arrays.items() if name != "action"}
    if "observation" in inputs:  # the others are for tasks with networks of their own
        inputs = {"observation": inputs["observation"]}
    vectors = vector_interface(inputs, manifest.arrays["action"].shape[0], manifest.control_rate, manifest.robot)
    if robot is None:
        return vectors
    walking = velocity_interface(robot, manifest.control_rate)
    if walking.spec == inputs:
        return walking
    action = walking.action if vectors.values == len(robot.joint_names) else vectors.action
    return structs.replace(walking, inputs=vectors.inputs, action=action)


def envelope_of(data: Dataset, robot: Robot) -> Envelope | None:
    """Return the command envelope of data, or None if they have no setpoints or too few."""
    interface = interface_of(data, robot)
    found: dict[str, tuple[int, float]] = {}  # entry in the observation and scale of every setpoint that a user moves
    for term, entries in interface.placed_terms if interface.inputs.keys() == {"observation"} else ():
        if isinstance(term, Command):
            scales = np.broadcast_to(term.scale, len(entries)).tolist()
            found |= {name: (entry, scale) for name, entry, scale in zip(term.fields, entries, scales, strict=True)
                      if name in interface.commands.ranges}  # fmt: skip

    class Setpoints:  # (N, 9) shard by shard, read again in each pass
        def __iter__(self) -> Iterator[Floats]:
            for shard in data.shards:
                setpoints = np.zeros((shard.steps, len(SETPOINT_FIELDS)))
                observations = shard.observation.reshape(shard.steps, -1)
                for name, (entry, scale) in found.items():
                    setpoints[:, SETPOINT_FIELDS.index(name)] = observations[:, entry] / scale
                yield setpoints

    return Envelope.from_setpoints(Setpoints(), data.manifest.control_rate, robot.commands) if "vx" in found else None


def _robot(data: Dataset) -> Robot | None:
    """Return the robot of the data, or None for a task without joint names."""
    if not data.manifest.joint_names:
        return None
    robot, names = load_robot(data.manifest.robot), data.manifest.joint_names
    if data.manifest.interface is None and names != robot.joint_names:
        order = ", ".join(robot.joint_names)
        raise FcnetError(f"the joints of {data.folders[0]} are not in the order {order}; collect again")
    return robot


def _check_arrays(config: PolicyConfig, data: Dataset) -> None:
    """Raise FcnetError if the data lack an array that the network reads, or have it in another shape or type."""
    for name, spec in {**config.observation_spec, "action": ArraySpec((config.action,))}.items():
        found = data.manifest.arrays.get(name)
        if found is None or (found.shape, found.dtype) != (spec.shape, spec.dtype):
            has = f"{found.dtype} of shape {found.shape}" if found else "no such array"
            takes = f"the network's {name} is {spec.dtype} of shape {spec.shape}"
            raise FcnetError(f"{takes}, but {data.folders[0]} has {has}; change config, or take other data")
