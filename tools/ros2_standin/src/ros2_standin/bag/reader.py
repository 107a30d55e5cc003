"""Opens bags of any storage, version and compression, and says in a sentence why one cannot be read."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import yaml
import zstandard
from backports import zstd
from mcap.exceptions import McapError
from rosbags.interfaces import Connection
from rosbags.rosbag2 import Reader, ReaderError

from ..bag_writer import METADATA_FILE
from ..verb import VerbError

MCAP_MAGIC = b"\x89MCAP0\r\n"
# What a reader may stumble over in a file that is not what it says it is.
DAMAGE = (
    ReaderError, McapError, OSError, struct.error, zstd.ZstdError, zstandard.ZstdError, yaml.YAMLError, EOFError,
    ValueError, LookupError, TypeError, AttributeError, AssertionError, RuntimeError, MemoryError,
)  # fmt: skip


@contextlib.contextmanager
def open_bag(path: Path) -> Iterator[Reader]:
    """Give the bag in the folder or file `path`; VerbError if there is none or it cannot be read."""
    if not path.exists():
        raise VerbError(f"there is no bag '{path}'")
    try:
        for file in _files(path):
            if not file.exists():
                raise VerbError(f"bag '{path}' lacks its file '{file.name}'")
            if file.suffix == ".mcap" and not _is_complete(file):
                raise VerbError(f"'{file}' breaks off, as after a crash: `fcnet replay` reads what is whole")
        reader = Reader(path)
        reader.open()
    except DAMAGE as error:
        raise VerbError(f"cannot read bag '{path}': {error}") from error
    try:
        yield reader
    finally:
        reader.close()


def read_messages(bag: Reader, connections: Collection[Connection]) -> Iterator[tuple[Connection, int, bytes]]:
    """Give topic, time of reception [ns] and content of the messages; VerbError where the bag is damaged."""
    try:
        yield from bag.messages(connections)
    except DAMAGE as error:
        raise VerbError(f"bag '{bag.path}' is damaged: {error}") from error


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not (path / METADATA_FILE).exists():
        raise VerbError(f"'{path}' is no bag: there is no {METADATA_FILE} in it")
    content: Any = yaml.safe_load((path / METADATA_FILE).read_text(encoding="utf-8"))
    return [path / Path(name).name for name in content["rosbag2_bagfile_information"]["relative_file_paths"]]


def _is_complete(file: Path) -> bool:
    """Return whether an mcap file ends as it should."""
    with file.open("rb") as content:
        size = content.seek(0, 2)
        content.seek(max(0, size - len(MCAP_MAGIC)))
        return content.read() == MCAP_MAGIC and size > 2 * len(MCAP_MAGIC)
