"""The units in which the network sees observations and speaks actions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.learning.dataset import Statistics
from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import LAYOUT

Array = npt.NDArray[np.float32]

STD_FLOOR = 1e-2  # added, so that an entry which hardly moves is not blown up
COMMAND_STD_FLOOR = 0.05  # a command that the data hardly use would otherwise saturate when it is used


@dataclass(frozen=True)
class Normalisation:
    """observation_mean, observation_std (70,); observation_clip [standard deviations]; action_mean, action_scale (12,)
    [rad]. All as in the model file.
    """

    observation_mean: Array
    observation_std: Array
    observation_clip: float
    action_mean: Array
    action_scale: Array

    def observation(self, raw: npt.NDArray[np.float32]) -> Array:
        """The network's input from observations (..., 70)."""
        return np.clip(
            (raw - self.observation_mean) / self.observation_std, -self.observation_clip, self.observation_clip
        )

    def action(self, target: npt.NDArray[np.float32]) -> Array:
        """The network's wanted output from position targets (..., 12) [rad]."""
        return (target - self.action_mean) / self.action_scale


def normalisation_from_data(
    statistics: Statistics, default_pose: npt.ArrayLike, action_scale: float, observation_clip: float
) -> Normalisation:
    """Observations by the data's mean and standard deviation, actions around the default pose (12,) [rad]."""
    std = statistics.observation_std + STD_FLOOR
    command = LAYOUT["command"]
    std[command] = np.maximum(std[command], COMMAND_STD_FLOOR)
    mean = np.asarray(default_pose, dtype=np.float32)
    return Normalisation(
        observation_mean=statistics.observation_mean.astype(np.float32),
        observation_std=std.astype(np.float32),
        observation_clip=observation_clip,
        action_mean=mean,
        action_scale=np.full_like(mean, action_scale),
    )


def normalisation_of_model(model: PolicyModel) -> Normalisation:
    """The normalisation that a policy already has."""
    return Normalisation(
        observation_mean=model.observation_mean,
        observation_std=model.observation_std,
        observation_clip=model.card.observation_clip,
        action_mean=model.action_mean,
        action_scale=model.action_scale,
    )
