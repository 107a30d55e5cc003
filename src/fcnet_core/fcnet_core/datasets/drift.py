"""How far a dataset is from what a policy was trained on, or from another dataset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fcnet_core.dataset import Dataset, DatasetError, Manifest
from fcnet_core.datasets.summary import NAMES, Summary, summarise
from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.observation import LAYOUT
from fcnet_core.robot import Robot
from fcnet_core.training.normalisation import COMMAND_STD_FLOOR, STD_FLOOR

Array = npt.NDArray[np.float64]
SHIFT = 0.5  # of the other's standard deviations; a mean farther away has drifted
WIDER, NARROWER = 2.0, 0.5  # times the other's standard deviation


@dataclass(frozen=True)
class Reference:
    """What is compared with: mean and std of the first entries of NAMES, in the units of training; clip: beyond how
    many standard deviations a policy sees nothing, None for data.
    """

    name: str
    mean: Array
    std: Array
    clip: float | None = None


@dataclass(frozen=True)
class Drift:
    """Of one entry: shift of its mean in the other's standard deviations, ratio of the standard deviations, and
    whether some of its values lie beyond what the policy can see.
    """

    name: str
    shift: float
    ratio: float
    clipped: bool


def reference(path: Path, manifest: Manifest, robot: Robot) -> Reference:
    """A policy's file or a data folder of the same robot and rate to compare data with.

    Raises DatasetError or ModelFileError when there is none, or when it is of another robot or rate.
    """
    if path.suffix == ".safetensors":
        model = load_model(path)
        _check_same(path, model.card.robot, model.card.control_rate, manifest)
        return _of_model(str(path), model)
    data = Dataset(path)
    _check_same(path, data.manifest.robot, data.manifest.control_rate, manifest)
    return _of_data(str(path), summarise(data, robot))


def _check_same(path: Path, robot: str, rate: float, manifest: Manifest) -> None:
    if (robot, rate) != (manifest.robot, manifest.control_rate):
        raise DatasetError(
            f"{path} is of {robot} at {rate:g} Hz, the data are of {manifest.robot} at {manifest.control_rate:g} Hz; "
            "compare with one of the same robot and rate"
        )


def _of_model(name: str, model: PolicyModel) -> Reference:
    """A policy's normalisation, which tells of observations alone."""
    mean, std = (array.astype(np.float64) for array in (model.observation_mean, model.observation_std))
    return Reference(name, mean, std, model.card.observation_clip)


def _of_data(name: str, summary: Summary) -> Reference:
    """Another dataset; as in training an entry that hardly moves is not blown up."""
    std = summary.spread.std + STD_FLOOR
    std[LAYOUT["command"]] = np.maximum(std[LAYOUT["command"]], COMMAND_STD_FLOOR)
    return Reference(name, summary.spread.mean, std)


def drifted(summary: Summary, reference: Reference) -> list[Drift]:
    """The entries that have drifted, the farthest first."""
    size = len(reference.mean)
    spread = summary.spread
    shift = (spread.mean[:size] - reference.mean) / reference.std
    floor = np.full(size, STD_FLOOR)
    floor[LAYOUT["command"]] = 0.0
    ratio = (spread.std[:size] + floor) / reference.std
    far = np.maximum(spread.highest[:size] - reference.mean, reference.mean - spread.lowest[:size]) / reference.std
    clipped = far > (reference.clip or np.inf)
    moved = (np.abs(shift) > SHIFT) | (ratio > WIDER) | ((ratio < NARROWER) & _uses(reference))
    order = np.argsort(-np.abs(shift))
    return [
        Drift(NAMES[entry], float(shift[entry]), float(ratio[entry]), bool(clipped[entry]))
        for entry in order
        if moved[entry] or clipped[entry]
    ]


def _uses(reference: Reference) -> npt.NDArray[np.bool_]:
    """Entries that the other really uses: those at their floor cannot be narrower."""
    floor = np.full(len(reference.std), STD_FLOOR)
    floor[LAYOUT["command"]] = COMMAND_STD_FLOOR
    uses: npt.NDArray[np.bool_] = reference.std > 1.01 * floor
    return uses
