"""Reads an mcap file from front to back, as far as it is good (format: https://mcap.dev/spec).

The libraries for this format look for the index at a file's end, which a recording that was killed does not have, and
do not tell where a file is damaged.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import lz4.frame
import numpy as np
import numpy.typing as npt
from backports import zstd

from fcnet_replay.bags.message_batch import BagError, DamagedBagError, MessageBatch

# Finds the records of an mcap file in a block of bytes, all of their fields at once: a bag has a thousand a second.

HEAD = 9  # [bytes] operation and length of a record
SCHEMA_OP, CHANNEL_OP, MESSAGE_OP = 3, 4, 5
MESSAGE_HEAD = 22  # [bytes] channel, sequence, two times
SMALLEST = np.zeros(256, dtype=np.int64)  # [bytes] of a record of each operation
SMALLEST[[SCHEMA_OP, CHANNEL_OP]] = 14  # those with empty texts
SMALLEST[MESSAGE_OP] = MESSAGE_HEAD
RECORD = np.dtype([("operation", "u1"), ("length", "<i8")])
MESSAGE = np.dtype(
    {"names": ["channel", "received"], "formats": ["<u2", "<i8"], "offsets": [9, 15], "itemsize": HEAD + MESSAGE_HEAD}
)
_length = struct.Struct("<Q").unpack_from
Places = npt.NDArray[np.int64]


def find_records(block: bytes, index: Places) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Messages (M, 4): channel, time of reception [ns], start and end of the content; definitions (D, 3): operation,
    start and end; and where the last whole record ends, which is the block's end when nothing is wrong.

    index: where messages are said to begin; it saves time where it is right, and may be empty or wrong.
    """
    starts, ends = _indexed(block, np.sort(index)) or _walked(block)
    operations = np.frombuffer(block, dtype=np.uint8)[starts]
    short = np.flatnonzero(ends - starts - HEAD < SMALLEST[operations])
    if len(short):
        starts, ends, operations = starts[: short[0]], ends[: short[0]], operations[: short[0]]
    message = operations == MESSAGE_OP
    definition = (operations == SCHEMA_OP) | (operations == CHANNEL_OP)
    heads = _each_place(block, MESSAGE)[starts[message]]
    content = starts[message] + HEAD + MESSAGE_HEAD
    return (
        np.column_stack([heads["channel"], heads["received"], content, ends[message]]),
        np.column_stack([operations[definition], starts[definition] + HEAD, ends[definition]]),
        int(ends[-1]) if len(ends) else 0,
    )


def _walked(block: bytes) -> tuple[Places, Places]:
    """Where the whole records begin and end."""
    starts, at, last = [], 0, len(block) - HEAD
    while at <= last:
        (length,) = _length(block, at + 1)
        if length > last - at:
            break
        starts.append(at)
        at += HEAD + length
    places = np.array([*starts, at], dtype=np.int64)
    return places[:-1], places[1:]


def _indexed(block: bytes, index: Places) -> tuple[Places, Places] | None:
    """As _walked, if the index tells each record but definitions before the first message; else None."""
    if not len(index) or index[0] < 0 or index[-1] > len(block) - HEAD:
        return None
    ends = index + HEAD + _each_place(block, RECORD)["length"][index]
    before_starts, before_ends = _walked(block[: index[0]])
    starts, ends = np.concatenate([before_starts, index]), np.concatenate([before_ends, ends])
    told = starts[0] == 0 and ends[-1] == len(block) and (starts[1:] == ends[:-1]).all()
    return (starts, ends) if told else None


