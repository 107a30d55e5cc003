"""Steps that a recording lacks though their states and targets are there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.replay.recorded_run import StepRecord

Rows = npt.NDArray[np.int64]
LATE = 1.5  # usual periods between two steps; in a longer time there may have been another one


def missing_before(steps: StepRecord, target: Rows, previous: Rows) -> Rows:
    """How many steps are missing before each step (K,) that the controller told: between two steps there are as many
    targets as control cycles, however late these were. Fewer mean targets that the bag lacks, and nothing else while
    there was no time for more.

    target, previous (K,): rows, in the order of arrival, of each step's targets and of those sent before, -1 where they
    are not in the recording.
    """
    missing = np.zeros(len(target), dtype=np.int64)
    if len(target) < 2:
        return missing
    follows = (target[:-1] >= 0) & (previous[1:] >= 0) & ~steps.cold[1:]
    if not follows.any():
        return missing
    between, time = previous[1:] - target[:-1] + 1, np.diff(steps.target_stamp)
    cycles, period = max(int(np.median(between[follows])), 1), float(np.median(time[follows]))
    wrong = follows & ((between > cycles) | (between < 1) | ((between < cycles) & (time > LATE * period)))
    missing[1:][wrong] = np.maximum(np.round(between[wrong] / cycles).astype(np.int64) - 1, 1)
    return missing
