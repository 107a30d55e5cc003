"""An mcap file that is complete whenever nothing is being written."""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from .mcap_record import (
    MAGIC,
    MESSAGE,
    MESSAGE_FIELDS,
    Opcode,
    number_map,
    record,
    string,
    string_map,
)
from .zstd import compress

# Channel, received [ns], sent [ns], serialized message.
Message = tuple[int, int, int, bytes]
PROFILE, LIBRARY = "ros2", "fcnet ros2_standin"


class McapWriter:
    """Writes chunks to a new file, each write ending with the index that makes a file complete.

    The next chunks replace that index, in the same write. A recorder that is killed therefore leaves a file that any
    reader takes; a write that fails, for want of space say, raises OSError and leaves what had been written before.
    """

    def __init__(self, path: Path, metadata: str, level: int | None = None) -> None:
        """Create the file at `path`, beginning with rosbag2's `metadata` as YAML, which tells what is known by then.

        With `level` chunks are compressed with zstd.
        """
        self.path = path
        self.counts: dict[int, int] = {}
        self.start, self.end = 0, 0  # [ns], the earliest and the latest message
        self._level = level
        self._schemas: list[bytes] = []
        self._channels: list[bytes] = []
        self._definitions: list[bytes] = []  # schemas and channels that no chunk holds yet
        self._chunk_indices: list[bytes] = []
        self._metadata_indices: list[bytes] = []
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._data_end = 0
        self._index = b""
        try:
            self._append_metadata(MAGIC + record(Opcode.HEADER, string(PROFILE), string(LIBRARY)), metadata)
        except OSError:
            os.close(self._file)
            path.unlink()
            raise

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return self._data_end + len(self._index)

    @property
    def count(self) -> int:
        """How many messages the file holds."""
        return sum(self.counts.values())

    def add_schema(self, name: str, encoding: str, text: str) -> int:
        """Add a message type; return its number."""
        number = len(self._schemas) + 1
        content = record(Opcode.SCHEMA, struct.pack("<H", number), string(name), string(encoding), string(text))
        self._schemas.append(content)
        self._definitions.append(content)
        return number

    def add_channel(self, topic: str, schema: int, encoding: str, metadata: dict[str, str]) -> int:
        """Add a topic; return its number."""
        number = len(self._channels) + 1
        numbers = struct.pack("<HH", number, schema)
        content = record(Opcode.CHANNEL, numbers, string(topic), string(encoding), string_map(metadata))
        self._channels.append(content)
        self._definitions.append(content)
        self.counts[number] = 0
        return number

    def write(self, chunks: Sequence[Sequence[Message]]) -> None:
        """Write messages, a chunk for each sequence; each is in the order of reception and not empty."""
        before = self.start, self.end, dict(self.counts), list(self._definitions), len(self._chunk_indices)
        try:
            content, position = [], self._data_end
            for messages in chunks:
                content.append(self._chunk(messages, position))
                position += len(content[-1])
            self._append(b"".join(content))
        except OSError:
            self.start, self.end, self.counts, self._definitions, indices = before
            del self._chunk_indices[indices:]
            raise

    def close(self, metadata: str) -> None:
        """End the file with rosbag2's `metadata` as YAML, which replaces what the file began with to its readers; the
        file is closed and complete also when this fails.
        """
        try:
            content = b"".join(self._definitions)
            self._definitions.clear()
            self._append_metadata(content, metadata)
        finally:
            os.close(self._file)

    def _chunk(self, messages: Sequence[Message], position: int) -> bytes:
        """Return the chunk that starts at `position` of the file, and the indices of its messages."""
        parts, offset = self._definitions, sum(map(len, self._definitions))
        self._definitions = []
        offsets: dict[int, list[int]] = {}
        for channel, received, sent, data in messages:
            offsets.setdefault(channel, []).extend((received, offset))
            parts.append(MESSAGE.pack(Opcode.MESSAGE, MESSAGE_FIELDS + len(data), channel, 0, received, sent))
            parts.append(data)
            offset += MESSAGE.size + len(data)
        content = b"".join(parts)
        stored, compression = content, ""
        if self._level is not None:
            stored, compression = compress(content, self._level), "zstd"
        times = struct.pack("<QQ", messages[0][1], messages[-1][1])
        chunk = record(
            Opcode.CHUNK,
            times,
            struct.pack("<QI", len(content), zlib.crc32(content)),
            string(compression),
            struct.pack("<Q", len(stored)),
            stored,
        )
        indices, places = [], {}
        place = position + len(chunk)
        for channel, numbers in offsets.items():
            places[channel] = place
            head = struct.pack("<HI", channel, 8 * len(numbers))
            indices.append(record(Opcode.MESSAGE_INDEX, head, struct.pack(f"<{len(numbers)}Q", *numbers)))
            place += len(indices[-1])
        self._chunk_indices.append(
            record(
                Opcode.CHUNK_INDEX,
                times,
                struct.pack("<QQ", position, len(chunk)),
                number_map(places),
                struct.pack("<Q", sum(map(len, indices))),
                string(compression),
                struct.pack("<QQ", len(stored), len(content)),
            )
        )
        self.start = min(self.start, messages[0][1]) if self.count else messages[0][1]
        self.end = max(self.end, messages[-1][1])
        for channel, numbers in offsets.items():
            self.counts[channel] += len(numbers) // 2
        return chunk + b"".join(indices)

    def _append_metadata(self, content: bytes, metadata: str) -> None:
        described = record(Opcode.METADATA, string("rosbag2"), string_map({"serialized_metadata": metadata}))
        place = struct.pack("<QQ", self._data_end + len(content), len(described))
        self._metadata_indices.append(record(Opcode.METADATA_INDEX, place, string("rosbag2")))
        try:
            self._append(content + described)
        except OSError:
            self._metadata_indices.pop()
            raise

    def _append(self, content: bytes) -> None:
        data_end = self._data_end + len(content)
        index = self._file_index(data_end)
        try:
            self._write_at(self._data_end, content + index)
        except OSError:
            with contextlib.suppress(OSError):
                self._write_at(self._data_end, self._index)
                os.ftruncate(self._file, self.size)
            raise
        self._data_end, self._index = data_end, index

    def _write_at(self, position: int, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            written = os.pwrite(self._file, rest, position)
            position += written
            rest = rest[written:]

    def _file_index(self, position: int) -> bytes:
        """Return all that follows the data, which ends at `position`."""
        data_end = record(Opcode.DATA_END, struct.pack("<I", 0))
        start = position = position + len(data_end)
        groups = {
            Opcode.SCHEMA: b"".join(self._schemas),
            Opcode.CHANNEL: b"".join(self._channels),
            Opcode.STATISTICS: self._statistics(),
            Opcode.CHUNK_INDEX: b"".join(self._chunk_indices),
            Opcode.METADATA_INDEX: b"".join(self._metadata_indices),
        }
        offsets = []
        for opcode, content in groups.items():
            if content:
                offsets.append(record(Opcode.SUMMARY_OFFSET, struct.pack("<BQQ", opcode, position, len(content))))
            position += len(content)
        summary = b"".join([*groups.values(), *offsets])
        footer = struct.pack("<BQQQ", Opcode.FOOTER, 20, start, position)
        checksum = struct.pack("<I", zlib.crc32(footer, zlib.crc32(summary)))
        return data_end + summary + footer + checksum + MAGIC

    def _statistics(self) -> bytes:
        records = (self._schemas, self._channels, (), self._metadata_indices, self._chunk_indices)
        numbers = (self.count, *map(len, records))
        times = struct.pack("<QQ", self.start, self.end)
        return record(Opcode.STATISTICS, struct.pack("<QHIIII", *numbers), times, number_map(self.counts))
