"""Datasets in the layout of LeRobot hold every value, and steps, episodes and statistics as LeRobot counts them."""

import json
import sys

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fcnet_core.arrays import ArraySpec
from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.learning.dataset import FIRST, Dataset, DatasetWriter, Manifest, velocity_manifest
from fcnet_core.robot import load_robot
from fcnet_replay.datasets.lerobot import NAMES

TASK = {
    "observation": ArraySpec((5,), parts={"position": 3, "velocity": 2}),
    "action": ArraySpec((1,)),
    "reward": ArraySpec(()),
    "terminal": ArraySpec((), "bool"),
    "image": ArraySpec((2, 3), "uint8"),
}
DESCRIPTION = {"source": "collect", "seed": 2**70, "envelope": {"vx": [-0.5, 1.0]}, "rate": 0.1}


def drawn(spec, steps, rng):
    """Any bits that are a number: also -0, the smallest and the largest."""
    if spec.dtype != "float32":
        return rng.integers(0, 2 if spec.dtype == "bool" else 256, (*steps, *spec.shape)).astype(spec.dtype)
    values = rng.normal(size=(*steps, *spec.shape)).astype(np.float32)
    values.flat[:4] = -0.0, 1e-45, np.finfo(np.float32).max, 0.1
    return values


def write(folder, manifest, shards=(0, 3)):
    """A folder whose shards differ in their sequences, with one number left out as after an interrupted collection."""
    writer = DatasetWriter(folder, manifest)
    for index in shards:
        rng, steps = np.random.default_rng(index), (2 + index, 12 - index)
        arrays = {name: drawn(spec, steps, rng) for name, spec in {**manifest.arrays, "first": FIRST}.items()}
        arrays["first"][0, 0] = index == 0
        writer.write_shard(index, {"seed": [index, 2**65], "terrain": "flat"}, **arrays)
    return folder


MANIFESTS = {
    "quadruped": velocity_manifest(load_robot("aliengo"), 50.0, DESCRIPTION),
    "task": Manifest("hopper", 62.5, DESCRIPTION, (), TASK),
}


@pytest.fixture(params=MANIFESTS)
def exported(request, tmp_path):
    """A dataset, and the folder to which it was exported."""
    data = write(tmp_path / "data", MANIFESTS[request.param])
    assert main(["dataset", "export", str(data), "-o", str(tmp_path / "lerobot")]) == 0
    return Dataset(data), tmp_path / "lerobot"


def test_every_array_is_a_column_bit_by_bit(exported) -> None:
    data, folder = exported
    for shard, path in zip(data.shards, sorted(folder.glob("data/*/*.parquet")), strict=True):
        table = pq.read_table(path)
        for name, array in shard.arrays.items():
            column = table[NAMES.get(name, f"fcnet.{name}")].combine_chunks()
            while pa.types.is_fixed_size_list(column.type):
                column = column.flatten()
            stored = column.to_numpy(zero_copy_only=False)
            assert (stored.dtype, stored.tobytes()) == (array.dtype, array.tobytes()), name
    assert msgspec.json.decode((folder / "meta/fcnet.json").read_bytes(), type=Manifest) == data.manifest


def test_steps_and_episodes_are_counted_as_lerobot_does(exported) -> None:
    data, folder = exported
    info = json.loads((folder / "meta/info.json").read_text())
    files = [pq.read_table(path) for path in sorted(folder.glob("data/*/*.parquet"))]
    episodes = pq.read_table(folder / "meta/episodes/chunk-000/file-000.parquet")
    assert info["codebase_version"] == "v3.0" and info["fps"] == data.manifest.control_rate
    assert info["features"].keys() == set(files[0].column_names)
    assert (info["total_frames"], info["total_episodes"]) == (data.steps, episodes.num_rows)
    column = {name: np.concatenate([file[name].to_numpy() for file in files]) for name in ("index", "frame_index")}
    assert column["index"].tolist() == list(range(info["total_frames"]))
    done = np.concatenate([file["next.done"].to_numpy() for file in files])
    lengths = episodes["length"].to_numpy()
    assert (np.flatnonzero(done) + 1).tolist() == np.cumsum(lengths).tolist()
    assert column["frame_index"].tolist() == [frame for length in lengths for frame in range(length)]
    assert episodes["dataset_to_index"].to_pylist() == np.cumsum(lengths).tolist()
    begins = [(shard.first | (np.arange(shard.first.shape[1]) == 0)).sum() for shard in data.shards]
    assert np.bincount(episodes["data/file_index"].to_numpy()).tolist() == begins


def test_statistics_are_those_of_all_steps_and_of_each_episode(exported) -> None:
    data, folder = exported
    figures = json.loads((folder / "meta/stats.json").read_text())
    action = np.concatenate([shard.action.reshape(-1, shard.action.shape[-1]) for shard in data.shards]).astype(float)
    assert figures["action"]["count"] == [len(action)]
    for name, expected in (("mean", action.mean(0)), ("std", action.std(0)), ("max", action.max(0))):
        np.testing.assert_allclose(figures["action"][name], expected)
    assert figures["action"].keys() == figures["index"].keys() == {"min", "max", "mean", "std", "count"}
    episodes = pq.read_table(folder / "meta/episodes/chunk-000/file-000.parquet")
    length = episodes["length"][0].as_py()
    np.testing.assert_allclose(episodes["stats/action/mean"][0].as_py(), action[:length].mean(0))


def test_entries_have_names(exported) -> None:
    data, folder = exported
    features = json.loads((folder / "meta/info.json").read_text())["features"]
    for name, feature in (("observation", "observation.state"), ("action", "action")):
        assert tuple(features[feature]["shape"]) == data.manifest.arrays[name].shape
    expected = ["command.vx", "command.vy", "command.yaw_rate"] if data.manifest.joint_names else ["velocity.1"]
    assert features["observation.state"]["names"][-16 if len(expected) > 1 else -1 :][:3] == expected


def test_where_pyarrow_is_missing_it_says_how_to_install_it(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr("fcnet_replay.verbs.dataset.find_spec", lambda name: None)
    assert main(["dataset", "export", str(tmp_path), "-o", str(tmp_path / "new")]) == USAGE_ERROR
    assert "requirements/sharing.txt" in capsys.readouterr().err
