"""Long series in few points: where there are many values within a pixel, their smallest and largest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
BUCKETS = 500


def envelope(x: Array, y: Array) -> tuple[Array, Array]:
    """Points (P,), at most about two for each of BUCKETS equal parts of the range of x; NaN where a line must break.

    x is increasing. No extreme value is lost.
    """
    if len(x) <= 2 * BUCKETS:
        return x, y
    part = np.minimum((BUCKETS * (x - x[0]) / (x[-1] - x[0])).astype(np.int64), BUCKETS - 1)
    starts = np.flatnonzero(np.append(True, np.diff(part) > 0))
    known = np.isfinite(y)
    lowest = np.minimum.reduceat(np.where(known, y, np.inf), starts)
    highest = np.maximum.reduceat(np.where(known, y, -np.inf), starts)
    some = np.isfinite(lowest)
    points = np.column_stack([np.where(some, lowest, np.nan), np.where(some, highest, np.nan)])
    points[1::2] = points[1::2, ::-1]  # up and down in turn: one line through all
    middle = x[starts]
    return np.repeat(middle, 2), points.ravel()
