"""The units in which a network sees observations and returns actions, defined once.

Input: clip((observation - mean) / std, -clip, clip). Action: action_mean + action_scale * output. Compiled runtimes
and ONNX graphs repeat the two formulas in their own language, on the arrays that stand here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fcnet_core.arrays import Floats, Observation, Single, Spec

if TYPE_CHECKING:
    from fcnet_core.learning.statistics import ArrayStatistics

STD_FLOOR = 1e-2  # added to a standard deviation, so that an entry which hardly moves is not blown up
COMMAND_STD_FLOOR = 0.05  # a command that the data hardly use would otherwise saturate when it is used


@dataclass(frozen=True)
class Normalisation:
    """scales: by name as in a model file, float32: NAME_mean and NAME_std of every normalised array NAME of the
    observation, action_mean and action_scale [rad, on a robot]. clip: in standard deviations.
    """

    scales: Mapping[str, Single]
    clip: float

    def inputs(self, observation: Observation) -> Any:
        """What the network sees of an observation: the array itself, or arrays by name."""
        if isinstance(observation, Mapping):
            return {name: self.input(array, name) for name, array in observation.items()}
        return self.input(observation)

    def input(self, observation: Floats, name: str = "observation") -> Floats:
        """What the network sees of the array `name` (..., shape); what has no scales, such as an image, as it is."""
        if f"{name}_mean" not in self.scales:
            return observation
        clip = np.float32(self.clip)
        with np.errstate(over="ignore"):  # what overflows is clipped
            scaled = (observation - self.scales[f"{name}_mean"]) / self.scales[f"{name}_std"]
        return np.clip(scaled, -clip, clip)

    def action(self, output: Floats) -> Floats:
        """Actions (..., action) of network outputs (..., action)."""
        action: Floats = self.scales["action_mean"] + self.scales["action_scale"] * output
        return action

    def output(self, action: Floats) -> Floats:
        """The network outputs (..., action) that give these actions."""
        output: Floats = (action - self.scales["action_mean"]) / self.scales["action_scale"]
        return output


class Units(NamedTuple):
    """The scales of a policy that sees one vector, as compiled code takes them."""

    observation_mean: Single
    observation_std: Single
    action_mean: Single
    action_scale: Single
    clip: np.float32


def scale_shapes(spec: Spec, action: int) -> dict[str, tuple[int, ...]]:
    """Shape of every array in Normalisation.scales, for observations of this spec."""
    shapes = {
        f"{name}_{entry}": array.shape
        for name, array in spec.items()
        if array.dtype == "float32"
        for entry in ("mean", "std")
    }
    return shapes | {"action_mean": (action,), "action_scale": (action,)}


def observation_scales(statistics: Mapping[str, ArrayStatistics], spec: Spec, arrays: Spec) -> dict[str, Single]:
    """NAME_mean and NAME_std of every normalised array of `spec`, by the statistics of a dataset of `arrays`."""
    scales: dict[str, Single] = {}
    for name, array in spec.items():
        if array.dtype != "float32":
            continue
        std = statistics[name].std + STD_FLOOR
        if command := arrays[name].slices().get("command"):
            std[command] = np.maximum(std[command], COMMAND_STD_FLOOR)
        scales |= {f"{name}_mean": statistics[name].mean.astype(np.float32), f"{name}_std": std.astype(np.float32)}
    return scales