def gather(block: bytes, start: npt.NDArray[np.int64], size: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """The pieces of a block that begin at `start` (N,) and are `size` (N,) long, one after the other."""
    first = int(size[0]) if len(size) else 0
    if first and (size == first).all():  # nearly always, and many times faster than one by one
        return _each_place(block, np.dtype((np.void, first)))[start].view(np.uint8)
    pieces = [block[at : at + length] for at, length in zip(start.tolist(), size.tolist(), strict=True)]
    return np.frombuffer(b"".join(pieces), dtype=np.uint8)


def _each_place(block: bytes, kind: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """What there would be at every byte of the block if it were of this kind; nothing is copied before it is picked."""
    return np.ndarray(max(0, len(block) - kind.itemsize + 1), kind, block, strides=(1,))


MAGIC = b"\x89MCAP0\r\n"
LARGEST_CHUNK = 64 * 2**20  # [bytes] recorders write about a megabyte; more is a damaged length or meant to fill memory
LARGEST_FILE = 16 * 2**30  # [bytes] of one file's chunks, unpacked
BLOCK = 2**20  # [bytes] read at a time where messages lie outside of chunks
MOST_PROBLEMS = 20  # told one by one
RECORD_MCAP_FILE = struct.Struct("<BQ")
CHUNK = struct.Struct("<QQQI")
FOOTER_OP, CHUNK_OP, MESSAGE_INDEX_OP, METADATA_OP, DATA_END_OP = 2, 6, 7, 12, 15
LARGEST_METADATA = 2**20  # [bytes] of one record; a bag of 12 topics has ten thousand
INDEX_HEAD = 6  # [bytes] channel and length of a message index, before its pairs of time and place
MOST_RECORDS = 1_000_000  # looked at for metadata: a second; chunks of an hour are a tenth of that
DEFINITION_ENCODINGS = ("ros2msg", "ros2idl")


class _Malformed(Exception):
    """A record does not hold what it should."""


@dataclass(frozen=True)
class _Channel:
    topic: str
    kind: str


@dataclass
class McapFile:
    """One mcap file. `batches` may be called once; the other fields fill while it runs.

    topics: wanted ones, None for all; name: what it is called in sentences, None: its path. problems: what could not be
    read; seen: every topic of the file and its type; definitions: encoding and text of every type that it defines.
    """

    path: Path
    topics: frozenset[str] | None = None
    name: Path | None = None
    problems: list[DamagedBagError] = field(default_factory=list)
    seen: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, tuple[str, str]] = field(default_factory=dict)

    def batches(self) -> Iterator[MessageBatch]:
        """Every message of the wanted topics; those of one topic in the order of the file.

        Raises BagError when the file is no mcap file. A damaged chunk is left out; damage outside of chunks ends the
        reading.
        """
        self._schemas: dict[int, str] = {}
        self._channels: dict[int, _Channel | None] = {}
        self._unpacked = 0
        with self.path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise BagError(f"{self.name or self.path} is damaged at byte 0: it does not begin as an mcap file does")
            yield from self._records(file)

    def metadata(self) -> list[str]:
        """What rosbag2 wrote about the bag into this file, as YAML: once when it began it, once when it ended it.
        Records that cannot be read are not among them.
        """
        with self.path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return []
            found = [self._metadata(file.read(length)) for length in self._metadata_records(file)]
        return [text for text in found if text]

    def _metadata_records(self, file: BinaryIO) -> Iterator[int]:
        """Go to each record of metadata and tell its length."""
        for _ in range(MOST_RECORDS):
            head = file.read(RECORD_MCAP_FILE.size)
            if len(head) < RECORD_MCAP_FILE.size:
                return
            operation, length = RECORD_MCAP_FILE.unpack(head)
            end = file.tell() + length
            if operation in (DATA_END_OP, FOOTER_OP) or end > self.path.stat().st_size:
                return
            if operation == METADATA_OP and length <= LARGEST_METADATA:
                yield length
            file.seek(end)

    @staticmethod
    def _metadata(content: bytes) -> str:
        try:
            name, at = _text(content, 0)
            key, at = _text(content, at + 4)
            return _text(content, at)[0] if (name, key) == ("rosbag2", "serialized_metadata") else ""
        except (_Malformed, struct.error, UnicodeDecodeError):
            return ""

    def _records(self, file: BinaryIO) -> Iterator[MessageBatch]:
        size = self.path.stat().st_size
        while len(self.problems) < MOST_PROBLEMS:
            offset = file.tell()
            head = file.read(RECORD_MCAP_FILE.size)
            if len(head) < RECORD_MCAP_FILE.size:
                self._damage(offset, "it ends without the index that a finished recording has")
                return
            operation, length = RECORD_MCAP_FILE.unpack(head)
            if length > size - file.tell():
                self._damage(offset, f"a record of {length} bytes does not end within the file")
                return
            if operation in (DATA_END_OP, FOOTER_OP):
                return
            end = file.tell() + length
            try:
                if operation == CHUNK_OP:
                    yield from self._chunk(file, length)
                elif operation in (SCHEMA_OP, CHANNEL_OP, MESSAGE_OP):
                    file.seek(offset)
                    end = offset + (yield from self._plain(file, RECORD_MCAP_FILE.size + length))
            except (_Malformed, struct.error, UnicodeDecodeError) as error:
                self._damage(offset, str(error))
            file.seek(end)

    def _chunk(self, file: BinaryIO, length: int) -> Iterator[MessageBatch]:
        if length > LARGEST_CHUNK:
            raise _Malformed(f"a chunk of {length} bytes is larger than any recorder writes; it is left out")
        content = file.read(length)
        _, _, size, checksum = CHUNK.unpack_from(content)
        compression, at = _text(content, CHUNK.size)
        packed = content[at + 8 :]
        if len(packed) != struct.unpack_from("<Q", content, at)[0]:
            raise _Malformed("a chunk has not the length that it says; it is left out")
        if size > LARGEST_CHUNK:
            raise _Malformed(f"a chunk claims {size} bytes, more than any recorder writes; it is left out")
        if compression not in _UNPACK:
            raise _Malformed(f"a chunk is compressed with {compression!r}, which is unknown; it is left out")
        self._unpacked += size
        if self._unpacked > LARGEST_FILE:
            raise _Malformed(f"its chunks hold more than {LARGEST_FILE} bytes; what follows is left out")
        records = _UNPACK[compression](packed, size)
        if len(records) != size or (checksum and zlib.crc32(records) != checksum):
            raise _Malformed("a chunk's checksum is wrong; its messages are left out")
        read = yield from self._parse(records, _message_index(file))
        if read < size:
            raise _Malformed("a record within a chunk is malformed; the chunk's other messages are left out")

    def _plain(self, file: BinaryIO, smallest: int) -> Generator[MessageBatch, None, int]:
        """Read records that lie outside of chunks, at least one of `smallest` bytes; return how many bytes."""
        if smallest > LARGEST_CHUNK:
            raise _Malformed(f"a record of {smallest} bytes is larger than any recorder writes; it is left out")
        read = yield from self._parse(file.read(max(BLOCK, smallest)), np.empty(0, dtype=np.int64))
        if read < smallest:
            self._damage(file.tell() - max(BLOCK, smallest), "a record is malformed")
        return max(read, smallest)

    def _parse(self, records: bytes, index: npt.NDArray[np.int64]) -> Generator[MessageBatch, None, int]:
        """Yield the messages of whole records and return where these end. index: see find_records."""
        messages, definitions, end = find_records(records, index)
        for operation, start, stop in definitions.tolist():
            self._define(operation, records[start:stop])
        order = np.argsort(messages[:, 0], kind="stable")
        identities, starts = np.unique(messages[order, 0], return_index=True)
        for identity, rows in zip(identities.tolist(), np.split(messages[order], starts[1:]), strict=False):
            if identity not in self._channels:
                raise _Malformed(f"messages are of channel {identity}, which nothing defines; they are left out")
            if (channel := self._channels[identity]) is not None:
                yield _batch(channel, records, rows)
        return end

    def _define(self, operation: int, content: bytes) -> None:
        (identity,) = struct.unpack_from("<H", content)
        if operation == SCHEMA_OP:
            self._define_schema(identity, content)
            return
        (schema,) = struct.unpack_from("<H", content, 2)
        topic, at = _text(content, 4)
        encoding, _ = _text(content, at)
        kind = self._schemas.get(schema, "")
        self.seen[topic] = kind
        wanted = encoding == "cdr" and (self.topics is None or topic in self.topics)
        self._channels[identity] = _Channel(topic, kind) if wanted else None

    def _define_schema(self, identity: int, content: bytes) -> None:
        kind, at = _text(content, 2)
        encoding, at = _text(content, at)
        self._schemas[identity] = kind
        if encoding in DEFINITION_ENCODINGS:
            self.definitions[kind] = encoding, _text(content, at)[0]

    def _damage(self, offset: int, what: str) -> None:
        self.problems.append(DamagedBagError(self.name or self.path, offset, what))


def _message_index(file: BinaryIO) -> npt.NDArray[np.int64]:
    """Where in a chunk the records behind it say that its messages begin."""
    entries, size = [], 0
    while len(head := file.read(RECORD_MCAP_FILE.size)) == RECORD_MCAP_FILE.size:
        operation, length = RECORD_MCAP_FILE.unpack(head)
        size += length
        if operation != MESSAGE_INDEX_OP or size > LARGEST_CHUNK:
            break
        content = file.read(length)
        entries.append(content[INDEX_HEAD : len(content) - (len(content) - INDEX_HEAD) % 16])
    return np.frombuffer(b"".join(entries), dtype="<i8").reshape(-1, 2)[:, 1]


def _batch(channel: _Channel, records: bytes, rows: npt.NDArray[np.int64]) -> MessageBatch:
    _, received, start, end = rows.T
    return MessageBatch(channel.topic, channel.kind, received, end - start, gather(records, start, end - start))


def _text(content: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<I", content, at)
    end = at + 4 + length
    if end > len(content):
        raise _Malformed("a text does not end within its record")
    return content[at + 4 : end].decode(), end


def _as_it_is(packed: bytes, _size: int) -> bytes:
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


_UNPACK: dict[str, Callable[[bytes, int], bytes]] = {"": _as_it_is, "zstd": _zstd, "lz4": _lz4}
