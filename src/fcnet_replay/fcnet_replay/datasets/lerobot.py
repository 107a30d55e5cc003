"""Exports datasets as LeRobotDataset v3.0, with one shard in memory at a time.

`observation` is LeRobot's observation.state, `action` its action, `reward` its next.reward; every other array, and
`first`, is a feature fcnet.NAME. LeRobot's own columns follow from them. Pages of the data carry checksums.
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from fcnet_core.arrays import Rows
from fcnet_core.errors import FcnetError
from fcnet_core.files import new_folder, write_whole
from fcnet_core.learning.dataset import FIRST, Dataset, Manifest, Shard
from fcnet_replay.datasets.summary import entry_names, episode_starts, interface_of

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
    manifest, steps, episodes, rows = data.manifest, 0, 0, dict[str, list[Any]]()
    task = "follow the commands" if manifest.joint_names else manifest.robot  # in natural language, as LeRobot requires
    with new_folder(folder) as partial:
        for number, shard in enumerate(data.shards):
            begins = np.flatnonzero(episode_starts(shard))
            if not all(np.isfinite(array).all() for array in shard.arrays.values()):
                raise FcnetError(f"{shard.path} holds a value that is not finite; `fcnet dataset validate` says where")
            columns = _columns(shard, manifest, begins, steps, episodes)
            place = {"chunk_index": number // CHUNK, "file_index": number % CHUNK}
            _write_parquet(partial / DATA.format(**place), {name: _arrow(array) for name, array in columns.items()})
            for begin, end in pairwise([*begins.tolist(), shard.steps]):
                for name, value in _episode(columns, begin, end, place, task).items():
                    rows.setdefault(name, []).append(value)
            steps, episodes = steps + shard.steps, episodes + len(begins)
        _write_parquet(partial / EPISODES, {name: pa.array(values) for name, values in rows.items()})
        _write_tasks(partial / "meta/tasks.parquet", task)
        info = _info(manifest, steps, episodes)
        _write_json(partial / "meta/stats.json", {name: _joined(rows, name) for name in info["features"]})
        _write_json(partial / "meta/info.json", info)
        _write_json(partial / "meta/fcnet.json", msgspec.to_builtins(manifest))
    return steps, episodes


def _columns(shard: Shard, manifest: Manifest, begins: Rows, steps: int, episodes: int) -> Columns:
    """Return the columns (N, ...) of a shard. begins: rows that start its episodes; steps, episodes: numbers in the
    shards before.
    """
    row = np.arange(shard.steps)
    episode = np.searchsorted(begins, row, side="right") - 1
    frame = row - begins[episode]
    derived = {
        "next.done": np.isin(row + 1, [*begins, shard.steps]),
        "timestamp": frame / manifest.control_rate,
        "frame_index": frame,
        "episode_index": episodes + episode,
        "index": steps + row,
        "task_index": np.zeros_like(row),
    }
    columns = {name: derived[name].astype(kind) for name, kind in DERIVED.items()}
    for name, spec in {**manifest.arrays, "first": FIRST}.items():
        columns[NAMES.get(name, f"fcnet.{name}")] = shard.arrays[name].reshape(shard.steps, *spec.shape)
    return columns


def _episode(columns: Columns, begin: int, end: int, place: Mapping[str, int], task: str) -> dict[str, Any]:
    """Return the row of EPISODES for the rows from `begin` to before `end` of one file."""
    first = int(columns["index"][begin])
    row = {
        "episode_index": int(columns["episode_index"][begin]),
        "tasks": [task],
        "length": end - begin,
        "dataset_from_index": first,
        "dataset_to_index": first + end - begin,
        **{f"data/{name}": value for name, value in place.items()},
        "meta/episodes/chunk_index": 0,
        "meta/episodes/file_index": 0,
    }
    for name, column in columns.items():
        row |= {f"stats/{name}/{figure}": value for figure, value in _statistics(column[begin:end]).items()}
    return row


def _statistics(values: npt.NDArray[Any]) -> dict[str, list[Any]]:
    """Return figures over the rows of (N, ...), in the shape of a row; (1,) for numbers (N,)."""
    entries = (values if values.ndim > 1 else values[:, None]).astype(np.float64)
    figures = {"min": entries.min(0), "max": entries.max(0), "mean": entries.mean(0), "std": entries.std(0)}
    return {"count": [len(values)], **{name: figure.tolist() for name, figure in figures.items()}}


def _joined(rows: Mapping[str, list[Any]], feature: str) -> dict[str, Any]:
    """Return the statistics of a feature over all episodes."""
    names = ("min", "max", "mean", "std", "count")
    low, high, mean, std, count = (np.array(rows[f"stats/{feature}/{name}"]) for name in names)
    share = (count / count.sum()).reshape(-1, *(1,) * (mean.ndim - 1))
    centre = (share * mean).sum(0)
    spread = np.sqrt((share * (std**2 + (mean - centre) ** 2)).sum(0))
    figures = (low.min(0), high.max(0), centre, spread, count.sum(0))
    return {name: figure.tolist() for name, figure in zip(names, figures, strict=True)}


def _info(manifest: Manifest, steps: int, episodes: int) -> dict[str, Any]:
    rate, interface = manifest.control_rate, interface_of(manifest)
    features: dict[str, Any] = {}
    for name, spec in {**manifest.arrays, "first": FIRST}.items():  # a number a step has the shape (1,)
        names = list(entry_names(manifest, name, interface)) if len(spec.shape) == 1 else None
        shape = list(spec.shape) or [1]
        features[NAMES.get(name, f"fcnet.{name}")] = {"dtype": spec.dtype, "shape": shape, "names": names}
    features |= {name: {"dtype": dtype, "shape": [1], "names": None} for name, dtype in DERIVED.items()}
    return {
        "codebase_version": "v3.0",
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
        "features": features,
    }


def _arrow(rows: npt.NDArray[Any]) -> pa.Array:
    """Return rows (N, ...) as a column of lists of fixed size, or of numbers for rows of the shape (1,)."""
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
