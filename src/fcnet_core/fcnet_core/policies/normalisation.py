"""The scaling of a network's inputs and outputs.

Input: clip((observation - mean) / std, -clip, clip). Action: action_mean + action_scale * output. Compiled runtimes
and ONNX graphs implement the same two formulas with the same arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fcnet_core.arrays import Floats, Single, Spec, part_name

if TYPE_CHECKING:
    from fcnet_core.learning.dataset import ArrayStatistics

STD_FLOOR = 1e-2  # added to a standard deviation, so that a nearly constant entry is not amplified
COMMAND_STD_FLOOR = 0.05  # minimum for commands: one that is rare in the data would saturate when it is used


@dataclass(frozen=True)
class Normalisation:
    """Scales by name, as in a model file, and the clip limit.

    scales (float32): NAME_mean and NAME_std of every normalised array NAME of the observation; action_mean and
    action_scale [rad on a robot]. clip: in standard deviations.
    """

    scales: Mapping[str, Single]
    clip: float

    def input(self, observation: Floats, name: str = "observation") -> Floats:
        """Normalise the array `name` (..., shape); return arrays without scales, such as images, unchanged."""
        if f"{name}_mean" not in self.scales:
            return observation
        clip = np.float32(self.clip)
        with np.errstate(over="ignore"):  # overflow is clipped
            scaled = observation - self.scales[f"{name}_mean"]
            scaled /= self.scales[f"{name}_std"]
        return np.clip(scaled, -clip, clip, out=scaled if scaled.ndim else None)

    def action(self, output: Floats) -> Floats:
        """Return the actions (..., action) of network outputs (..., action)."""
        action: Floats = self.scales["action_mean"] + self.scales["action_scale"] * output
        return action

    def output(self, action: Floats) -> Floats:
        """Return the network outputs (..., action) that give these actions."""
        output: Floats = (action - self.scales["action_mean"]) / self.scales["action_scale"]
        return output


class Units(NamedTuple):
    """The scales of a policy with one input vector, for compiled code."""

    observation_mean: Single
    observation_std: Single
    action_mean: Single
    action_scale: Single
    clip: np.float32


def scale_shapes(spec: Spec, action: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array in Normalisation.scales for observations of this spec."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, array in spec.items():
        if array.dtype == "float32":
            shapes |= {f"{name}_mean": array.shape, f"{name}_std": array.shape}
    return shapes | {"action_mean": (action,), "action_scale": (action,)}


def observation_scales(statistics: Mapping[str, ArrayStatistics], spec: Spec, arrays: Spec) -> dict[str, Single]:
    """Return NAME_mean and NAME_std of every normalised array of `spec`, from statistics of a dataset of `arrays`."""
    scales: dict[str, Single] = {}
    for name, array in spec.items():
        if array.dtype != "float32":
            continue
        std = statistics[name].std + STD_FLOOR
        for part, place in arrays[name].slices().items():
            if part_name(part) == "command":
                std[place] = np.maximum(std[place], COMMAND_STD_FLOOR)
        scales |= {f"{name}_mean": statistics[name].mean.astype(np.float32), f"{name}_std": std.astype(np.float32)}
    return scales
