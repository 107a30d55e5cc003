"""Exports datasets as LeRobotDataset v3.0 and imports them without loss, with one shard in memory at a time.

    FOLDER/meta/info.json                               type, shape and entries of every feature; rate; counts
    FOLDER/meta/stats.json                              mean, std, min, max and count of every feature
    FOLDER/meta/tasks.parquet                           the task, one for all episodes
    FOLDER/meta/episodes/chunk-000/file-000.parquet     an episode a row: where it is, and its statistics
    FOLDER/data/chunk-000/file-000.parquet              a step a row, a shard a file
    FOLDER/meta/fcnet.json                              the manifest; sequences and job of every shard

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
from msgspec import Struct

from fcnet_core.arrays import Array, ArraySpec, Rows
from fcnet_core.errors import FcnetError
from fcnet_core.files import Count, new_folder, read_file, write_whole
from fcnet_core.learning.dataset import FIRST, LARGEST_JSON, Dataset, DatasetWriter, Manifest, Shard
from fcnet_replay.datasets.summary import entry_names

VERSION = "v3.0"
CHUNK = 1000  # files of a folder
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
FACTS = "meta/fcnet.json"
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


class _ShardFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """number: of the shard in its folder; sequences: their number and length; job: how the shard was made."""

    number: int
    sequences: tuple[Count, Count]
    job: dict[str, Any]


class _Facts(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of meta/fcnet.json; the n-th shard is the n-th file of data."""

    manifest: Manifest
    shards: list[_ShardFacts]
    format_version: int = 1


def export_dataset(source: Path, folder: Path) -> tuple[int, int]:
    """Write the dataset `source` as the new LeRobot folder `folder`; return the numbers of steps and episodes."""
    data = Dataset(source)
    facts = _Facts(data.manifest, [])
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
            facts.shards.append(_ShardFacts(int(shard.path.name.split("-")[1]), shard.sequences, shard.job))
            steps, episodes = steps + shard.steps, episodes + len(begins)
        _write_parquet(partial / EPISODES, {name: pa.array(values) for name, values in rows.items()})
        _write_tasks(partial / "meta/tasks.parquet", _task(data.manifest))
        _write_json(partial / "meta/stats.json", {name: _joined(rows, name) for name in _features(data.manifest)})
        _write_json(partial / "meta/info.json", _info(data.manifest, steps, episodes))
        _write_json(partial / FACTS, msgspec.to_builtins(facts))
    return steps, episodes


def import_dataset(source: Path, folder: Path) -> DatasetWriter:
    """Restore the dataset that `export_dataset` wrote to `source` as the new folder `folder`.

    Raises FcnetError if `source` was not exported, or is damaged or changed.
    """
    facts = _read_facts(source)
    with new_folder(folder) as partial:
        writer = DatasetWriter(partial, facts.manifest)
        for file, shard in enumerate(facts.shards):
            path = source / DATA.format(chunk_index=file // CHUNK, file_index=file % CHUNK)
            writer.write_shard(shard.number, shard.job, **_read_arrays(path, facts.manifest, shard.sequences))
    return writer


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
    found = {
        _feature(name): {
            "dtype": spec.dtype,
            "shape": list(spec.shape) or [1],
            "names": list(entry_names(manifest, name)) if name in manifest.arrays and len(spec.shape) == 1 else None,
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


def _read_facts(folder: Path) -> _Facts:
    """Read meta/fcnet.json. Raises FcnetError if it does not match meta/info.json."""
    if not (folder / "meta/info.json").is_file():
        raise FcnetError(f"{folder} is no folder of LeRobot (it has no meta/info.json); give one that was exported")
    if not (folder / FACTS).is_file():
        raise FcnetError(f"{folder} was not written by `fcnet dataset export` (it has no {FACTS}); give one that was")
    try:
        facts = msgspec.convert(json.loads(read_file(folder / FACTS, "file", LARGEST_JSON)), _Facts)
        info = msgspec.convert(json.loads(read_file(folder / "meta/info.json", "file", LARGEST_JSON)), dict[str, Any])
    except FcnetError:
        raise
    except (ValueError, RecursionError) as error:
        raise FcnetError(f"a file in {folder / 'meta'} is damaged ({error}); export the dataset again") from error
    if facts.format_version != 1:
        raise FcnetError(f"{folder / FACTS} has version {facts.format_version}, expected 1; update fcnet")
    if info.get("codebase_version") != VERSION:
        raise FcnetError(
            f"{folder} is of LeRobot's {info.get('codebase_version')}, expected {VERSION}; export it again"
        )
    steps = sum(shard.sequences[0] * shard.sequences[1] for shard in facts.shards)
    if (found := info.get("total_frames")) != steps:
        raise FcnetError(f"{folder} has {found} steps, {steps} were exported: it was changed since; export it again")
    return facts


def _read_arrays(path: Path, manifest: Manifest, sequences: tuple[int, int]) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays (S, T, ...) of one shard. Raises FcnetError if the file is damaged or was changed."""
    specs = _stored(manifest)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read([_feature(name) for name in specs])
    except (pa.ArrowException, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise FcnetError(f"{path} is missing or damaged ({reason}); copy or export it again") from error
    arrays = {}
    for name, spec in specs.items():
        feature = _feature(name)
        column = table[feature].combine_chunks() if feature in table.column_names else None
        expected = (sequences[0] * sequences[1], _arrow_type(spec.dtype, spec.shape), 0)
        if column is None or (len(column), column.type, column.null_count) != expected:
            found = "none" if column is None else f"{len(column)} of {column.type}, {column.null_count} of them empty"
            raise FcnetError(
                f"{path} was changed: {feature} must be {expected[0]} rows of {expected[1]}, found {found}"
            )
        while pa.types.is_fixed_size_list(column.type):
            column = column.flatten()
        arrays[name] = column.to_numpy(zero_copy_only=False).reshape(*sequences, *spec.shape)
    return arrays
