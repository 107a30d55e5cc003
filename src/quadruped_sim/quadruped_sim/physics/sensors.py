"""Noise of the sensors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.observation import LAYOUT, OBSERVATION_SIZE, SENSOR_NOISE

NOISE_LEVELS = np.zeros(OBSERVATION_SIZE, dtype=np.float32)
for _part, _place in LAYOUT.items():
    NOISE_LEVELS[_place] = SENSOR_NOISE.get(_part, 0.0)


def noisy(observation: npt.NDArray[np.float32], scale: float, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Add sensor noise to observations (..., 70)."""
    if scale == 0.0:
        return observation
    return observation + scale * NOISE_LEVELS * rng.standard_normal(observation.shape, dtype=np.float32)
