"""What is on disk stays readable whatever happens while data are written, and damaged data are named."""

import json
import os
import resource
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fcnet_core.arrays import ArraySpec
from fcnet_core.errors import FcnetError
from fcnet_core.learning.dataset import Dataset, DatasetWriter, Manifest, velocity_manifest
from fcnet_core.robot import load_robot

RECIPE = velocity_manifest(load_robot("aliengo"), 50.0, {"expert": "trot"})


def arrays(seed: int, sequences: int = 3, steps: int = 20) -> dict[str, Any]:
    rng, lead = np.random.default_rng(seed), (sequences, steps)
    seen = {name: rng.normal(size=(*lead, size)).astype("f4") for name, size in (("observation", 70), ("action", 12))}
    return seen | {"first": np.broadcast_to(np.arange(steps) == 0, lead)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    writer = DatasetWriter(tmp_path / "data", RECIPE)
    for index in range(2):
        writer.write_shard(index, **arrays(index), job={"seed": index})
    return tmp_path / "data"


def test_what_was_written_is_read_memory_mapped(folder: Path) -> None:
    data = Dataset(folder)
    assert data.manifest.robot == "aliengo" and data.manifest.joint_names == load_robot("aliengo").joint_names
    assert data.manifest.description == {"expert": "trot"}
    assert data.steps == 2 * 3 * 20
    for index, shard in enumerate(data.shards):
        assert isinstance(shard.observation, np.memmap) and shard.job == {"seed": index}
        for name, array in arrays(index).items():
            np.testing.assert_array_equal(shard.arrays[name], array)


def test_statistics_are_those_of_all_steps_and_name_a_file_with_a_value_that_is_not_finite(folder: Path) -> None:
    rows = np.concatenate([arrays(index)["observation"].reshape(-1, 70) for index in range(2)]).astype(np.float64)
    found = Dataset(folder).statistics["observation"]
    np.testing.assert_allclose([found.mean, found.std], [rows.mean(0), rows.std(0)], atol=1e-9)
    np.testing.assert_array_equal([found.lowest, found.highest], [rows.min(0), rows.max(0)])
    path = folder / "shard-00001" / "observation.npy"
    array = np.load(path)
    array[1, 2, 3] = np.nan
    np.save(path, array)
    with pytest.raises(FcnetError, match=r"shard-00001/observation\.npy"):
        Dataset(folder).statistics  # noqa: B018


def test_there_may_be_more_shards_than_files_that_a_process_may_open(folder, limit) -> None:
    writer = DatasetWriter(folder, RECIPE)
    for index in range(2, 12):
        writer.write_shard(index, **arrays(index), job={})
    limit(resource.RLIMIT_NOFILE, len(list(Path("/proc/self/fd").iterdir())) + 10)
    data = Dataset(folder)
    assert len(data.shards) == 12 and data.statistics["action"].std.min() > 0


def test_a_shard_that_is_damaged_while_it_is_in_use_is_named(folder: Path) -> None:
    file, into = Dataset(folder).shards[1].files["action"], np.empty((5, 12), np.float32)
    file.read(2, 15, into)
    np.testing.assert_array_equal(into, arrays(1)["action"][2, 15:])
    file.path.write_bytes(file.path.read_bytes()[:-3])
    with pytest.raises(FcnetError, match=r"shard-00001/action\.npy"):
        file.read(2, 15, into)
    file.path.unlink()
    with pytest.raises(FcnetError, match=r"shard-00001/action\.npy"):
        file.read(2, 15, into)


def test_arrays_that_do_not_fit_a_finished_shard_and_another_recipe_are_refused_whole(folder: Path) -> None:
    writer, content = DatasetWriter(folder, RECIPE), arrays(2)
    with_nan = np.where(content["action"] == content["action"].max(), np.nan, content["action"])
    for index, action, named in (
        (2, content["action"][:, 1:], "does not fit"),
        (2, with_nan, "not finite"),
        (0, content["action"], "already exists"),
    ):
        with pytest.raises(FcnetError, match=named):
            writer.write_shard(index, **{**content, "action": action}, job={})
    with pytest.raises(FcnetError, match="another robot, expert"):
        DatasetWriter(folder, velocity_manifest(load_robot("a1"), 50.0, {"expert": "none"}))
    data = Dataset(folder)
    np.testing.assert_array_equal(data.shards[0].action, arrays(0)["action"])
    assert len(data.shards) == 2


def test_a_full_disk_leaves_earlier_shards_intact(folder: Path, limit: Callable[[int, int], None]) -> None:
    limit(resource.RLIMIT_FSIZE, 200_000)
    with pytest.raises(FcnetError, match="run the same command again"):
        DatasetWriter(folder, RECIPE).write_shard(2, **arrays(2, steps=1000), job={})
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "shard-00000", "shard-00001"]
    assert Dataset(folder).steps == 120


