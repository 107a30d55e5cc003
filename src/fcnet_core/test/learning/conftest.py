"""A tiny dataset with something to learn in it, and a tiny training run for it."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from training_processes import TINY

from fcnet_core.learning.config import TrainConfig
from fcnet_core.learning.dataset import DatasetWriter, velocity_manifest
from fcnet_core.robot import load_robot


def write_tiny_data(folder: Path, robot: str = "aliengo", shards: int = 2) -> Path:
    """Targets that depend on the present and the past observation; episodes begin at steps 0, 50 and 100 of 120."""
    writer = DatasetWriter(folder, velocity_manifest(load_robot(robot), 50.0, {"expert": "made up"}))
    mixing = np.random.default_rng(7).normal(size=(70, 12)) * 0.1
    first = np.zeros((6, 120), dtype=bool)
    first[:, ::50] = True
    for index in range(shards):
        observation = np.random.default_rng(index).normal(size=(6, 120, 70))
        observation[..., 4:] = 0.0
        past = np.roll(observation, 2, axis=1)
        past[:, :2] = 0.0
        action = load_robot(robot).stand_pose + (observation + past) @ mixing
        writer.write_shard(index, {"seed": index}, observation=observation, action=action, first=first)
    return folder


@pytest.fixture
def limit() -> Iterator[Callable[[int, int], None]]:
    """A function that sets a limit of this process, such as RLIMIT_FSIZE, until the end of the test."""
    before: dict[int, tuple[int, int]] = {}

    def set_limit(kind: int, value: int) -> None:
        before[kind] = resource.getrlimit(kind)
        resource.setrlimit(kind, (value, before[kind][1]))

    yield set_limit
    for kind, limits in before.items():
        resource.setrlimit(kind, limits)


@pytest.fixture
def tiny_data(tmp_path: Path) -> Path:
    """The folder of a tiny Aliengo dataset."""
    return write_tiny_data(tmp_path / "data")


@pytest.fixture(scope="module")
def shared_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for all tests of a file."""
    return write_tiny_data(tmp_path_factory.mktemp("shared") / "data")


@pytest.fixture
def tiny_config(tiny_data: Path) -> TrainConfig:
    """A run on it that takes a fraction of a second."""
    return TrainConfig(data=(str(tiny_data),), **TINY)
