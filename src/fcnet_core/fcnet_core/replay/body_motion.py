"""What the robot did: how far it tilted, how hard its joints worked, what limits it met."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.replay.quantities import root_mean_square, spread
from fcnet_core.replay.recorded_run import RecordedRun
from fcnet_core.robot import JOINT_NAMES, Robot
from fcnet_core.rotation import projected_gravity

Array = npt.NDArray[np.float64]
NEAR = 1e-3  # [rad] a target this near to a limit is at it
FULL = 0.99  # of the torque limit; from there on the torque is at it


def body_motion(run: RecordedRun, robot: Robot) -> dict[str, Any]:
    """Tilt [rad], torque as a share of each joint's limit, joint tracking error [rad], and shares of time at limits."""
    effort = np.abs(run.joints.effort) / robot.torque_limit
    sent = run.targets.position[np.isfinite(run.targets.position).all(axis=1)]
    at_limit = (sent <= robot.lower + NEAR) | (sent >= robot.upper - NEAR)
    return {
        "tilt_rad": spread(tilt(run.imu.orientation)),
        "torque_of_limit": _by_joint(effort),
        "share_of_time_at_torque_limit": _share(effort >= FULL),
        "share_of_targets_at_position_limit": _share(at_limit),
        "joint_tracking_error_rad": root_mean_square(tracking_error(run)),
    }


def tilt(orientation: Array) -> Array:
    """Angle (N,) [rad] between the trunk's vertical axis and gravity, for orientations (N, 4) x, y, z, w."""
    return np.arccos(np.clip(-projected_gravity(orientation)[..., 2], -1.0, 1.0))


def tracking_error(run: RecordedRun) -> Array:
    """Measured less commanded joint position (N, 12) [rad] of every joint state, NaN where joints were damped."""
    sent = run.targets
    if not len(sent.stamp):
        return np.full_like(run.joints.position, np.nan)
    newest = np.searchsorted(sent.stamp, run.joints.stamp, side="right") - 1
    error: Array = run.joints.position - sent.position[np.maximum(newest, 0)]
    error[newest < 0] = np.nan
    return error


def _by_joint(values: Array) -> dict[str, dict[str, float | None]]:
    return {joint: spread(values[:, index]) for index, joint in enumerate(JOINT_NAMES)}


def _share(hits: npt.NDArray[np.bool_]) -> float | None:
    return float(hits.any(axis=1).mean()) if len(hits) else None
