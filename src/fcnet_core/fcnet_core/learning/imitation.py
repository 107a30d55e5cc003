"""One imitation run from its settings to the policy: data, robot, normalisation, network, trainer, model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from fcnet_core import FcnetError
from fcnet_core.arrays import Single
from fcnet_core.learning.config import TrainConfig
from fcnet_core.learning.dataset import Dataset
from fcnet_core.learning.sampler import CropSampler
from fcnet_core.learning.trainer import Progress, Trainer
from fcnet_core.model_file import PolicyModel, card_for_robot, card_for_task, check_robot
from fcnet_core.policies import policy_type
from fcnet_core.policies.normalisation import Normalisation, observation_scales
from fcnet_core.robot import JOINT_NAMES, Robot, load_robot


@dataclass(frozen=True)
class Imitation:
    """Everything of a run that is ready to start."""

    config: TrainConfig
    data: Dataset
    weights: list[float]
    robot: Robot | None
    trainer: Trainer
    init: PolicyModel | None


def prepare(config: TrainConfig, init: PolicyModel | None = None) -> Imitation:
    """Open the data of `config` and build the trainer, from random weights or from those of `init`.

    Weights and normalisation of `init` are kept, so that a further round of DAgger continues with the same units.
    Raises FcnetError when the parts do not fit each other.
    """
    folders, weights = _folders_and_weights(config.data)
    data = Dataset(folders)
    robot = _robot(data)
    _check_arrays(config, data)
    torch.manual_seed(config.seed)
    kind = policy_type(config.policy_type)
    network: nn.Module = kind.part(kind.network)(config.policy_config)
    if init is None:
        scales = observation_scales(data.statistics, config.policy_config.observation_spec, data.manifest.arrays)
        normalisation = Normalisation(scales | _action_scales(config, data, robot), config.observation_clip)
    else:
        _check_init(init, config, robot)
        network.load_state_dict({name: torch.tensor(weight) for name, weight in init.weights.items()})
        normalisation = init.normalisation
    names = (*config.policy_config.observation_spec, "action")
    crops = CropSampler(
        data, names, weights, config.crop, config.held_out_share, config.episode_start_share, seed=config.seed
    )
    trainer = Trainer(network, config, crops, normalisation, data.manifest.arrays)
    return Imitation(config, data, weights, robot, trainer, init)


def trained_policy(run: Imitation, command_line: str) -> PolicyModel:
    """The policy as it is now, with a card that tells how it came about."""
    normalisation = run.trainer.normalisation
    config = run.config.policy_config
    facts: dict[str, Any] = {
        "window_policy": run.config.window_policy,
        "control_rate": run.data.manifest.control_rate,
        "observation_clip": normalisation.clip,
        "training": _summary(run, command_line),
    }
    robot = run.robot
    card = card_for_robot(robot, config, **facts) if robot else card_for_task(run.data.manifest.robot, config, **facts)
    weights = {name: weight.detach().numpy().copy() for name, weight in run.trainer.network.state_dict().items()}
    return PolicyModel(card, weights, dict(normalisation.scales))


def _summary(run: Imitation, command_line: str) -> dict[str, Any]:
    trainer = run.trainer
    settings = {name: value for name, value in msgspec.to_builtins(run.config).items() if name != "data"}
    steps = dict.fromkeys(run.data.folders, 0)
    for shard in run.data.shards:
        steps[shard.path.parent] += shard.steps
    return {
        "command_line": command_line,
        "steps": trainer.step,
        "seconds": round(trainer.seconds, 1),
        "loss": trainer.loss,
        "held_out_error": trainer.held_out_error,
        "data": [
            {"folder": str(folder), "weight": weight, "steps": steps[folder], "description": manifest.description}
            for folder, weight, manifest in zip(run.data.folders, run.weights, run.data.manifests, strict=True)
        ],
        "started_from": None if run.init is None else run.init.fingerprint,
        "settings": settings,
    }


def _folders_and_weights(data: tuple[str, ...]) -> tuple[list[str], list[float]]:
    """Split `DIR` and `DIR:weight`."""
    folders, weights = [], []
    for entry in data:
        folder, colon, weight = entry.rpartition(":")
        try:
            weights.append(float(weight) if colon else 1.0)
        except ValueError as error:
            raise FcnetError(
                f"data {entry!r}: after the colon expected a weight such as 2, not {weight!r}"
            ) from error
        folders.append(folder if colon else entry)
        if not 0 < weights[-1] < float("inf"):
            raise FcnetError(f"data {entry!r}: the weight must be above 0")
    return folders, weights


def _robot(data: Dataset) -> Robot | None:
    """The robot that the data are of; None for data of a task that has no joints by name."""
    if not data.manifest.joint_names:
        return None
    if data.manifest.joint_names != JOINT_NAMES:
        names = ", ".join(JOINT_NAMES)
        raise FcnetError(f"the joints of {data.folders[0]} are not in the order {names}; collect again")
    return load_robot(data.manifest.robot)


def _check_arrays(config: TrainConfig, data: Dataset) -> None:
    """Raise FcnetError when the data lack what the network sees, or have another shape of it."""
    arrays = data.manifest.arrays
    wanted = {name: (spec.shape, spec.dtype) for name, spec in config.policy_config.observation_spec.items()}
    for name, kind in (wanted | {"action": ((config.policy_config.action,), "float32")}).items():
        found = (arrays[name].shape, arrays[name].dtype) if name in arrays else None
        if found != kind:
            has = f"{found[1]} of shape {found[0]}" if found else "no such array"
            raise FcnetError(
                f"the network's {name} is {kind[1]} of shape {kind[0]}, but {data.folders[0]} has {has};"
                " change config, or take other data"
            )


def _action_scales(config: TrainConfig, data: Dataset, robot: Robot | None) -> dict[str, Single]:
    """Actions are in units of action_scale around the robot's stand pose, or around the data's mean."""
    mean = data.statistics["action"].mean if robot is None else robot.stand_pose
    return {"action_mean": mean.astype(np.float32), "action_scale": np.full(len(mean), config.action_scale, np.float32)}


def _check_init(init: PolicyModel, config: TrainConfig, robot: Robot | None) -> None:
    if robot is not None:
        check_robot(init, robot)
    asked = {
        "policy type": (init.card.policy_type, config.policy_type),
        "configuration": (init.card.config, config.policy_config),
        "window policy": (init.card.window_policy, config.window_policy),
    }
    for what, (has, wanted) in asked.items():
        if has != wanted:
            raise FcnetError(
                f"the model to start from has the {what} {has}, the training configuration asks for {wanted};"
                " make them equal or leave out --init"
            )


class ProgressBar:
    """A live line with loss and held-out error."""

    def __init__(self, step: int, steps: int) -> None:
        self._bar = tqdm(initial=step, total=steps, unit="step", desc="training", dynamic_ncols=True, mininterval=0.5)

    def __call__(self, progress: Progress) -> None:
        held_out = "" if progress.held_out_error is None else f", held-out error {progress.held_out_error:.4f} rad"
        self._bar.set_postfix_str(f"loss {progress.loss:.4f}{held_out}", refresh=False)
        self._bar.update(progress.step - self._bar.n)

    def close(self) -> None:
        """Leave the last line on the screen."""
        self._bar.close()


class JsonLines:
    """One object per report, with the names of Progress."""

    def __call__(self, progress: Progress) -> None:
        print(json.dumps(asdict(progress)), flush=True)

    def close(self) -> None:
        """Nothing is left open."""
