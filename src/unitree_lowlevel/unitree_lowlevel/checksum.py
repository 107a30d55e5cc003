"""The checksum at the end of every datagram."""

from __future__ import annotations

import zlib

import numpy as np

_REVERSED_BITS = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def crc32_mpeg2(words: bytes) -> int:
    """CRC-32/MPEG-2 (polynomial 04C11DB7, start FFFFFFFF) over little-endian 32-bit words, the high bit of each first.

    words: a whole number of words. zlib's CRC has the same polynomial but takes the low bit of each byte first and
    inverts its result, so bytes are turned round within words, bits within bytes, and the result once more.
    """
    reflected = np.frombuffer(words, dtype="<u4").byteswap().tobytes().translate(_REVERSED_BITS)
    return int(f"{zlib.crc32(reflected) ^ 0xFFFFFFFF:032b}"[::-1], 2)
