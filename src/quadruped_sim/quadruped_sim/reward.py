"""How well a robot does what it is told, as one number: the reward whose sum over an episode is the return.

In the manner of legged_gym (Rudin et al., 2022, "Learning to walk in minutes"): tracking earns, effort and jerking
cost a little. It compares policies with each other; nothing here is trained on it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

TRACKING_WIDTH = 0.25  # squared error [m^2/s^2, rad^2/s^2] at which tracking earns 1/e
YAW_WEIGHT = 0.5
TORQUE_WEIGHT = 1e-5  # per Nm^2, summed over the joints
ACTION_WEIGHT = 0.01
ACTION_UNIT = 0.25  # [rad]


def reward(velocity: Array, wanted: Array, torque: Array, change: Array) -> Array:
    """Reward (B,) per second, at most 1.5 and never negative. velocity and wanted (B, 3): vx, vy [m/s] in the heading
    frame and yaw rate [rad/s]; torque (B, 12) [Nm]; change (B, 12) of the position targets since the last step [rad].
    """
    error = np.square(velocity - wanted)
    tracking = np.exp(-error[:, :2].sum(1) / TRACKING_WIDTH) + YAW_WEIGHT * np.exp(-error[:, 2] / TRACKING_WIDTH)
    effort = TORQUE_WEIGHT * np.square(torque).sum(1)
    jerking = ACTION_WEIGHT * np.square(change / ACTION_UNIT).sum(1)
    return np.maximum(tracking - effort - jerking, 0.0)
