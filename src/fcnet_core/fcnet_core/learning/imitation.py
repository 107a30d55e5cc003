"""One imitation run from its settings to the policy: data, robot, normalisation, network, trainer, model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import torch
from tqdm import tqdm

from fcnet_core.learning.config import TrainConfig, TrainConfigError
from fcnet_core.learning.dataset import Dataset, DatasetError
from fcnet_core.learning.normalisation import Normalisation, normalisation_from_data, normalisation_of_model
from fcnet_core.learning.sampler import CropSampler
from fcnet_core.learning.trainer import Progress, Trainer
from fcnet_core.model_file import ModelFileError, PolicyModel, card_for_robot, check_robot
from fcnet_core.policies.fcnet.network import FourierControllerNetwork
from fcnet_core.robot import JOINT_NAMES, Robot, load_robot


@dataclass(frozen=True)
class Imitation:
    """Everything of a run that is ready to start."""

    config: TrainConfig
    data: Dataset
    weights: list[float]
    robot: Robot
    trainer: Trainer
    init: PolicyModel | None


def prepare(config: TrainConfig, init: PolicyModel | None = None) -> Imitation:
    """Open the data of `config` and build the trainer, from random weights or from those of `init`.

    Weights and normalisation of `init` are kept, so that a further round of DAgger continues with the same units.
    Raises DatasetError, TrainConfigError, ModelFileError or RobotFileError when the parts do not fit each other.
    """
    folders, weights = _folders_and_weights(config.data)
    data = Dataset(folders)
    robot = load_robot(data.manifest.robot)
    if data.manifest.joint_names != JOINT_NAMES:
        raise DatasetError(f"the joints of {folders[0]} are not in the order {', '.join(JOINT_NAMES)}; collect again")
    torch.manual_seed(config.seed)
    network = FourierControllerNetwork(config.shape)
    if init is None:
        normalisation = normalisation_from_data(
            data.statistics(), robot.stand_pose, config.action_scale, config.observation_clip
        )
    else:
        _check_init(init, config, robot)
        network.load_state_dict({name: torch.tensor(weight) for name, weight in init.weights.items()})
        normalisation = normalisation_of_model(init)
    crops = CropSampler(data, weights, config.crop, config.held_out_share, config.episode_start_share, seed=config.seed)
    return Imitation(config, data, weights, robot, Trainer(network, config, crops, normalisation), init)


def trained_policy(run: Imitation, command_line: str) -> PolicyModel:
    """The policy as it is now, with a card that tells how it came about."""
    normalisation: Normalisation = run.trainer.normalisation
    card = card_for_robot(
        run.robot,
        run.config.shape,
        window_policy=run.config.window_policy,
        control_rate=run.data.manifest.control_rate,
        observation_clip=normalisation.observation_clip,
        training=_summary(run, command_line),
    )
    weights = {name: weight.detach().numpy().copy() for name, weight in run.trainer.network.state_dict().items()}
    return PolicyModel(
        card=card,
        weights=weights,
        observation_mean=normalisation.observation_mean,
        observation_std=normalisation.observation_std,
        action_mean=normalisation.action_mean,
        action_scale=normalisation.action_scale,
    )


def _summary(run: Imitation, command_line: str) -> dict[str, Any]:
    trainer = run.trainer
    settings = {name: value for name, value in asdict(run.config).items() if name not in ("shape", "data")}
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
            raise TrainConfigError(
                f"data {entry!r}: after the colon expected a weight such as 2, not {weight!r}"
            ) from error
        folders.append(folder if colon else entry)
        if not 0 < weights[-1] < float("inf"):
            raise TrainConfigError(f"data {entry!r}: the weight must be above 0")
    return folders, weights


def _check_init(init: PolicyModel, config: TrainConfig, robot: Robot) -> None:
    check_robot(init, robot)
    if init.card.shape != config.shape:
        raise ModelFileError(
            f"the model to start from has the shape {init.card.shape}, the configuration asks for {config.shape};"
            " make them equal or leave out --init"
        )
    if init.card.window_policy != config.window_policy:
        raise ModelFileError(
            f"the model to start from runs with window policy {init.card.window_policy}, the configuration asks for"
            f" {config.window_policy}; make them equal or leave out --init"
        )


# How a run tells of itself: a bar for people on stderr, or JSON lines for machines on stdout.

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
