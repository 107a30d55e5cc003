"""Models for the tests of replays and datasets."""

from pathlib import Path

import pytest

from fcnet_core.model_file import PolicyModel, load_model


@pytest.fixture(scope="session")
def walker() -> PolicyModel:
    return load_model(Path(__file__).parents[3] / "models" / "aliengo.safetensors")
