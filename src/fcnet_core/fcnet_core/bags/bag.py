"""A rosbag2 bag: a folder with metadata.yaml and its files, a folder of a killed recording, or one file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from backports import zstd

from fcnet_core.bags.bag_error import BagError, DamagedBagError
from fcnet_core.bags.mcap_file import McapFile
from fcnet_core.bags.raw_message import RawMessage
from fcnet_core.bags.sqlite_file import SqliteFile

READERS = {".mcap": McapFile, ".db3": SqliteFile}
LARGEST_MESSAGE = 16 * 2**20  # [bytes] of one compressed message, unpacked
BLOCK = 2**20  # [bytes]


@dataclass
class Bag:
    """One recording. `problems` tells, after `messages` has ended, what could not be read.

    path: what the user gave; files: in the order of recording; custom: the recorder's own entries in metadata.yaml.
    """

    path: Path
    files: tuple[Path, ...]
    custom: dict[str, str]
    compressed_messages: bool
    problems: list[BagError] = field(default_factory=list)

    def messages(self, topics: frozenset[str] | None = None) -> Iterator[RawMessage]:
        """Every message of these topics (None: all), file after file. Raises BagError when not one file is good."""
        for path in self.files:
            with tempfile.TemporaryDirectory(prefix="fcnet-bag-") as folder:
                plain = _unpacked(path, Path(folder)) if path.suffix == ".zstd" else path
                yield from self._read(plain, topics)

    def _read(self, path: Path, topics: frozenset[str] | None) -> Iterator[RawMessage]:
        file = READERS[path.suffix](path, topics)
        for message in file.messages():
            yield self._unpack(message) if self.compressed_messages else message
        self.problems.extend(file.problems)

    def _unpack(self, message: RawMessage) -> RawMessage:
        try:
            data = zstd.ZstdDecompressor().decompress(message.data, max_length=LARGEST_MESSAGE)
        except zstd.ZstdError as error:
            raise BagError(f"{self.path}: a message on {message.topic} cannot be decompressed ({error})") from error
        return message._replace(data=data)


def open_bag(path: str | Path) -> Bag:
    """The bag at `path`. Raises BagError with one sentence when there is none."""
    place = Path(path)
    if place.is_file() and _is_bag_file(place):
        return Bag(place, (place,), {}, compressed_messages=False)
    if not place.is_dir():
        raise BagError(f"there is no bag at {place}; give the folder that was recorded, or an .mcap or .db3 file")
    metadata = place / "metadata.yaml"
    return _described(place, metadata) if metadata.is_file() else _undescribed(place, "it has no metadata.yaml")


def _described(folder: Path, metadata: Path) -> Bag:
    try:
        facts = yaml.safe_load(metadata.read_text())["rosbag2_bagfile_information"]
        files = tuple(_inside(folder, name) for name in facts["relative_file_paths"])
        custom = {str(key): str(value) for key, value in (facts.get("custom_data") or {}).items()}
        by_message = str(facts.get("compression_mode") or "").lower() == "message"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        return _undescribed(folder, f"its metadata.yaml cannot be read ({_first_line(error)})")
    missing = [file for file in files if not file.is_file()]
    if missing or not files:
        return _undescribed(folder, f"{missing[0].name} is missing" if missing else "its metadata.yaml names no file")
    return Bag(folder, files, custom, by_message)


def _undescribed(folder: Path, why: str) -> Bag:
    """A recording that was killed has its files but no description of them."""
    files = tuple(sorted(file for file in folder.iterdir() if _is_bag_file(file)))
    if not files:
        raise BagError(f"{folder} holds no bag: {why}, and there is no .mcap or .db3 file in it")
    problem = DamagedBagError(folder / "metadata.yaml", 0, f"{why}; all {len(files)} bag files of the folder are read")
    return Bag(folder, files, {}, compressed_messages=False, problems=[problem])


def _inside(folder: Path, name: Any) -> Path:
    """A file named by metadata.yaml, which must not lead out of the bag."""
    file = folder / Path(str(name)).name
    if not _is_bag_file(file):
        raise ValueError(f"{name} is no bag file")
    return file


def _is_bag_file(path: Path) -> bool:
    suffix = Path(path.stem).suffix if path.suffix == ".zstd" else path.suffix
    return suffix in READERS


def _unpacked(path: Path, folder: Path) -> Path:
    plain = folder / path.stem
    try:
        with zstd.open(path, "rb") as packed, plain.open("wb") as file:
            while block := packed.read(BLOCK):
                file.write(block)
    except (zstd.ZstdError, EOFError) as error:
        raise DamagedBagError(path, 0, f"it cannot be decompressed ({error})") from error
    return plain


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
