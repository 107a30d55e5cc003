"""The states of a bag without targets, for a policy that is told its own."""

from __future__ import annotations

import numpy as np

from fcnet_core.replay.counted_steps import STALE
from fcnet_core.replay.recorded_commands import setpoints
from fcnet_core.replay.recorded_run import RecordedRun
from fcnet_core.replay.stamps import newest
from fcnet_core.replay.timed_states import TimedStates


def lone_states(run: RecordedRun) -> TimedStates:
    """Every joint state that can be one, with the newest IMU and the commands of its time; cold after every gap."""
    finite = np.isfinite(run.joints.position).all(axis=1) & np.isfinite(run.joints.velocity).all(axis=1)
    later = run.joints.stamp > np.maximum.accumulate(np.append(-np.inf, run.joints.stamp[:-1]))
    imu = newest(run.imu.stamp, run.joints.stamp)
    told = np.isfinite(run.imu.orientation[imu]).all(axis=1) & np.isfinite(run.imu.angular_velocity[imu]).all(axis=1)
    rows = np.flatnonzero(finite & later & told & (imu >= 0))
    time = run.joints.stamp[rows]
    return TimedStates(
        time,
        run.joints.position[rows],
        run.joints.velocity[rows],
        run.imu.orientation[imu[rows]],
        run.imu.angular_velocity[imu[rows]],
        setpoints(run, run.joints.received[rows]),
        np.append(True, np.diff(time) > STALE)[: len(time)],
    )
