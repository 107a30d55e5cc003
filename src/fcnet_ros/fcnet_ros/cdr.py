"""Fields of messages as DDS carries them (CDR): read one by one within bounds, or written into one buffer.

The layout is XCDR1: four bytes of encapsulation, of which the second is 0 for big and 1 for little endian, then the
fields, each aligned to its own size from there.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fcnet_core import FcnetError
from fcnet_core.arrays import Array

MAX_SIZE = 32_768  # [bytes] of a message; the suite's have 0.8 kB at most
MAX_NAMES = 64  # joints of a message, of which a robot uses 12
MAX_TEXT = 256  # [bytes] of a name
HEADER = 4  # [bytes] of encapsulation
SECOND = 10**9  # [ns]
BYTE_ORDERS = {b"\0\0": ">", b"\0\1": "<"}


class MessageError(FcnetError):
    """A message is damaged or larger than any that is of use; it is ignored."""


@dataclass(frozen=True)
class _Formats:
    stamp: struct.Struct
    count: struct.Struct
    double: np.dtype[np.float64]


_STAMP = struct.Struct("<iI")
_FORMATS = {
    code: _Formats(struct.Struct(f"{order}iI"), struct.Struct(f"{order}I"), np.dtype(f"{order}f8"))
    for code, order in BYTE_ORDERS.items()
}


class CdrReader:
    """Reads a message field by field. Every method raises MessageError where the message ends before the field does."""

    def __init__(self, content: bytes, limit: int = MAX_SIZE) -> None:
        if len(content) > limit:
            raise MessageError(f"a message of {len(content)} bytes is ignored; the limit is {limit}")
        formats = _FORMATS.get(content[:2])
        if formats is None or len(content) < HEADER:
            raise MessageError("a message in another encoding than plain CDR is ignored")
        self.content, self.at = content, HEADER
        self._formats = formats

    def stamp(self) -> int:
        """Return a stamp [ns]."""
        self._require(8)
        second, nanosecond = self._formats.stamp.unpack_from(self.content, self.at)
        self.at += 8
        return int(second) * SECOND + int(nanosecond)

    def count(self, limit: int = 0xFFFFFFFF, what: str = "elements") -> int:
        """Return a number of elements up to `limit`."""
        self.at += -self.at % 4
        self._require(4)
        (count,) = self._formats.count.unpack_from(self.content, self.at)
        if count > limit:
            raise MessageError(f"a message with {count} {what} is ignored; the limit is {limit}")
        self.at += 4
        return int(count)

    def text(self, limit: int = MAX_TEXT) -> bytes:
        """Return a string in UTF-8."""
        length = self.count(limit + 1, "bytes of text")
        self._require(length)
        text = self.content[self.at : self.at + length]
        self.at += length
        return text.removesuffix(b"\0")

    def names(self) -> tuple[str, ...]:
        """Return a sequence of names."""
        return tuple(self.text().decode(errors="replace") for _ in range(self.count(MAX_NAMES, "names")))

    def doubles(self) -> Array:
        """Return a sequence of numbers."""
        count = self.count(MAX_NAMES, "numbers")
        return self.array(count) if count else _NOTHING

    def array(self, count: int) -> Array:
        """Return so many numbers."""
        begin = self.at + (HEADER - self.at) % 8
        self.at = begin + 8 * count
        self._require(0)
        return np.frombuffer(self.content, self._formats.double, count, begin)

    def _require(self, size: int) -> None:
        if self.at + size > len(self.content):
            raise MessageError("a message that ends too early is ignored")


_NOTHING: Array = np.zeros(0)


def read_text(content: bytes, limit: int) -> bytes:
    """Return the text of a String message in UTF-8, up to so many bytes. Raises MessageError."""
    return CdrReader(content, limit + 16).text(limit)


def stamp_of(content: bytes) -> int:
    """Return the stamp [ns] of a serialised message that begins with a header. Raises MessageError."""
    return CdrReader(content, len(content)).stamp()


def seconds(stamp: int) -> float:
    """Return a stamp [ns] as a number [s]: the same as of its two fields."""
    second, nanosecond = divmod(stamp, SECOND)
    return second + 1e-9 * nanosecond


class CdrBuffer:
    """A message in little endian whose fields are added once; afterwards numbers may be written again, at their places.

    The methods that add a field return where it begins.
    """

    def __init__(self) -> None:
        self._content = bytearray(b"\0\1\0\0")

    def __bytes__(self) -> bytes:
        return bytes(self._content)

    def add_integers(self, *values: int) -> int:
        """Add unsigned numbers of 32 bits: of stamps, lengths of sequences, sizes."""
        self._content += bytes(-len(self._content) % 4)
        begin = len(self._content)
        self._content += struct.pack(f"<{len(values)}I", *values)
        return begin

    def add_text(self, text: str) -> int:
        """Add a string; return where its characters begin."""
        encoded = text.encode() + b"\0"
        self.add_integers(len(encoded))
        begin = len(self._content)
        self._content += encoded
        return begin

    def add_texts(self, texts: Sequence[str]) -> None:
        """Add a sequence of strings."""
        self.add_integers(len(texts))
        for text in texts:
            self.add_text(text)

    def add_array(self, count: int) -> int:
        """Add so many numbers, which are zero."""
        self._content += bytes((HEADER - len(self._content)) % 8)
        begin = len(self._content)
        self._content += bytes(8 * count)
        return begin

    def add_doubles(self, count: int) -> int:
        """Add a sequence of so many numbers, which are zero."""
        self.add_integers(count)
        return self.add_array(count) if count else len(self._content)

    def add_header(self, frame: str) -> int:
        """Add a std_msgs/Header; return where the frame's characters begin."""
        self.add_integers(0, 0)
        return self.add_text(frame)

    def write_stamp(self, stamp: int) -> None:
        """Write the stamp [ns] of the header with which the message begins."""
        _STAMP.pack_into(self._content, HEADER, *divmod(stamp, SECOND))

    def write_array(self, begin: int, values: Array) -> None:
        """Write numbers where they were added."""
        self._content[begin : begin + 8 * len(values)] = values.astype("<f8", copy=False).tobytes()

    def write_text(self, begin: int, text: bytes) -> None:
        """Write a text of the same length where it was added."""
        self._content[begin : begin + len(text)] = text
