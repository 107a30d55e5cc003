"""Arrays of a page: rounded to a visible step and packed into one text that the page unpacks without a library.

Every array is stored as differences of integer multiples of its step, high bytes before low bytes, which deflate
compresses to a third; a ten-minute walk takes 2 to 3 MB.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from fcnet_core.arrays import Array

UNKNOWN = 0xFFFF  # stands for NaN
LEVELS = 0xFFFE  # maximum multiple


class PackedArrays:
    """The arrays of one page; plots.js unpacks them."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._known: dict[bytes, int] = {}
        self.index: list[dict[str, Any]] = []

    def add(self, values: Array, step: float | None = None) -> int:
        """Add `values` (N,) and return their number in the page.

        They are rounded to multiples of `step`, or of 1/65 534 of their range if that is larger; without a step they
        keep the 24 bits of a float32.
        """
        content = (np.asarray(values, "<f4").tobytes(), {"step": 0}) if step is None else _rounded(values, step)
        key = content[0] + repr(content[1]).encode()
        if key not in self._known:
            self._known[key] = len(self._parts)
            self._parts.append(content[0])
            self.index.append({"count": len(values), **content[1]})
        return self._known[key]

    def text(self) -> str:
        """Return all arrays, compressed, as base64."""
        return base64.b64encode(zlib.compress(b"".join(self._parts), 9)).decode()


def _rounded(values: Array, step: float) -> tuple[bytes, dict[str, Any]]:
    known = np.isfinite(values)
    low = float(values[known].min(initial=np.inf)) if known.any() else 0.0
    high = float(values[known].max()) if known.any() else 0.0
    step = max(step, (high - low) / LEVELS)
    whole = np.full(len(values), UNKNOWN, dtype=np.uint16)
    whole[known] = np.round((values[known] - low) / step).astype(np.uint16)
    change = np.diff(whole, prepend=np.uint16(0))  # modulo 65 536, as are the page's sums
    return (change >> 8).astype(np.uint8).tobytes() + change.astype(np.uint8).tobytes(), {"low": low, "step": step}
