"""Datasets in the layout of LeRobot: nothing is lost on the way there and back, and what is not whole is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from fcnet_core.arrays import ArraySpec
from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.learning.dataset import FIRST, Dataset, DatasetWriter, Manifest, read_manifest
from fcnet_core.observation import ARRAYS

TASK = {
    "observation": ArraySpec((5,), parts={"position": 3, "velocity": 2}),
    "action": ArraySpec((1,)),
    "reward": ArraySpec(()),
    "terminal": ArraySpec((), "bool"),
    "image": ArraySpec((2, 3), "uint8"),
}
DESCRIPTION = {"source": "collect", "seed": 2**70, "envelope": {"vx": [-0.5, 1.0]}, "rate": 0.1}


def drawn(spec: ArraySpec, steps: tuple[int, int], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Any bits that are a number: also -0, the smallest and the largest."""
    if spec.dtype != "float32":
        return rng.integers(0, 2 if spec.dtype == "bool" else 256, (*steps, *spec.shape)).astype(spec.dtype)
    values = rng.normal(size=(*steps, *spec.shape)).astype(np.float32)
    values.flat[:4] = -0.0, 1e-45, np.finfo(np.float32).max, 0.1
    return values


def write(folder: Path, manifest: Manifest, shards: tuple[int, ...] = (0, 3)) -> Path:
    """A folder whose shards differ in their sequences, with one number left out as after an interrupted collection."""
    writer = DatasetWriter(folder, manifest)
    for index in shards:
        rng, steps = np.random.default_rng(index), (2 + index, 12 - index)
        arrays = {name: drawn(spec, steps, rng) for name, spec in {**manifest.arrays, "first": FIRST}.items()}
        arrays["first"][0, 0] = index == 0
        writer.write_shard(index, {"seed": [index, 2**65], "terrain": "flat"}, **arrays)
    return folder


MANIFESTS = {
    "quadruped": Manifest("aliengo", 50.0, DESCRIPTION),
    "task": Manifest("hopper", 62.5, DESCRIPTION, (), TASK),
}


@pytest.fixture(params=MANIFESTS)
def data(request, tmp_path) -> Path:
    return write(tmp_path / "data", MANIFESTS[request.param])


@pytest.fixture
def exported(tmp_path) -> Path:
    data = write(tmp_path / "data", MANIFESTS["task"])
    assert main(["dataset", "export", str(data), "-o", str(tmp_path / "lerobot")]) == 0
    return tmp_path / "lerobot"


def test_a_round_trip_loses_nothing(data, tmp_path) -> None:
    there, back = tmp_path / "lerobot", tmp_path / "back"
    assert main(["dataset", "export", str(data), "-o", str(there)]) == 0
    assert main(["dataset", "import", str(there), "-o", str(back)]) == 0
    assert read_manifest(back) == read_manifest(data)
    before, after = Dataset(data).shards, Dataset(back).shards
    assert [shard.path.name for shard in after] == [shard.path.name for shard in before]
    for one, other in zip(before, after, strict=True):
        assert other.job == one.job
        for name, array in one.arrays.items():
            assert (other.arrays[name].shape, other.arrays[name].dtype) == (array.shape, array.dtype)
            assert other.arrays[name].tobytes() == array.tobytes(), name


def test_steps_and_episodes_are_counted_as_lerobot_does(data, tmp_path) -> None:
    folder = tmp_path / "lerobot"
    assert main(["dataset", "export", str(data), "-o", str(folder)]) == 0
    info = json.loads((folder / "meta/info.json").read_text())
    files = [pq.read_table(path) for path in sorted(folder.glob("data/*/*.parquet"))]
    episodes = pq.read_table(folder / "meta/episodes/chunk-000/file-000.parquet")
    assert info["codebase_version"] == "v3.0" and info["fps"] == Dataset(data).manifest.control_rate
    assert info["features"].keys() == set(files[0].column_names)
    assert (info["total_frames"], info["total_episodes"]) == (Dataset(data).steps, episodes.num_rows)
    column = {name: np.concatenate([file[name].to_numpy() for file in files]) for name in ("index", "frame_index")}
    assert column["index"].tolist() == list(range(info["total_frames"]))
    done = np.concatenate([file["next.done"].to_numpy() for file in files])
    lengths = episodes["length"].to_numpy()
    assert (np.flatnonzero(done) + 1).tolist() == np.cumsum(lengths).tolist()
    assert column["frame_index"].tolist() == [frame for length in lengths for frame in range(length)]
    assert episodes["dataset_to_index"].to_pylist() == np.cumsum(lengths).tolist()
    begins = [(shard.first | (np.arange(shard.sequences[1]) == 0)).sum() for shard in Dataset(data).shards]
    assert np.bincount(episodes["data/file_index"].to_numpy()).tolist() == begins


