"""How long a controller was in each of its modes."""

from __future__ import annotations

import numpy as np

from fcnet_core.replay.recorded_run import RecordedRun


def mode_times(run: RecordedRun) -> dict[str, float]:
    """Seconds in each mode that occurred, in the order of first appearance; the last lasts to the recording's end."""
    if not run.mode.modes:
        return {}
    end = max(float(part.received[-1]) for part in (run.joints, run.imu) if len(part.received))
    ends = np.append(run.mode.received[1:], end)
    total: dict[str, float] = {}
    for mode, begun, ended in zip(run.mode.modes, run.mode.received, ends, strict=True):
        total[mode] = total.get(mode, 0.0) + max(float(ended - begun), 0.0)
    return total
