"""A new data folder that appears under its name only when all of it is there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt

from fcnet_core.dataset import DatasetError, DatasetWriter
from fcnet_core.robot import JOINT_NAMES


class NewDataset:
    """Takes shards one after the other, and what they are when the last is written; `new_dataset` makes one."""

    def __init__(
        self, folder: Path, robot: str, control_rate: float, joint_names: tuple[str, ...] = JOINT_NAMES
    ) -> None:
        self.folder = folder
        self.robot = robot
        self.shards = self.steps = 0
        self._facts = {"robot": robot, "control_rate": control_rate, "joint_names": list(joint_names)}
        self._writer = DatasetWriter(folder, self._facts)

    def add(
        self, observation: npt.ArrayLike, action: npt.ArrayLike, first: npt.NDArray[Any], job: dict[str, Any]
    ) -> None:
        """Write the next shard; raises DatasetError as DatasetWriter.write_shard does."""
        self._writer.write_shard(self.shards, observation, action, first, job)
        self.shards += 1
        self.steps += int(first.size)

    def describe(self, description: dict[str, Any]) -> None:
        """Write the manifest with how it came about and how much there is, which validation compares."""
        (self.folder / "manifest.json").unlink()
        DatasetWriter(self.folder, {**self._facts, **description, "shards": self.shards, "steps": self.steps})


def refuse_existing(folder: Path) -> None:
    """Raise DatasetError when there is something at `folder`: nothing is ever overwritten."""
    if folder.exists() or folder.is_symlink():
        raise DatasetError(f"{folder} exists already; name another folder with -o, or delete that one")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes the name `folder` at the end, or vanishes when something went wrong."""
    refuse_existing(folder)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        yield partial
        refuse_existing(folder)
        partial.rename(folder)
    except OSError as error:
        raise DatasetError(
            f"{folder} could not be written ({error.strerror or error}); nothing is left of it"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
