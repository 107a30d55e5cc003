"""Reads what is whole in an mcap file, also in one that breaks off."""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..verb_error import VerbError
from .mcap_record import MAGIC, Opcode
from .mcap_writer import Message
from .zstd import ZstdError, decompress

LARGEST_RECORD = 1 << 30  # bytes; a length beyond is damage
HEAD = struct.Struct("<BQ")


@dataclass(frozen=True)
class SavedChannel:
    """A topic of the file."""

    topic: str
    schema: int
    encoding: str
    metadata: dict[str, str]


@dataclass(frozen=True)
class SavedSchema:
    """A message type of the file."""

    name: str
    encoding: str
    text: str


class McapSalvage:
    """The schemas, channels and messages of a file up to the first damage."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.schemas: dict[int, SavedSchema] = {}
        self.channels: dict[int, SavedChannel] = {}
        self.damage = ""  # what ended the reading, if not the file's proper end

    def messages(self) -> Iterator[list[Message]]:
        """Give the messages chunk by chunk; the channel of each is known when it is given."""
        self.damage = f"it breaks off after {self.path.stat().st_size} bytes"
        with self.path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise VerbError(f"'{self.path}' is no mcap file")
            for position, opcode, content in _records(file):
                if opcode == Opcode.DATA_END:
                    self.damage = ""
                    return
                try:
                    found = self._take(opcode, content)
                except (ValueError, IndexError, struct.error, ZstdError) as error:
                    self.damage = f"the record at byte {position} is damaged ({error})"
                    return
                if found:
                    yield sorted(found, key=lambda message: message[1])

    def metadata(self) -> Iterator[str]:
        """Give what rosbag2's metadata records say about the bag, as YAML; those before the first damage."""
        with self.path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return
            for _, opcode, content in _records(file):
                if opcode == Opcode.METADATA:
                    fields = _Fields(content)
                    with contextlib.suppress(ValueError, struct.error):
                        if fields.string() == "rosbag2":
                            yield fields.string_map().get("serialized_metadata", "")

    def _take(self, opcode: int, content: bytes) -> list[Message]:
        if opcode == Opcode.CHUNK:
            inner = _Fields(_uncompressed(content))
            return [message for code, part in inner.records() for message in self._take(code, part)]
        fields = _Fields(content)
        if opcode == Opcode.SCHEMA:
            (number,) = fields.numbers("<H")
            self.schemas[number] = SavedSchema(fields.string(), fields.string(), fields.string())
        elif opcode == Opcode.CHANNEL:
            number, schema = fields.numbers("<HH")
            self.channels[number] = SavedChannel(fields.string(), schema, fields.string(), fields.string_map())
        elif opcode == Opcode.MESSAGE:
            number, _, received, sent = fields.numbers("<HIQQ")
            if number not in self.channels:
                raise ValueError(f"a message of the unknown channel {number}")
            return [(number, received, sent, fields.rest())]
        return []


class _Fields:
    """Takes a record's content apart."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def numbers(self, layout: str) -> tuple[int, ...]:
        numbers = struct.unpack_from(layout, self._content, self._position)
        self._position += struct.calcsize(layout)
        return numbers

    def take(self, size: int) -> bytes:
        part = self._content[self._position : self._position + size]
        if len(part) != size:
            raise ValueError(f"{size} bytes were expected and {len(part)} are left")
        self._position += size
        return part

    def string(self) -> str:
        return self.take(self.numbers("<I")[0]).decode()

    def string_map(self) -> dict[str, str]:
        inner = _Fields(self.take(self.numbers("<I")[0]))
        found = {}
        while inner._position < len(inner._content):
            key = inner.string()
            found[key] = inner.string()
        return found

    def rest(self) -> bytes:
        return self._content[self._position :]

    def records(self) -> Iterator[tuple[int, bytes]]:
        while self._position < len(self._content):
            opcode, size = self.numbers("<BQ")
            yield opcode, self.take(size)


def _records(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Give position, opcode and content of the records until one is not whole."""
    while True:
        position = file.tell()
        head = file.read(HEAD.size)
        if len(head) < HEAD.size:
            return
        opcode, size = HEAD.unpack(head)
        if size > LARGEST_RECORD:
            return
        content = file.read(size)
        if len(content) < size:
            return
        yield position, opcode, content


def _uncompressed(content: bytes) -> bytes:
    fields = _Fields(content)
    _, _, size, checksum = fields.numbers("<QQQI")
    compression = fields.string()
    stored = fields.take(fields.numbers("<Q")[0])
    if compression not in ("", "zstd"):
        raise ValueError(f"it is compressed with {compression}")
    whole = stored if not compression else decompress(stored)
    if len(whole) != size or (checksum and zlib.crc32(whole) != checksum):
        raise ValueError("its checksum or length is wrong")
    return whole
