"""When messages came: rates, gaps, disorder, and how long it took from state to target."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.replay.quantities import spread
from fcnet_core.replay.recorded_run import RecordedRun
from fcnet_core.replay.start_delay import start_delays

Array = npt.NDArray[np.float64]
GAP = 3.0  # usual intervals; longer is a gap
LATE = 0.02  # [s] between a message's stamp and its reception


def timing(run: RecordedRun) -> dict[str, Any]:
    """Of each topic its rate, gaps, delays and start; and the latency from the joints' stamp to the target's [s]."""
    topics = {
        "joint_states": (run.joints.stamp, run.joints.received),
        "imu/data": (run.imu.stamp, run.imu.received),
        "joint_trajectory": (run.targets.stamp, run.targets.received),
    }
    return {
        "topics": {topic: _topic(*record) for topic, record in topics.items()},
        "start_delay_s": start_delays(run),
        "state_to_target_s": spread(run.steps.target_stamp - run.steps.joints_stamp),
    }


def _topic(stamp: Array, received: Array) -> dict[str, Any]:
    if len(stamp) < 2:
        return {"messages": len(stamp)}
    interval = np.diff(np.sort(stamp))
    usual = float(np.median(interval))
    delay = received - stamp
    return {
        "messages": len(stamp),
        "rate_hz": (len(stamp) - 1) / float(stamp.max() - stamp.min()) if stamp.max() > stamp.min() else None,
        "gaps": int((interval > GAP * usual).sum()),
        "largest_gap_s": float(interval.max()),
        "out_of_order": int((np.diff(stamp) < 0).sum()),
        "delay_s": spread(delay),
        "late": int((delay > LATE).sum()),
    }
