"""Arrays in a page: rounded to what can be seen, and packed into one text that a page unpacks without a library.

Every array is stored as differences of whole multiples of its step, high bytes before low bytes, which deflate shrinks
to a third; numbers of a walk of ten minutes take 2 to 3 MB that way.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from fcnet_core.arrays import Array

UNKNOWN = 0xFFFF  # stands for NaN
LEVELS = 0xFFFE  # the largest multiple


class PackedArrays:
    """Arrays that are gathered for one page; plots.js unpacks them."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._known: dict[bytes, int] = {}
        self.index: list[dict[str, Any]] = []

    def add(self, values: Array, step: float | None = None) -> int:
        """The number under which the page finds `values` (N,), rounded to multiples of `step`, or to 1/65 534 of their
        range where that is coarser; without a step they keep the 24 bits of a float32.
        """
        content = _exact(values) if step is None else _rounded(values, step)
        key = content[0] + repr(content[1]).encode()
        if key not in self._known:
            self._known[key] = len(self._parts)
            self._parts.append(content[0])
            self.index.append({"count": len(values), **content[1]})
        return self._known[key]

    def text(self) -> str:
        """All of them, compressed, as base64."""
        return base64.b64encode(zlib.compress(b"".join(self._parts), 9)).decode()


def _exact(values: Array) -> tuple[bytes, dict[str, Any]]:
    return np.asarray(values, dtype="<f4").tobytes(), {"step": 0}


def _rounded(values: Array, step: float) -> tuple[bytes, dict[str, Any]]:
    known = np.isfinite(values)
    low = float(values[known].min(initial=np.inf)) if known.any() else 0.0
    high = float(values[known].max()) if known.any() else 0.0
    step = max(step, (high - low) / LEVELS)
    whole = np.full(len(values), UNKNOWN, dtype=np.uint16)
    whole[known] = np.round((values[known] - low) / step).astype(np.uint16)
    change = np.diff(whole, prepend=np.uint16(0))  # modulo 65 536, as it is added up again
    return (change >> 8).astype(np.uint8).tobytes() + change.astype(np.uint8).tobytes(), {"low": low, "step": step}
