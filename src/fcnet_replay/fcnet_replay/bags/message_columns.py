"""Decodes many CDR messages of one type into arrays at once.

Messages of one topic nearly always share their structure (equal strings, sequences of equal length). Every number then
lies at the same offset in all of them, so a walk through the first message decodes all. Decoding them one by one would
take longer than replaying the policy.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, TypesysError, get_types_from_idl, get_types_from_msg, get_typestore

from fcnet_core.arrays import Bytes, Mask, Rows
from fcnet_core.errors import FcnetError, ReplayError
from fcnet_core.files import read_file

LARGEST_DEFINITION = 64 * 2**10  # [bytes] the longest of the Unitree robots' has three thousand
ENCAPSULATION = 4  # [bytes] before the content of a message; alignment counts from its end
LITTLE_ENDIAN = b"\x00\x01"
NUMBERS = {
    "bool": "u1", "octet": "u1", "byte": "u1", "char": "u1", "int8": "i1", "uint8": "u1",
    "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4", "int64": "<i8", "uint64": "<u8",
    "float32": "<f4", "float64": "<f8",
}  # fmt: skip
MOST_STRUCTURES = 500  # of the messages of one topic; each costs a walk through a message
MOST_FIELDS = 20_000  # of one message
DEEPEST = 50  # nested types

Fields = Mapping[str, Any]  # kind -> (constants, [(field, definition)]) as rosbags describes types
Numbers = npt.NDArray[Any]


_known = cache(lambda: get_typestore(Stores.ROS2_JAZZY).fielddefs)


class _Defined(dict[str, Any]):
    """Types that a bag defines, or else ROS's own, or else those of sourced workspaces. Loading ROS's types takes as
    long as reading a minute of a bag.
    """

    def __missing__(self, kind: str) -> Any:
        known = _known()
        return known[kind] if kind in known else _installed(kind)[kind]


def _installed(kind: str) -> Fields:
    """Return the fields of a type by its .msg file in a sourced workspace of ROS; empty if there is none."""
    package, _, name = kind.partition("/msg/")
    if package.isidentifier() and name.isidentifier():  # a bag names it, which must not lead to other files
        for prefix in filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)):
            path = Path(prefix, "share", package, "msg", f"{name}.msg")
            try:
                return _parsed(read_file(path, "the type", LARGEST_DEFINITION).decode(errors="replace"), kind)
            except FcnetError:
                continue
    return {}


@lru_cache(maxsize=64)
def fields_for(kind: str, encoding: str = "", text: str = "") -> Fields:
    """Return the fields of types by name: from the bag's definition of `kind`, or else from ROS's own types.

    They are not registered with rosbags, which would run code that it generates from the bag's text.
    """
    return _Defined(_parsed(text, kind, encoding))


def _parsed(text: str, kind: str, encoding: str = "") -> Fields:
    """Return the fields of the types that a text defines; empty if it cannot be read."""
    if not text or len(text) > LARGEST_DEFINITION:
        return {}
    try:
        return get_types_from_idl(text) if encoding == "ros2idl" else get_types_from_msg(text, kind)
    except (TypesysError, ValueError, KeyError, IndexError, AttributeError, TypeError, RecursionError):
        return {}


@dataclass(frozen=True)
class Columns:
    """Messages (N, length) of one structure; rows (N,): their indices in the decoded batch. The strings of all are
    layout.texts. Fields have paths such as `points[0].positions`.
    """

    rows: Rows
    messages: Bytes
    layout: Layout

    def numbers(self, field: str) -> Numbers | None:
        """Return the numbers (N, count) of a field, or None if the messages have no such field of numbers."""
        if field not in self.layout.places:
            return None
        at, kind, count = self.layout.places[field]
        return self.messages[:, at : at + count * np.dtype(kind).itemsize].view(kind)


class ColumnDecoder:
    """Decodes messages of type `kind` and keeps the layouts that it has found."""

    def __init__(self, kind: str, types: Fields) -> None:
        self._kind = kind
        self._types = types
        self._layouts: dict[int, list[Layout]] = {}  # by the length of messages
        self._structures = 0
        self._unreadable = ""  # why none of the messages so far could be read

    def decode(self, content: Bytes, size: Rows) -> Iterator[Columns | tuple[int, str]]:
        """Decode concatenated messages of `size` (N,) bytes. Yield groups of one structure, and the row and the reason
        of each message that cannot be decoded.
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
                self._structures += 1
                try:
                    if self._structures > MOST_STRUCTURES:
                        too_many = f"they have more than {MOST_STRUCTURES} different structures"
                        raise ReplayError(self._unreadable or too_many)
                    layouts.append(Layout(messages[0].tobytes(), self._kind, self._types))
                    self._unreadable = ""
                except ReplayError as error:
                    self._unreadable = "" if any(self._layouts.values()) else str(error)
                    yield int(rows[0]), str(error)
                    rows, messages = rows[1:], messages[1:]
                    continue
            layout = layouts[tried]
            tried += 1
            same = layout.shared_by(messages)
            if same.all():
                yield Columns(rows, messages, layout)
                return
            if same.any():
                yield Columns(rows[same], messages[same], layout)
            rows, messages = rows[~same], messages[~same]


