"""What the sensors make of the true state."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.observation import LAYOUT, OBSERVATION_SIZE

# Standard deviations of the sensor noise: attitude as gravity's direction, joint velocity [rad/s], sine and cosine of
# joint position [rad], angular velocity [rad/s]. What the controller itself computes has none.
SENSOR_NOISE: dict[str, float] = {
    "projected_gravity": 0.02,
    "joint_velocity": 0.3,
    "sin_joint_position": 0.01,
    "cos_joint_position": 0.01,
    "angular_velocity": 0.1,
}
NOISE_LEVELS = np.zeros(OBSERVATION_SIZE, dtype=np.float32)
for _part, _deviation in SENSOR_NOISE.items():
    NOISE_LEVELS[LAYOUT[_part]] = _deviation


def noisy(observation: npt.NDArray[np.float32], scale: float, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Observations (..., 70) as the sensors would give them."""
    if scale == 0.0:
        return observation
    return observation + scale * NOISE_LEVELS * rng.standard_normal(observation.shape, dtype=np.float32)
