"""What commands and states have in common on the wire: size, head and checksum."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unitree_lowlevel.checksum import crc32_mpeg2
from unitree_lowlevel.generation import GENERATIONS, LOW_LEVEL, Generation
from unitree_lowlevel.wire_error import WireError

Record = npt.NDArray[np.void]
_SIZES = {size: each.name for each in GENERATIONS.values() for size in (each.command_size, each.state_size)}


def blank(generation: Generation, layout: np.dtype[np.void]) -> Record:
    """A record (1,) of zeros with head and level filled in."""
    record = np.zeros(1, dtype=layout)
    record["level"] = LOW_LEVEL
    if generation.head:
        record["head"] = tuple(generation.head)
    return record


def sealed(record: Record, checked: int) -> bytes:
    """The datagram of a record (1,), with the checksum over its first `checked` bytes at its end."""
    body = record.tobytes()
    return body[:-4] + crc32_mpeg2(body[:checked]).to_bytes(4, "little")


def opened(generation: Generation, layout: np.dtype[np.void], checked: int, datagram: bytes) -> Record:
    """The record (1,) that a datagram holds, a view of its bytes.

    Raises WireError for a wrong size (longer ones are not cut), a wrong head or a wrong checksum.
    """
    if len(datagram) != layout.itemsize:
        raise _wrong_size(generation, layout.itemsize, len(datagram))
    if not datagram.startswith(generation.head):
        found = datagram[: len(generation.head)].hex()
        raise WireError(
            "head", f"a {generation.name} datagram starts with {generation.head.hex()}, this one with {found}"
        )
    expected = crc32_mpeg2(datagram[:checked])
    found_checksum = int.from_bytes(datagram[-4:], "little")
    if found_checksum != expected:
        raise WireError("checksum", f"the checksum of a datagram is {found_checksum:08x} instead of {expected:08x}")
    return np.frombuffer(datagram, dtype=layout)


def _wrong_size(generation: Generation, expected: int, found: int) -> WireError:
    other = _SIZES.get(found, generation.name)
    if other != generation.name:
        sentence = f"a datagram of {found} bytes is {other}, not {generation.name}: set the generation to {other}"
        return WireError("generation", sentence)
    return WireError("size", f"a {generation.name} datagram has {expected} bytes, this one {found}")