def test_statistics_are_those_of_all_steps_and_of_each_episode(exported) -> None:
    figures = json.loads((exported / "meta/stats.json").read_text())
    shards = Dataset(exported.parent / "data").shards
    image = np.concatenate([shard.arrays["image"].reshape(-1, 2, 3) for shard in shards])
    assert figures["fcnet.image"]["count"] == [len(image)]
    np.testing.assert_allclose(figures["fcnet.image"]["mean"], image.mean(0))
    np.testing.assert_allclose(figures["fcnet.image"]["std"], image.std(0))
    assert figures["fcnet.image"]["max"] == image.max(0).tolist()
    assert figures["action"].keys() == figures["index"].keys() == {"min", "max", "mean", "std", "count"}
    episodes = pq.read_table(exported / "meta/episodes/chunk-000/file-000.parquet")
    length = episodes["length"][0].as_py()
    np.testing.assert_allclose(episodes["stats/fcnet.image/mean"][0].as_py(), image[:length].mean(0))


def test_entries_have_names(tmp_path) -> None:
    data = write(tmp_path / "data", Manifest("a1", 50.0))
    assert main(["dataset", "export", str(data), "-o", str(tmp_path / "lerobot")]) == 0
    features = json.loads((tmp_path / "lerobot/meta/info.json").read_text())["features"]
    assert features["observation.state"]["names"][54:57] == ["command.vx", "command.vy", "command.yaw_rate"]
    assert features["action"]["shape"] == [12] and len(features["action"]["names"]) == 12
    assert ARRAYS["observation"].shape == tuple(features["observation.state"]["shape"])


def edit(path: Path, **facts: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


def flip(path: Path) -> None:
    """One bit of the values, not of the headers around them."""
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 1
    path.write_bytes(content)


def without(path: Path, column: str) -> None:
    pq.write_table(pq.read_table(path).drop_columns([column]), path)


def moved(folder: Path, name: str) -> dict[str, Any]:
    """The manifest of an exported dataset, its action under another name."""
    manifest: dict[str, Any] = json.loads((folder / "meta/fcnet.json").read_text())["manifest"]
    arrays = {name if old == "action" else old: spec for old, spec in manifest["arrays"].items()}
    return {**manifest, "arrays": arrays}


FILE = "data/chunk-000/file-001.parquet"
DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "not there": (lambda d: d.rename(d.with_name("away")), "no folder of LeRobot"),
    "of others": (lambda d: (d / "meta/fcnet.json").unlink(), "was not written by `fcnet dataset export`"),
    "facts": (lambda d: (d / "meta/fcnet.json").write_text("{"), "is damaged"),
    "field": (lambda d: edit(d / "meta/fcnet.json", shards=[{"number": 0}]), "is damaged"),
    "elsewhere": (
        lambda d: edit(d / "meta/fcnet.json", manifest=moved(d, "../../../elsewhere")),
        "is damaged",
    ),
    "nested": (lambda d: (d / "meta/fcnet.json").write_text("[" * 10**6), "is damaged"),
    "later": (lambda d: edit(d / "meta/fcnet.json", format_version=2), "has version 2"),
    "layout": (lambda d: edit(d / "meta/info.json", codebase_version="v2.1"), "v2.1, expected v3.0"),
    "no object": (lambda d: (d / "meta/info.json").write_text("[]"), "is damaged"),
    "steps": (lambda d: edit(d / "meta/info.json", total_frames=7), "has 7 steps"),
    "missing": (lambda d: (d / FILE).unlink(), "file-001.parquet is missing or damaged"),
    "truncated": (
        lambda d: (d / FILE).write_bytes((d / FILE).read_bytes()[:-9]),
        "file-001.parquet is missing or damaged",
    ),
    "bit": (lambda d: flip(d / FILE), "file-001.parquet is missing or damaged"),
    "no table": (lambda d: (d / FILE).write_bytes(b"x" * 999), "file-001.parquet is missing or damaged"),
    "column": (lambda d: without(d / FILE, "fcnet.image"), "fcnet.image must be 45 rows"),
    "rows": (lambda d: pq.write_table(pq.read_table(d / FILE)[:-1], d / FILE), "must be 45 rows"),
}


@pytest.mark.parametrize("way", DAMAGES)
def test_what_is_damaged_or_of_others_is_refused_in_a_sentence(way, exported, tmp_path, capsys) -> None:
    damage, sentence = DAMAGES[way]
    damage(exported)
    assert main(["dataset", "import", str(exported), "-o", str(tmp_path / "back")]) == USAGE_ERROR
    told = capsys.readouterr().err
    assert sentence in told and len(told.splitlines()) == 1
    assert not [path for path in tmp_path.iterdir() if "back" in path.name]


def test_nothing_is_overwritten_and_nothing_half_done_is_left(exported, tmp_path, capsys) -> None:
    assert main(["dataset", "export", str(tmp_path / "data"), "-o", str(exported)]) == USAGE_ERROR
    assert "exists already" in capsys.readouterr().err
    (tmp_path / "data/shard-00003/action.npy").unlink()
    assert main(["dataset", "export", str(tmp_path / "data"), "-o", str(tmp_path / "other")]) == USAGE_ERROR
    assert not [path for path in tmp_path.iterdir() if "other" in path.name]


def test_where_pyarrow_is_missing_it_says_how_to_install_it(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr("fcnet_replay.verbs.dataset.find_spec", lambda name: None)
    assert main(["dataset", "export", str(tmp_path), "-o", str(tmp_path / "new")]) == USAGE_ERROR
    assert "requirements/sharing.txt" in capsys.readouterr().err
