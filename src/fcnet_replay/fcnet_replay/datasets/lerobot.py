"""Exports datasets as LeRobotDataset v3.0, with one shard in memory at a time.

    FOLDER/meta/info.json                               type, shape and entries of every feature; rate; counts
    FOLDER/meta/stats.json                              mean, std, min, max and count of every feature
    FOLDER/meta/tasks.parquet                           the task, one for all episodes
    FOLDER/meta/episodes/chunk-000/file-000.parquet     an episode a row: where it is, and its statistics
    FOLDER/data/chunk-000/file-000.parquet              a step a row, a shard a file
    FOLDER/meta/fcnet.json                              the manifest, with the source of the data

`observation` is LeRobot's observation.state, `action` its action, `reward` its next.reward; every other array, and
`first`, is a feature fcnet.NAME. LeRobot's own columns follow from them. Pages of the data carry checksums.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from fcnet_core.arrays import Array, ArraySpec, Rows
from fcnet_core.files import new_folder, write_whole
from fcnet_core.learning.dataset import FIRST, Dataset, Manifest, Shard
from fcnet_replay.datasets.entries import entry_names, interface_of

VERSION = "v3.0"
CHUNK = 1000  # files of a folder
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
NAMES = {"observation": "observation.state", "action": "action", "reward": "next.reward"}  # others: fcnet.NAME
# Columns that LeRobot asks for and that follow from the others.
DERIVED = {
    "next.done": "bool",  # the last step of an episode
    "timestamp": "float32",  # [s] since the episode began
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
Columns = Mapping[str, npt.NDArray[Any]]  # feature -> (N, ...)


def export_dataset(source: Path, folder: Path) -> tuple[int, int]:
    """Write the dataset `source` as the new LeRobot folder `folder`; return the numbers of steps and episodes."""
    data = Dataset(source)
    rows: dict[str, list[Any]] = {}
    with new_folder(folder) as partial:
        steps = episodes = 0
        for number, shard in enumerate(data.shards):
            columns, begins = _columns(shard, data.manifest, steps, episodes)
            place = {"chunk_index": number // CHUNK, "file_index": number % CHUNK}
            _write_parquet(partial / DATA.format(**place), {name: _arrow(array) for name, array in columns.items()})
            ends = np.append(begins[1:], shard.steps)
            for name, values in _episode_rows(columns, begins, ends, place, _task(data.manifest)).items():
                rows.setdefault(name, []).extend(values)
            steps, episodes = steps + shard.steps, episodes + len(begins)
        _write_parquet(partial / EPISODES, {name: pa.array(values) for name, values in rows.items()})
        _write_tasks(partial / "meta/tasks.parquet", _task(data.manifest))
        _write_json(partial / "meta/stats.json", {name: _joined(rows, name) for name in _features(data.manifest)})
        _write_json(partial / "meta/info.json", _info(data.manifest, steps, episodes))
        _write_json(partial / "meta/fcnet.json", msgspec.to_builtins(data.manifest))
    return steps, episodes


def _stored(manifest: Manifest) -> dict[str, ArraySpec]:
    """Return the arrays that are stored unchanged, `first` included."""
    return {**manifest.arrays, "first": FIRST}


def _feature(name: str) -> str:
    return NAMES.get(name, f"fcnet.{name}")


def _task(manifest: Manifest) -> str:
    """Return the task in natural language, as LeRobot requires."""
    return "follow the commands" if manifest.joint_names else manifest.robot


def _columns(shard: Shard, manifest: Manifest, steps: int, episodes: int) -> tuple[dict[str, npt.NDArray[Any]], Rows]:
    """Return the columns (N, ...) of a shard and the rows that start its episodes; every sequence starts one.

    steps, episodes: numbers of those in the shards before.
    """
    arrays = shard.arrays
    begin = arrays["first"].copy()
    begin[:, 0] = True
    begins = np.flatnonzero(begin)
    episode = np.cumsum(begin) - 1
    row = np.arange(shard.steps)
    frame = row - begins[episode]
    derived = {
        "next.done": np.append(begin.ravel()[1:], True),
        "timestamp": frame / manifest.control_rate,
        "frame_index": frame,
        "episode_index": episodes + episode,
        "index": steps + row,
        "task_index": np.zeros_like(row),
    }
    columns = {_feature(n): arrays[n].reshape(shard.steps, *spec.shape) for n, spec in _stored(manifest).items()}
    return columns | {name: derived[name].astype(kind) for name, kind in DERIVED.items()}, begins


def _episode_rows(
    columns: Columns, begins: Rows, ends: Rows, place: Mapping[str, int], task: str
) -> dict[str, list[Any]]:
    """Return the columns of EPISODES for the episodes of one file."""
    count = len(begins)
    episodes, index = columns["episode_index"], columns["index"]
    rows: dict[str, list[Any]] = {
        "episode_index": episodes[begins].tolist(),
        "tasks": [[task]] * count,
        "length": (ends - begins).tolist(),
        "dataset_from_index": index[begins].tolist(),
        "dataset_to_index": (index[ends - 1] + 1).tolist(),
        **{f"data/{name}": [value] * count for name, value in place.items()},
        "meta/episodes/chunk_index": [0] * count,
        "meta/episodes/file_index": [0] * count,
    }
    for name, column in columns.items():
        for begin, end in zip(begins, ends, strict=True):
            for figure, value in _statistics(column[begin:end]).items():
                rows.setdefault(f"stats/{name}/{figure}", []).append(value)
    return rows


def _statistics(values: npt.NDArray[Any]) -> dict[str, list[Any]]:
    """Return figures over the rows of (N, ...), in the shape of a row; (1,) for numbers (N,)."""
    entries = (values if values.ndim > 1 else values[:, None]).astype(np.float64)
    figures = {"min": entries.min(0), "max": entries.max(0), "mean": entries.mean(0), "std": entries.std(0)}
    return {**{name: figure.tolist() for name, figure in figures.items()}, "count": [len(values)]}


def _joined(rows: Mapping[str, list[Any]], feature: str) -> dict[str, Any]:
    """Return the statistics of a feature over all episodes."""
    low, high, mean, std, count = (
        np.array(rows[f"stats/{feature}/{figure}"]) for figure in ("min", "max", "mean", "std", "count")
    )
    share = (count / count.sum()).reshape(-1, *(1,) * (mean.ndim - 1))
    centre: Array = (share * mean).sum(0)
    spread = np.sqrt((share * (std**2 + (mean - centre) ** 2)).sum(0))
    figures = {"min": low.min(0), "max": high.max(0), "mean": centre, "std": spread}
    return {**{name: figure.tolist() for name, figure in figures.items()}, "count": [int(count.sum())]}


def _features(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Return the features of info.json; a number a step has the shape (1,) there."""
    interface = interface_of(manifest)
    named = [name for name, spec in manifest.arrays.items() if len(spec.shape) == 1]
    found = {
        _feature(name): {
            "dtype": spec.dtype,
            "shape": list(spec.shape) or [1],
            "names": list(entry_names(manifest, name, interface)) if name in named else None,
        }
        for name, spec in _stored(manifest).items()
    }
    return found | {name: {"dtype": dtype, "shape": [1], "names": None} for name, dtype in DERIVED.items()}


