"""What is on disk stays readable whatever happens while data are written, and damaged data are named. Crops are drawn
as promised and read without loading all; the energy of signals lies in the modes of their frequencies.
"""

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
from fcnet_core.learning.sampler import CropSampler
from fcnet_core.learning.spectrum import energy_over_modes, window_starts
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


# Crops


def numbered_data(folder: Path, sequences: int = 10, steps: int = 60, episode: int = 20, origin: int = 0) -> Path:
    """Every observation holds (sequence, step, is first), so that a crop shows where it comes from."""
    first = np.zeros((sequences, steps), dtype=bool)
    first[:, ::episode] = True
    observation = np.zeros((sequences, steps, 70))
    observation[..., 0] = origin + np.arange(sequences)[:, None]
    observation[..., 1] = np.arange(steps)
    observation[..., 2] = first
    writer = DatasetWriter(folder, velocity_manifest(load_robot("aliengo"), 50.0))
    writer.write_shard(0, {}, observation=observation, action=np.zeros((sequences, steps, 12)), first=first)
    return folder


def sampler(data: Dataset, **settings: object) -> CropSampler:
    defaults = {"weights": [1.0] * len(data.folders), "length": 15, "held_out_share": 0.2, "episode_start_share": 0.0}
    return CropSampler(data, ("observation", "action"), **{**defaults, "seed": 0, **settings})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return Dataset(numbered_data(tmp_path_factory.mktemp("data")))


def test_steps_after_an_episode_reset_inside_a_crop_do_not_count(data: Dataset) -> None:
    batch = sampler(data).draw(np.random.default_rng(0), 200)
    step, first = batch.arrays["observation"][..., 1], batch.arrays["observation"][..., 2] == 1
    assert (np.diff(step, axis=1) == 1).all()
    for row in range(200):
        resets = [index for index in np.flatnonzero(first[row]) if index > 0]
        end = resets[0] if resets else 15
        np.testing.assert_array_equal(batch.valid[row], np.arange(15) < end)
    assert 0 < batch.valid.mean() < 1


def held_out_numbers(crops: CropSampler) -> set[float]:
    return {number for batch in crops.held_out(300, 10, seed=0) for number in batch.arrays["observation"][:, 0, 0]}


def test_every_step_is_reached_but_held_out_sequences_are_never_trained_on(data: Dataset) -> None:
    crops = sampler(data)
    seen = crops.draw(np.random.default_rng(0), 3000).arrays["observation"]
    trained, held_out = set(seen[:, 0, 0]), held_out_numbers(crops)
    assert len(trained) == 8 and len(held_out) == 2 and not trained & held_out
    assert (crops.training_steps, crops.held_out_steps) == (480, 120)
    assert set(seen[..., 1].ravel()) == set(range(60))
    once, again = ([b.arrays["observation"] for b in crops.held_out(20, 10, seed=3)] for _ in range(2))
    np.testing.assert_array_equal(once, again)  # validation sees the same crops every time


def test_without_held_out_or_long_sequences_there_is_nothing_to_validate_or_train_on(data: Dataset) -> None:
    assert list(sampler(data, held_out_share=0.0).held_out(10, 5, seed=0)) == []
    with pytest.raises(FcnetError, match="61"):
        sampler(data, length=61)


def test_further_folders_leave_held_out_what_was_held_out(tmp_path: Path) -> None:
    first, second = numbered_data(tmp_path / "a"), numbered_data(tmp_path / "b", sequences=15, origin=100)
    alone, together = (held_out_numbers(sampler(Dataset(folders))) for folders in ([first], [first, second]))
    assert {number for number in together if number < 100} == alone and len(alone) == 2 and len(together) == 5


def test_of_folders_with_one_sequence_each_a_share_is_held_out(tmp_path: Path) -> None:
    folders = [numbered_data(tmp_path / str(number), sequences=1, origin=number) for number in range(10)]
    crops = sampler(Dataset(folders))
    assert len(held_out_numbers(crops)) == 2 and crops.training_steps == 480


def test_the_wanted_share_of_crops_begins_where_an_episode_begins(tmp_path: Path) -> None:
    crops = sampler(Dataset(numbered_data(tmp_path, steps=200, episode=200)), episode_start_share=0.3)
    starts = crops.draw(np.random.default_rng(0), 4000).arrays["observation"][:, 0, 2]
    assert 0.28 < starts.mean() < 0.33


def test_a_folder_of_weight_three_is_drawn_three_times_as_often(tmp_path: Path) -> None:
    data = Dataset([numbered_data(tmp_path / "a"), numbered_data(tmp_path / "b", origin=100)])
    batch = sampler(data, weights=[1.0, 3.0], held_out_share=0.0).draw(np.random.default_rng(0), 4000)
    assert 0.72 < (batch.arrays["observation"][:, 0, 0] >= 100).mean() < 0.78


# The spectrum of recorded signals

PARTS = ArraySpec((3,), "float32", {"sine": 1, "noise": 1, "constant": 1})


@pytest.fixture
def signals(tmp_path: Path) -> Dataset:
    """Two sequences: a sine of three periods in 16 steps, noise, and a constant."""
    steps, rng = np.arange(64), np.random.default_rng(0)
    seen = np.zeros((2, 64, 3), dtype=np.float32)
    seen[..., 0] = 5 + np.sin(2 * np.pi * 3 * steps / 16)
    seen[..., 1] = 1e-3 * rng.standard_normal((2, 64))
    seen[..., 2] = 7
    manifest = Manifest("task", 50.0, {}, (), {"seen": PARTS, "action": ArraySpec((1,), "float32")})
    first = np.zeros((2, 64), dtype=bool)
    DatasetWriter(tmp_path / "data", manifest).add({}, seen=seen, action=seen[..., :1], first=first)
    return Dataset(tmp_path / "data")


def test_a_sine_has_its_energy_in_its_own_mode_and_a_constant_is_left_out(signals) -> None:
    energy = energy_over_modes(signals, 16)
    assert set(energy) == {"sine", "noise", "action"}
    for group in ("sine", "action"):
        density = energy[group].sum(0) / energy[group].sum()
        np.testing.assert_allclose(density, np.eye(9)[3], atol=1e-6)


@pytest.mark.parametrize("window", [15, 16])
def test_all_modes_together_have_the_energy_of_the_window(signals, window) -> None:
    energy = energy_over_modes(signals, window)["noise"]
    noise = signals.shards[0].arrays["seen"][..., 1].astype(np.float64)
    seen = ((noise - noise.mean()) / noise.std())[:, : 64 // window * window].reshape(-1, window)
    np.testing.assert_allclose(energy.sum(1) / window, np.square(seen).sum(1), rtol=1e-6)


def test_windows_lie_within_episodes() -> None:
    first = np.zeros((2, 10), dtype=bool)
    first[0, 3] = first[1, 0] = True
    assert list(window_starts(first, 3)) == [(0, 0), (0, 3), (0, 6), (1, 0), (1, 3), (1, 6)]
    assert list(window_starts(first, 8)) == [(1, 0)]


def test_an_episode_shorter_than_a_window_is_an_error(signals) -> None:
    with pytest.raises(FcnetError, match="65"):
        energy_over_modes(signals, 65)
