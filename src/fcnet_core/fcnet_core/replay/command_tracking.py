"""How well the robot did what it was told: commanded against measured velocity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.replay.quantities import root_mean_square
from fcnet_core.replay.recorded_commands import setpoints
from fcnet_core.replay.recorded_run import RecordedRun
from fcnet_core.replay.stamps import newest

Array = npt.NDArray[np.float64]
AXES = ("forward_m_s", "sideways_m_s", "yaw_rate_rad_s")
STRIDE = 0.5  # [s] a body sways within its stride; what is tracked is the mean over about one
GRID = 0.02  # [s]


@dataclass(frozen=True)
class Velocities:
    """time (T,) [s]; commanded and measured (T, 3): forward, sideways [m/s], yaw rate [rad/s]; measured is None where
    no odom was recorded, else the mean over STRIDE around each time.
    """

    time: Array
    commanded: Array
    measured: Array | None


def velocities(run: RecordedRun) -> Velocities:
    """Commanded and measured velocities while the policy walked, or, where its steps are not told, all the time."""
    steps = run.steps
    if len(steps.target_stamp):
        time, commanded = steps.target_stamp, steps.command[:, :3]
    else:
        time = np.arange(run.joints.stamp.min(), run.joints.stamp.min() + min(np.ptp(run.joints.stamp), 7200.0), GRID)
        commanded = setpoints(run, run.joints.received[newest(run.joints.stamp, time)])[:, :3]
    return Velocities(time, commanded, _measured(run, time))


def command_tracking(velocity: Velocities) -> dict[str, Any] | None:
    """Of each axis the root mean square and the mean of measured less commanded; None where it was not measured."""
    if velocity.measured is None:
        return None
    error = velocity.measured - velocity.commanded
    return {
        axis: {"rmse": root_mean_square(error[:, index]), "mean": _mean(error[:, index])}
        for index, axis in enumerate(AXES)
    }


def _measured(run: RecordedRun, time: Array) -> Array | None:
    odometry = run.odometry
    moving = np.column_stack([odometry.velocity[:, :2], odometry.angular_velocity[:, 2]])
    good = np.isfinite(moving).all(axis=1) & np.isfinite(odometry.stamp)
    if not good.any():
        return None
    order = np.argsort(odometry.stamp[good], kind="stable")
    stamp, moving = odometry.stamp[good][order], moving[good][order]
    total = np.vstack([np.zeros(3), np.cumsum(moving, axis=0)])
    first, end = np.searchsorted(stamp, time - STRIDE / 2), np.searchsorted(stamp, time + STRIDE / 2)
    count = (end - first)[:, None]
    mean: Array = (total[end] - total[first]) / np.maximum(count, 1)
    return np.where(count > 0, mean, np.nan)


def _mean(values: Array) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None
