"""Finds messages of a recording by their time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
SAME_STAMP = 1e-6  # [s] stamps as doubles are good to half a microsecond


def newest(stamps: Array, time: Array) -> Rows:
    """Which of `stamps` is the newest at each time; -1 before the first. Out of order, the newest is the largest."""
    order = np.argsort(stamps, kind="stable")
    place = np.searchsorted(stamps[order], time, side="right") - 1
    return np.where(place >= 0, order[place], -1)


def same(stamps: Array, wanted: Array) -> Rows:
    """Where in `stamps` each wanted stamp is; -1 where it is not."""
    if not len(stamps):
        return np.full(len(wanted), -1)
    order = np.argsort(stamps, kind="stable")
    ranked = stamps[order]
    place = np.clip(np.searchsorted(ranked, wanted - SAME_STAMP), 0, len(stamps) - 1)
    return np.where(np.abs(ranked[place] - wanted) <= SAME_STAMP, order[place], -1)
