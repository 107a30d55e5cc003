"""Turns many CDR messages of one type into arrays at once.

Messages of one topic nearly always share their structure (the same strings, sequences of the same length): then every
number lies at the same place in all of them, and one look at the first message decodes all. Decoding them one by one
would take longer than replaying the policy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

ENCAPSULATION = 4  # [bytes] before the content of every message; alignment counts from there
LITTLE_ENDIAN = b"\x00\x01"
NUMBERS = {
    "bool": "u1", "octet": "u1", "byte": "u1", "char": "u1", "int8": "i1", "uint8": "u1",
    "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4", "int64": "<i8", "uint64": "<u8",
    "float32": "<f4", "float64": "<f8",
}  # fmt: skip


class UndecodableError(ValueError):
    """A message is not what its type says; the sentence says how."""


@dataclass(frozen=True)
class Columns:
    """Messages of one structure: `rows` (N,) are their places in what was given; numbers: field -> (N, count);
    texts: field -> the strings, which all of them share. Fields are named as in `points[0].positions`.
    """

    rows: npt.NDArray[np.int64]
    numbers: dict[str, npt.NDArray[Any]]
    texts: dict[str, list[str]]


def decode_columns(kind: str, messages: Sequence[bytes]) -> Iterator[Columns]:
    """Decode messages of type `kind`, group by group of one structure. Raises UndecodableError."""
    lengths = np.array([len(message) for message in messages], dtype=np.int64)
    for length in np.unique(lengths):
        left = np.flatnonzero(lengths == length)
        content = np.frombuffer(b"".join(messages[row] for row in left.tolist()), dtype=np.uint8).reshape(
            len(left), length
        )
        while len(left):
            layout = _layout(kind, content[0].tobytes())
            same = layout.shared_by(content)
            yield Columns(left[same], layout.numbers_of(content[same]), layout.texts)
            left, content = left[~same], content[~same]


@dataclass
class _Layout:
    """Where the numbers of a message lie. `structure`: spans of lengths and strings, which must be the same."""

    numbers: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    structure: list[tuple[int, int]] = field(default_factory=lambda: [(0, len(LITTLE_ENDIAN))])

    def fix(self, start: int, end: int) -> None:
        if self.structure[-1][1] == start:
            start = self.structure.pop()[0]
        self.structure.append((start, end))

    def shared_by(self, content: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
        """Which rows have the structure of the first."""
        same = np.ones(len(content), dtype=np.bool_)
        for start, end in self.structure:
            span = np.ascontiguousarray(content[:, start:end]).view(f"V{end - start}")[:, 0]
            same &= span == span[0]
        return same

    def numbers_of(self, content: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[Any]]:
        return {
            name: np.ascontiguousarray(content[:, at : at + count * np.dtype(kind).itemsize]).view(kind)
            for name, (at, kind, count) in self.numbers.items()
        }


@lru_cache(maxsize=1)
def _types() -> Typestore:
    return get_typestore(Stores.ROS2_JAZZY)


class _Cursor:
    """Walks through one message along its type."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = ENCAPSULATION
        self.layout = _Layout()

    def align(self, size: int) -> None:
        self.at += -(self.at - ENCAPSULATION) % size

    def take(self, length: int) -> int:
        start, self.at = self.at, self.at + length
        if self.at > len(self.content):
            raise UndecodableError(f"a message of {len(self.content)} bytes ends too early")
        return start

    def count(self) -> int:
        self.align(4)
        start = self.take(4)
        self.layout.fix(start, start + 4)
        (value,) = struct.unpack_from("<I", self.content, start)
        if value > len(self.content):
            raise UndecodableError(f"a message of {len(self.content)} bytes claims {value} elements")
        return int(value)

    def text(self, name: str) -> None:
        length = self.count()
        start = self.take(length)
        if length:
            self.layout.fix(start, self.at)
        text = self.content[start : self.at].rstrip(b"\0").decode(errors="replace")
        self.layout.texts.setdefault(name, []).append(text)

    def numbers(self, name: str, kind: str, count: int) -> None:
        size = np.dtype(kind).itemsize
        if count:
            self.align(size)
        self.layout.numbers[name] = (self.take(count * size), kind, count)

    def message(self, name: str, kind: str) -> None:
        fields = _types().fielddefs.get(kind)
        if fields is None:
            raise UndecodableError(f"the type {kind} is not known")
        for member, definition in fields[1]:
            self.value(f"{name}.{member}" if name else member, definition)

    def value(self, name: str, definition: Any) -> None:
        node, detail = definition
        if node is Nodetype.NAME:
            self.message(name, detail)
        elif node is Nodetype.BASE:
            self.elements(name, definition, 1, plain=True)
        else:
            element, size = detail
            self.elements(name, element, self.count() if node is Nodetype.SEQUENCE else size)

    def elements(self, name: str, definition: Any, count: int, plain: bool = False) -> None:
        node, detail = definition
        if node is Nodetype.BASE and detail[0] != "string":
            self.numbers(name, NUMBERS[detail[0]], count)
            return
        if node is Nodetype.BASE:
            self.layout.texts.setdefault(name, [])
        for index in range(count):
            if node is Nodetype.BASE:
                self.text(name)
            else:
                self.value(name if plain else f"{name}[{index}]", definition)


def _layout(kind: str, content: bytes) -> _Layout:
    if content[:2] != LITTLE_ENDIAN:
        raise UndecodableError("a message is not little-endian CDR")
    cursor = _Cursor(content)
    cursor.message("", kind)
    return cursor.layout
