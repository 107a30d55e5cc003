"""Turns many CDR messages of one type into arrays at once.

Messages of one topic nearly always share their structure (the same strings, sequences of the same length): then every
number lies at the same place in all of them, and one look at the first message decodes all. Decoding them one by one
would take longer than replaying the policy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, TypesysError, get_types_from_idl, get_types_from_msg, get_typestore

from fcnet_core.arrays import Mask
from fcnet_replay.errors import ReplayError
from fcnet_replay.run import Bytes, Rows

LARGEST_DEFINITION = 64 * 2**10  # [bytes] the longest of the Unitree robots' has three thousand
ENCAPSULATION = 4  # [bytes] before the content of every message; alignment counts from there
LITTLE_ENDIAN = b"\x00\x01"
NUMBERS = {
    "bool": "u1", "octet": "u1", "byte": "u1", "char": "u1", "int8": "i1", "uint8": "u1",
    "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4", "int64": "<i8", "uint64": "<u8",
    "float32": "<f4", "float64": "<f8",
}  # fmt: skip
MOST_STRUCTURES = 500  # of one topic's messages; each costs a walk through a message
MOST_FIELDS = 20_000  # of one message
DEEPEST = 50  # types within types

Fields = Mapping[str, Any]  # kind -> (constants, [(field, definition)]) as rosbags describes types


class _Defined(dict[str, Any]):
    """Types that a bag defines. Those that it lacks are ROS's, which take as long to load as a minute's bag."""

    def __missing__(self, kind: str) -> Any:
        return _known()[kind]


@lru_cache(maxsize=1)
def _known() -> Fields:
    return get_typestore(Stores.ROS2_JAZZY).fielddefs


def fields_for(kind: str, definitions: Mapping[str, tuple[str, str]]) -> Fields:
    """The fields of types, looked up by [], among which `kind` is if it is among the definitions (kind -> encoding and
    text) or known.

    They are not registered with rosbags, which would run code that it generates from the bag's text.
    """
    return _defined(kind, *definitions.get(kind, ("", "")))


@lru_cache(maxsize=64)
def _defined(kind: str, encoding: str, text: str) -> Fields:
    if not text or len(text) > LARGEST_DEFINITION:
        return _Defined()
    try:
        return _Defined(get_types_from_idl(text) if encoding == "ros2idl" else get_types_from_msg(text, kind))
    except (TypesysError, ValueError, KeyError, IndexError, AttributeError, TypeError, RecursionError):
        return _Defined()


@dataclass(frozen=True)
class Columns:
    """Messages of one structure: `rows` (N,) are their places in what was given; numbers: field -> (N, count);
    texts: field -> the strings, which all of them share. Fields are named as in `points[0].positions`.
    """

    rows: Rows
    numbers: Mapping[str, npt.NDArray[Any]]
    texts: dict[str, list[str]]


class ColumnDecoder:
    """Decodes messages of type `kind`; it remembers the structures that it has met."""

    def __init__(self, kind: str, types: Fields) -> None:
        self._kind = kind
        self._types = types
        self._layouts: dict[int, list[_Layout]] = {}
        self._structures = 0

    def decode(self, content: Bytes, size: Rows) -> Iterator[Columns | tuple[int, str]]:
        """Decode messages of `size` (N,) bytes that lie one after the other in `content`: groups of one structure, and
        of every message that cannot be decoded its row and why.
        """
        ends = np.cumsum(size)
        for length in np.unique(size).tolist():
            rows = np.flatnonzero(size == length)
            if len(rows) == len(size):
                messages = content.reshape(len(rows), length)
            else:
                messages = content[(ends[rows] - length)[:, None] + np.arange(length)]
            yield from self._same_size(rows, messages)

    def _same_size(self, rows: Rows, messages: Bytes) -> Iterator[Columns | tuple[int, str]]:
        layouts = self._layouts.setdefault(messages.shape[1], [])
        tried = 0
        while len(rows):
            if tried == len(layouts):
                try:
                    layouts.append(self._learn(messages[0].tobytes()))
                except ReplayError as error:
                    yield int(rows[0]), str(error)
                    rows, messages = rows[1:], messages[1:]
                    continue
            layout = layouts[tried]
            tried += 1
            same = layout.shared_by(messages)
            if same.all():
                yield Columns(rows, layout.numbers_of(messages), layout.texts)
                return
            yield Columns(rows[same], layout.numbers_of(messages[same]), layout.texts)
            rows, messages = rows[~same], messages[~same]

    def _learn(self, message: bytes) -> _Layout:
        self._structures += 1
        if self._structures > MOST_STRUCTURES:
            raise ReplayError(f"they have more than {MOST_STRUCTURES} different structures")
        if message[:2] != LITTLE_ENDIAN:
            raise ReplayError("they are not little-endian CDR")
        cursor = _Cursor(message, self._types)
        cursor.message("", self._kind)
        return cursor.layout


class _Layout:
    """Where the numbers of `message` lie, and which of its bytes, its lengths and strings, are its structure."""

    def __init__(self, message: bytes) -> None:
        self.numbers: dict[str, tuple[int, str, int]] = {}
        self.texts: dict[str, list[str]] = {}
        self._message = message
        self._fixed = bytearray(len(message))
        self.fix(0, len(LITTLE_ENDIAN))

    def fix(self, start: int, end: int) -> None:
        """Take these bytes for structure."""
        self._fixed[start:end] = b"\xff" * (end - start)

    def shared_by(self, messages: Bytes) -> Mask:
        """Which messages (N, length) have this structure."""
        count, length = messages.shape
        places, wanted, fixed = self._words
        each_place = np.ndarray((count, length - fixed.itemsize + 1), fixed.dtype, messages, strides=(length, 1))
        different = each_place[:, places]
        different ^= wanted
        different &= fixed
        return np.equal(np.bitwise_or.reduce(different, axis=1), 0)

    @cached_property
    def _words(self) -> tuple[list[int], npt.NDArray[Any], npt.NDArray[Any]]:
        """The structure by words of eight bytes, so that few comparisons do: their places, their values, and which bits
        of them belong to the structure. What lies between strings belongs to nothing and may be anything.
        """
        kind = np.dtype("<u8" if len(self._message) >= 8 else "u1")
        last = len(self._message) - kind.itemsize
        places: list[int] = []
        at = self._fixed.find(0xFF)
        while at >= 0:
            places.append(min(at, last))
            at = self._fixed.find(0xFF, places[-1] + kind.itemsize)
        fixed, message = (
            np.ndarray(last + 1, kind, content, strides=(1,))[places] for content in (self._fixed, self._message)
        )
        return places, message & fixed, fixed

    def numbers_of(self, messages: Bytes) -> Mapping[str, npt.NDArray[Any]]:
        return _Numbers(self.numbers, messages)


@dataclass(frozen=True)
class _Numbers(Mapping[str, "npt.NDArray[Any]"]):
    """The numbers of messages (N, length) by field, taken from them when they are asked for: most never are."""

    places: dict[str, tuple[int, str, int]]
    messages: Bytes

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        at, kind, count = self.places[name]
        return self.messages[:, at : at + count * np.dtype(kind).itemsize].view(kind)

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


class _Cursor:
    """Walks through one message along its type."""

    def __init__(self, content: bytes, types: Fields) -> None:
        self.content = content
        self.types = types
        self.at = ENCAPSULATION
        self.layout = _Layout(content)
        self.fields = 0

    def align(self, size: int) -> None:
        self.at += -(self.at - ENCAPSULATION) % size

    def take(self, length: int) -> int:
        start, self.at = self.at, self.at + length
        if self.at > len(self.content):
            raise ReplayError(f"one of {len(self.content)} bytes ends too early")
        return start

    def count(self) -> int:
        self.align(4)
        start = self.take(4)
        self.layout.fix(start, self.at)
        (value,) = struct.unpack_from("<I", self.content, start)
        if value > len(self.content):
            raise ReplayError(f"one of {len(self.content)} bytes claims {value} elements")
        return int(value)

    def text(self, name: str) -> None:
        length = self.count()
        start = self.take(length)
        self.layout.fix(start, self.at)
        text = self.content[start : self.at].rstrip(b"\0").decode(errors="replace")
        self.layout.texts.setdefault(name, []).append(text)

    def numbers(self, name: str, kind: str, count: int) -> None:
        if kind not in NUMBERS:
            raise ReplayError(f"they hold a {kind}, which cannot be read")
        size = np.dtype(NUMBERS[kind]).itemsize
        if count:
            self.align(size)
        self.layout.numbers[name] = (self.take(count * size), NUMBERS[kind], count)

    def message(self, name: str, kind: str) -> None:
        try:
            fields = self.types[kind]
        except KeyError:
            raise ReplayError(f"the type {kind} is not known") from None
        if name.count(".") > DEEPEST:
            raise ReplayError("their type is nested too deeply")
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
            self.numbers(name, detail[0], count)
            return
        self.fields += count
        if self.fields > MOST_FIELDS:
            raise ReplayError(f"they have more than {MOST_FIELDS} fields")
        if node is Nodetype.BASE:
            self.layout.texts.setdefault(name, [])
        for index in range(count):
            if node is Nodetype.BASE:
                self.text(name)
            else:
                self.value(name if plain else f"{name}[{index}]", definition)
