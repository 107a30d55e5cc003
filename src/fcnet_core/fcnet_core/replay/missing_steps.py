"""Steps that a recording lacks though their states and targets are there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


def missing_before(target: Rows, previous: Rows, cold: Mask) -> Rows:
    """How many steps are missing before each step (K,): between two steps there are as many targets as control cycles,
    however late these were.

    target, previous (K,): rows, in the order of arrival, of each step's targets and of those sent before, -1 where they
    are not in the recording; cold (K,): steps that follow no other.
    """
    missing = np.zeros(len(target), dtype=np.int64)
    if len(target) < 2:
        return missing
    known = (target[:-1] >= 0) & (previous[1:] >= 0)
    between = previous[1:] - target[:-1] + 1
    follows = known & ~cold[1:]
    cycles = max(int(np.median(between[follows])), 1) if follows.any() else 1
    wrong = follows & (between != cycles)
    missing[1:][wrong] = np.maximum(np.round(between[wrong] / cycles).astype(np.int64) - 1, 1)
    return missing