def test_a_writer_killed_in_the_middle_loses_only_its_own_shard_and_a_collection_resumes(folder, monkeypatch) -> None:
    if (child := os.fork()) == 0:
        monkeypatch.setattr(os, "fsync", lambda _file: os.kill(os.getpid(), signal.SIGKILL))
        DatasetWriter(folder, RECIPE).write_shard(2, **arrays(2), job={})
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert Dataset(folder).steps == 120
    writer = DatasetWriter(folder, RECIPE)
    assert [writer.has(index) for index in range(3)] == [True, True, False]
    writer.write_shard(2, **arrays(2), job={})
    assert len(Dataset(folder).shards) == 3 and not list(folder.glob(".*"))


def test_a_shard_that_two_writers_write_at_once_is_whole_and_nothing_else_is_left(folder: Path) -> None:
    def write(index: int) -> None:
        with suppress(FcnetError):  # the other was first
            DatasetWriter(folder, RECIPE).write_shard(index, **arrays(index), job={"seed": index})

    with ThreadPoolExecutor(2) as writers:
        list(writers.map(write, [index for index in range(2, 30) for _ in "ab"]))
    assert sorted(path.name for path in folder.glob("*shard-*")) == [f"shard-{index:05d}" for index in range(30)]
    for index, shard in enumerate(Dataset(folder).shards):
        np.testing.assert_array_equal(shard.arrays["action"], arrays(index)["action"])
        assert shard.job == {"seed": index}


def test_folders_that_are_no_data_or_do_not_belong_together_are_named(folder: Path, tmp_path: Path) -> None:
    DatasetWriter(tmp_path / "empty", RECIPE)
    DatasetWriter(tmp_path / "a1", velocity_manifest(load_robot("a1"), 50.0)).write_shard(0, **arrays(0), job={})
    for folders, named in (
        ([], "no data folder"),
        ([tmp_path / "nowhere"], r"nowhere is not a data folder.*fcnet collect"),
        ([tmp_path / "empty"], "no finished shard"),
        ([folder, tmp_path / "a1"], "their robot differs"),
    ):
        with pytest.raises(FcnetError, match=named):
            Dataset(folders)


FILES = ("observation.npy", "action.npy", "first.npy", "job.json")
SHARD = [(f"shard-00001/{name}", None, "shard-00001") for name in FILES]
CONTENTS = [("{", "manifest"), ('{"format_version": 99}', "99"), ("[]", "manifest")]


@pytest.mark.parametrize(("name", "content", "named"), [*SHARD, *(("manifest.json", *one) for one in CONTENTS)])
def test_a_truncated_file_and_a_manifest_that_cannot_be_used_are_named(folder, name, content, named) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[:-3] if content is None else content.encode())
    with pytest.raises(FcnetError, match=named):
        Dataset(folder)


def test_folders_of_format_1_are_a_quadrupeds(folder: Path) -> None:
    facts = json.loads((folder / "manifest.json").read_text())
    assert facts.pop("arrays")["observation"]["shape"] == [70]
    (folder / "manifest.json").write_text(json.dumps({**facts, "format_version": 1}))
    assert Dataset(folder).shards[0].observation.shape == (3, 20, 70)
    DatasetWriter(folder, RECIPE).write_shard(2, **arrays(2), job={})


def test_images_rewards_and_ends_are_arrays_of_a_step_like_any_other(tmp_path: Path) -> None:
    specs = {
        "image": ArraySpec((4, 8, 8), "uint8"),
        "reward": ArraySpec(()),
        "terminal": ArraySpec((), "bool"),
        "action": ArraySpec((2,)),
    }
    writer = DatasetWriter(tmp_path, Manifest("task", 50.0, joint_names=(), arrays=specs))
    content = {name: np.ones((2, 5, *spec.shape), spec.dtype) for name, spec in specs.items()}
    writer.write_shard(0, {}, **content, first=np.zeros((2, 5), bool))
    data = Dataset(tmp_path)
    assert data.manifest.arrays == specs and data.shards[0].arrays["image"].dtype == np.uint8
    assert set(data.statistics) == {"reward", "action"}
    with pytest.raises(FcnetError, match="image"):
        writer.write_shard(1, {}, **{**content, "image": content["image"][:, :, :3]}, first=np.zeros((2, 5), bool))
