"""What stands around the network: observations are scaled and clipped, outputs become joint targets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.model_file import PolicyModel

Array = npt.NDArray[np.floating]


def network_input(model: PolicyModel, observation: Array) -> Array:
    """Observations (..., observation) in standard deviations from their mean, clipped as the card says."""
    clip = np.float32(model.card.observation_clip)
    with np.errstate(over="ignore"):  # what overflows is clipped
        scaled = (observation - model.observation_mean) / model.observation_std
    return np.clip(scaled, -clip, clip)


def joint_targets(model: PolicyModel, output: Array) -> Array:
    """Joint position targets (..., action) [rad] of network outputs (..., action)."""
    return model.action_mean + model.action_scale * output
