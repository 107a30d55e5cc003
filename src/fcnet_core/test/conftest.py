"""The published network's reference vectors as models, for every test of the runtimes."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from golden import named, read_arrays
from policy_forms import model_of, with_units

from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.fcnet import FCNetConfig

DATA = Path(__file__).parent / "data"
SIZES = ("observation", "action", "layers", "modes", "hidden", "decoder_hidden", "window")  # as the vectors have them


@dataclass(frozen=True)
class Golden:
    """Reference vectors: `model` has the published weights and no normalisation."""

    model: PolicyModel
    observation: npt.NDArray[np.float32]  # (2, 200, observation)
    output: npt.NDArray[np.float32]  # (2, 200, action)


def read_golden(name: str) -> Golden:
    arrays = read_arrays(DATA / f"{name}.xz")
    config = FCNetConfig(**dict(zip(SIZES, arrays["cfg"].tolist(), strict=False)))
    return Golden(model_of(config, named(arrays, "w/"), export=False), arrays["rec/obs"], arrays["rec/out"])


@pytest.fixture(scope="session")
def small() -> Golden:
    return read_golden("small_a")


@pytest.fixture(scope="session")
def legged() -> Golden:
    return read_golden("legged_a")


@pytest.fixture(scope="session", params=["small_a", "legged_a"])
def golden(request: pytest.FixtureRequest) -> Golden:
    return read_golden(request.param)


@pytest.fixture(scope="session")
def walker(legged: Golden) -> PolicyModel:
    """A model in the legged configuration with a normalisation like that of real data."""
    return with_units(legged.model)