class Layout:
    """Offsets of the numbers in a message, and which of its bytes (lengths and strings) are its structure. Found by a
    walk through one message along its type.

    places: offset, NumPy type and count of the numbers by field; texts: strings by field. Raises ReplayError if the
    message does not match its type.
    """

    def __init__(self, message: bytes, kind: str, types: Fields) -> None:
        if message[:2] != LITTLE_ENDIAN:
            raise ReplayError("they are not little-endian CDR")
        self.places: dict[str, tuple[int, str, int]] = {}
        self.texts: dict[str, list[str]] = {}
        self._message = message
        self._types = types
        self._structure = bytearray(len(message))
        self._at = self._fields = 0
        self._fix(len(LITTLE_ENDIAN))
        self._at = ENCAPSULATION
        self._walk("", (Nodetype.NAME, kind))

    def shared_by(self, messages: Bytes) -> Mask:
        """Return which of the messages (N, length) have this structure."""
        count, length = messages.shape
        places, wanted, fixed = self._words
        each_place = np.ndarray((count, length - fixed.itemsize + 1), fixed.dtype, messages, strides=(length, 1))
        different = each_place[:, places]
        different ^= wanted
        different &= fixed
        return np.equal(np.bitwise_or.reduce(different, axis=1), 0)

    @cached_property
    def _words(self) -> tuple[list[int], Numbers, Numbers]:
        """Offsets, values and masks of the words of eight bytes that hold the structure: a few comparisons instead of
        one a byte. Padding between strings is not part of the structure; writers leave any bytes there.
        """
        kind = np.dtype("<u8" if len(self._message) >= 8 else "u1")
        last = len(self._message) - kind.itemsize
        places: list[int] = []
        at = self._structure.find(0xFF)
        while at >= 0:
            places.append(min(at, last))
            at = self._structure.find(0xFF, places[-1] + kind.itemsize)
        fixed, message = (
            np.ndarray(last + 1, kind, content, strides=(1,))[places] for content in (self._structure, self._message)
        )
        return places, message & fixed, fixed

    def _walk(self, name: str, definition: Any) -> None:
        self._fields += 1
        if self._fields > MOST_FIELDS:
            raise ReplayError(f"they have more than {MOST_FIELDS} fields")
        if name.count(".") > DEEPEST:
            raise ReplayError("their type is nested too deeply")
        node, detail = definition
        if node is Nodetype.NAME:
            try:
                _, members = self._types[detail]
            except KeyError:
                why = f"the type {detail} is not known, since neither the bag nor ROS describes it"
                how = "record with `ros2 bag record --storage mcap`, which writes types into the bag, or source a"
                package = f"workspace that has the package {detail.partition('/')[0]}, then try again"
                raise ReplayError(f"{why}; {how} {package}") from None
            for member, kind in members:
                self._walk(f"{name}.{member}" if name else member, kind)
        elif node is Nodetype.BASE:
            self._walk_elements(name, definition, 1)
        else:
            element, size = detail
            count = self._count() if node is Nodetype.SEQUENCE else size
            if element[0] is Nodetype.BASE:
                self._walk_elements(name, element, count)
            else:
                for index in range(count):
                    self._walk(f"{name}[{index}]", element)

    def _walk_elements(self, name: str, definition: Any, count: int) -> None:
        """Take `count` strings or numbers."""
        kind = definition[1][0]
        if kind == "string":
            texts = self.texts.setdefault(name, [])
            for _ in range(count):
                start = self._fix(self._count())
                texts.append(self._message[start : self._at].rstrip(b"\0").decode(errors="replace"))
        elif kind not in NUMBERS:
            raise ReplayError(f"they hold a {kind}, which cannot be read")
        else:
            size = np.dtype(NUMBERS[kind]).itemsize
            self._align(size if count else 1)
            self.places[name] = (self._take(count * size), NUMBERS[kind], count)

    def _count(self) -> int:
        self._align(4)
        (value,) = struct.unpack_from("<I", self._message, self._fix(4))
        if value > len(self._message):
            raise ReplayError(f"one of {len(self._message)} bytes claims {value} elements")
        return int(value)

    def _align(self, size: int) -> None:
        self._at += -(self._at - ENCAPSULATION) % size

    def _take(self, length: int) -> int:
        start, self._at = self._at, self._at + length
        if self._at > len(self._message):
            raise ReplayError(f"one of {len(self._message)} bytes ends too early")
        return start

    def _fix(self, length: int) -> int:
        """Take bytes that belong to the structure."""
        start = self._take(length)
        self._structure[start : self._at] = b"\xff" * length
        return start
