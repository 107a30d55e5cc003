"""Opens bags of any storage, version and compression, and says in a sentence why one cannot be read."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rosbags.interfaces import Connection
from rosbags.rosbag2 import Reader, ReaderError

from ..verb_error import VerbError
from .bag_metadata import FILE_NAME
from .mcap_record import MAGIC
from .zstd import ZstdError

# What a reader may stumble over in a file that is not what it says it is.
DAMAGE = (
    ReaderError, OSError, struct.error, ZstdError, yaml.YAMLError, EOFError,
    ValueError, LookupError, TypeError, AttributeError, AssertionError, RuntimeError, MemoryError,
)  # fmt: skip


@dataclass(frozen=True)
class Bag:
    """An open bag."""

    path: Path
    reader: Reader
    files: tuple[Path, ...]
    storage: str  # mcap or sqlite3

    @property
    def start(self) -> int:
        """The earliest message's reception [ns]; 0 without messages."""
        return self.reader.start_time if self.reader.message_count else 0

    @property
    def duration(self) -> int:
        """From the first message to the last [ns]; the reader counts one more."""
        return max(0, self.reader.duration - 1)

    @property
    def custom_data(self) -> dict[str, str]:
        """What the recorder was given to keep."""
        return self.reader.storage.metadata.custom or {}

    def messages(self, connections: Collection[Connection], start: int) -> Iterator[tuple[Connection, int, bytes]]:
        """Return the messages received from `start` [ns] on; VerbError where the bag is damaged."""
        try:
            yield from self.reader.messages(connections, start=start)
        except DAMAGE as error:
            raise VerbError(f"bag '{self.path}' is damaged: {error}") from error


@contextlib.contextmanager
def open_bag(path: Path, storage: str = "") -> Iterator[Bag]:
    """Give the bag in the folder or file `path`; VerbError if there is none or it cannot be read."""
    if not path.exists():
        raise VerbError(f"there is no bag '{path}'")
    try:
        files, found = _files(path)
        _check(path, files, found, storage)
        reader = Reader(path)
        reader.open()
    except DAMAGE as error:
        raise VerbError(f"cannot read bag '{path}': {error}") from error
    try:
        yield Bag(path, reader, files, found)
    finally:
        reader.close()


def _files(path: Path) -> tuple[tuple[Path, ...], str]:
    if path.is_file():
        return (path,), {".mcap": "mcap", ".db3": "sqlite3"}.get(path.suffix, path.suffix)
    if not (path / FILE_NAME).exists():
        if any(path.glob("*.mcap")):
            raise VerbError(f"bag '{path}' has no {FILE_NAME}: `ros2 bag reindex {path}` makes one from its files")
        raise VerbError(f"'{path}' is no bag: there is no {FILE_NAME} in it")
    content: Any = yaml.safe_load((path / FILE_NAME).read_text(encoding="utf-8"))
    information = content["rosbag2_bagfile_information"]
    files = tuple(path / Path(name).name for name in information["relative_file_paths"])
    return files, str(information["storage_identifier"])


def _check(path: Path, files: tuple[Path, ...], found: str, expected: str) -> None:
    if found not in ("mcap", "sqlite3"):
        raise VerbError(f"bag '{path}' has the unknown storage '{found}': mcap and sqlite3 can be read")
    if expected and found != expected:
        raise VerbError(f"bag '{path}' is stored as {found}, not as {expected}")
    for file in files:
        if not file.exists():
            raise VerbError(f"bag '{path}' lacks its file '{file.name}'")
        if file.suffix == ".mcap" and not is_complete(file):
            folder = path if path.is_dir() else path.parent
            raise VerbError(f"'{file}' breaks off, as after a crash: `ros2 bag reindex {folder}` saves what is there")


def is_complete(file: Path) -> bool:
    """Return whether an mcap file ends as it should."""
    with file.open("rb") as content:
        size = content.seek(0, 2)
        content.seek(max(0, size - len(MAGIC)))
        return content.read() == MAGIC and size > 2 * len(MAGIC)
