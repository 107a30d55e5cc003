"""Reads an mcap file from front to back, as far as it is good (format: https://mcap.dev/spec).

The libraries for this format look for the index at a file's end, which a recording that was killed does not have, and
do not tell where a file is damaged.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import lz4.frame
from backports import zstd

from fcnet_core.bags.bag_error import BagError, DamagedBagError
from fcnet_core.bags.raw_message import RawMessage

MAGIC = b"\x89MCAP0\r\n"
LARGEST_RECORD = 256 * 2**20  # [bytes] recorders write chunks of about a megabyte; more is a damaged length
RECORD = struct.Struct("<BQ")
MESSAGE = struct.Struct("<HIQQ")
CHUNK = struct.Struct("<QQQI")
SCHEMA_OP, CHANNEL_OP, MESSAGE_OP, CHUNK_OP, METADATA_OP, DATA_END_OP, FOOTER_OP = 3, 4, 5, 6, 12, 15, 2


class _Malformed(Exception):
    """A record does not hold what it should."""


@dataclass(frozen=True)
class _Channel:
    topic: str
    kind: str


@dataclass
class McapFile:
    """One mcap file. `messages` may be called once; `problems` then tells what could not be read.

    topics: wanted ones, None for all. metadata: the file's own metadata records by name.
    """

    path: Path
    topics: frozenset[str] | None = None
    problems: list[DamagedBagError] = field(default_factory=list)
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)

    def messages(self) -> Iterator[RawMessage]:
        """Every message of the wanted topics in the order of the file.

        Raises BagError when the file is no mcap file. A damaged chunk is left out; damage outside of chunks ends the
        reading.
        """
        self._schemas: dict[int, str] = {}
        self._channels: dict[int, _Channel | None] = {}
        with self.path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise BagError(f"{self.path} is not an mcap file; give a bag that rosbag2 has recorded")
            yield from self._records(file)

    def _records(self, file: BinaryIO) -> Iterator[RawMessage]:
        size = self.path.stat().st_size
        while True:
            offset = file.tell()
            head = file.read(RECORD.size)
            if len(head) < RECORD.size:
                self._damage(offset, "it ends without the index that a finished recording has")
                return
            operation, length = RECORD.unpack(head)
            if length > min(size - file.tell(), LARGEST_RECORD):
                self._damage(offset, f"a record of {length} bytes does not end within the file")
                return
            if operation in (DATA_END_OP, FOOTER_OP):
                return
            content = file.read(length)
            try:
                yield from self._record(operation, content)
            except (_Malformed, struct.error, UnicodeDecodeError, IndexError) as error:
                self._damage(offset, str(error) or "a record is malformed")

    def _record(self, operation: int, content: bytes) -> Iterator[RawMessage]:
        if operation == CHUNK_OP:
            yield from self._chunk(content)
        elif operation == MESSAGE_OP:
            yield from self._parse(RECORD.pack(operation, len(content)) + content)
        elif operation == METADATA_OP:
            name, end = _text(content, 0)
            self.metadata[name] = _texts(content, end)
        elif operation in (SCHEMA_OP, CHANNEL_OP):
            self._define(operation, content)

    def _chunk(self, content: bytes) -> Iterator[RawMessage]:
        _, _, size, checksum = CHUNK.unpack_from(content)
        compression, end = _text(content, CHUNK.size)
        packed = content[end + 8 :]
        if len(packed) != struct.unpack_from("<Q", content, end)[0]:
            raise _Malformed("a chunk is shorter than it says")
        if size > LARGEST_RECORD:
            raise _Malformed(f"a chunk claims {size} bytes")
        if compression not in _UNPACK:
            raise _Malformed(f"a chunk is compressed with {compression!r}, which is unknown")
        records = _UNPACK[compression](packed, size)
        if len(records) != size or (checksum and zlib.crc32(records) != checksum):
            raise _Malformed("a chunk's checksum is wrong; its messages are left out")
        yield from self._parse(records)

    def _parse(self, records: bytes) -> Iterator[RawMessage]:
        at, end, channels = 0, len(records), self._channels
        while at < end:
            operation, length = RECORD.unpack_from(records, at)
            at += RECORD.size
            if at + length > end:
                raise _Malformed("a record does not end within its chunk")
            if operation == MESSAGE_OP:
                identity, _, received, _ = MESSAGE.unpack_from(records, at)
                if identity not in channels:
                    raise _Malformed(f"a message is of channel {identity}, which nothing defines")
                if (channel := channels[identity]) is not None:
                    data = records[at + MESSAGE.size : at + length]
                    yield RawMessage(channel.topic, channel.kind, received, data)
            elif operation in (SCHEMA_OP, CHANNEL_OP):
                self._define(operation, records[at : at + length])
            at += length

    def _define(self, operation: int, content: bytes) -> None:
        (identity,) = struct.unpack_from("<H", content)
        if operation == SCHEMA_OP:
            self._schemas[identity] = _text(content, 2)[0]
            return
        (schema,) = struct.unpack_from("<H", content, 2)
        topic, end = _text(content, 4)
        encoding, _ = _text(content, end)
        wanted = encoding == "cdr" and (self.topics is None or topic in self.topics)
        self._channels[identity] = _Channel(topic, self._schemas.get(schema, "")) if wanted else None

    def _damage(self, offset: int, what: str) -> None:
        self.problems.append(DamagedBagError(self.path, offset, what))


def _text(content: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<I", content, at)
    end = at + 4 + length
    if end > len(content):
        raise _Malformed("a text does not end within its record")
    return content[at + 4 : end].decode(), end


def _texts(content: bytes, at: int) -> dict[str, str]:
    (length,) = struct.unpack_from("<I", content, at)
    at, end, found = at + 4, at + 4 + length, {}
    while at < min(end, len(content)):
        key, at = _text(content, at)
        found[key], at = _text(content, at)
    return found


def _plain(packed: bytes, _size: int) -> bytes:
    return packed


def _zstd(packed: bytes, size: int) -> bytes:
    try:
        return zstd.ZstdDecompressor().decompress(packed, max_length=size)
    except zstd.ZstdError as error:
        raise _Malformed("a chunk cannot be decompressed; its messages are left out") from error


def _lz4(packed: bytes, size: int) -> bytes:
    try:
        return lz4.frame.LZ4FrameDecompressor().decompress(packed, max_length=size)
    except (RuntimeError, EOFError) as error:
        raise _Malformed("a chunk cannot be decompressed; its messages are left out") from error


_UNPACK: dict[str, Callable[[bytes, int], bytes]] = {"": _plain, "zstd": _zstd, "lz4": _lz4}