def _info(manifest: Manifest, steps: int, episodes: int) -> dict[str, Any]:
    rate = manifest.control_rate
    return {
        "codebase_version": VERSION,
        "robot_type": manifest.robot,
        "total_episodes": episodes,
        "total_frames": steps,
        "total_tasks": 1,
        "chunks_size": CHUNK,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": int(rate) if rate == int(rate) else rate,
        "splits": {"train": f"0:{episodes}"},
        "data_path": DATA,
        "video_path": None,
        "features": _features(manifest),
    }


def _arrow_type(dtype: npt.DTypeLike, shape: tuple[int, ...]) -> pa.DataType:
    """Return the type of a column: lists of fixed size for rows of this shape, or numbers for the shape (1,)."""
    kind = pa.from_numpy_dtype(np.dtype(dtype))
    for size in () if shape == (1,) else reversed(shape):
        kind = pa.list_(kind, size)
    return kind


def _arrow(rows: npt.NDArray[Any]) -> pa.Array:
    """Return rows (N, ...) as a column of `_arrow_type`."""
    column = pa.array(np.ascontiguousarray(rows).ravel())
    for size in () if rows.shape[1:] == (1,) else reversed(rows.shape[1:]):
        column = pa.FixedSizeListArray.from_arrays(column, size)
    return column


def _write_parquet(path: Path, columns: Mapping[str, pa.Array]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(columns)), path, write_page_checksum=True)


def _write_tasks(path: Path, task: str) -> None:
    """Write the task as the index of a pandas table, as LeRobot reads it, by way of the file's metadata."""
    index = {"name": None, "field_name": "__index_level_0__", "pandas_type": "unicode", "numpy_type": "object"}
    number = {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64"}
    columns = [{**entry, "metadata": None} for entry in (number, index)]
    pandas = {"index_columns": ["__index_level_0__"], "column_indexes": [], "columns": columns}
    table = pa.table({"task_index": [0], "__index_level_0__": [task]})
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path)


def _write_json(path: Path, content: Any) -> None:
    write_whole(path, (json.dumps(content, indent=1) + "\n").encode())
