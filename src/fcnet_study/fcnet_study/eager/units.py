"""Between an observation or action and the units of an eager network."""

from __future__ import annotations

import torch
from torch import Tensor

from fcnet_core.arrays import Single
from fcnet_core.model_file import PolicyModel


class Units:
    """The normalisation of one robot's policy that sees one vector, in tensors."""

    def __init__(self, model: PolicyModel) -> None:
        names = ("observation_mean", "observation_std", "action_mean", "action_scale")
        self._mean, self._std, self._action_mean, self._action_scale = (
            torch.from_numpy(model.scales[name]) for name in names
        )
        self._clip = float(model.card.observation_clip)

    def input(self, observation: Single) -> Tensor:
        """What the network sees of an observation (observation,)."""
        return (torch.from_numpy(observation) - self._mean).div_(self._std).clamp_(-self._clip, self._clip)

    def action(self, output: Tensor) -> Single:
        """The action of the network's output (action,)."""
        action: Single = torch.addcmul(self._action_mean, self._action_scale, output).numpy()
        return action
