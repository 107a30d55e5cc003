"""A tiny dataset with something to learn in it, and a tiny training run for it."""

import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from training_processes import TINY, write_tiny_data

from fcnet_core.learning.config import TrainConfig


@pytest.fixture
def limit() -> Iterator[Callable[[int, int], None]]:
    """A function that sets a limit of this process, such as RLIMIT_FSIZE, until the end of the test."""
    with ExitStack() as stack:

        def set_limit(kind: int, value: int) -> None:
            before = resource.getrlimit(kind)
            stack.callback(resource.setrlimit, kind, before)
            resource.setrlimit(kind, (value, before[1]))

        yield set_limit


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
