"""Noise of the sensors, added to what a policy sees."""

from __future__ import annotations

import numpy as np

from fcnet_core.arrays import Single
from fcnet_core.observation import SENSOR_NOISE, PolicyInterface

NOISE = {"joint_position": SENSOR_NOISE["sin_joint_position"], **SENSOR_NOISE}


def noise_levels(interface: PolicyInterface) -> Single:
    """Return the standard deviations (n,) of the noise on the observation of an interface."""
    (name, spec), *_ = interface.spec.items()
    levels = np.zeros(spec.shape, dtype=np.float32)
    for part, place in spec.slices().items():
        levels[place] = NOISE.get(part.partition(".")[0], 0.0)
    return levels * interface.scales(name)


def noisy(observation: Single, levels: Single, rng: np.random.Generator) -> Single:
    """Add noise of these standard deviations (n,) to observations (..., n)."""
    if not levels.any():
        return observation
    return observation + levels * rng.standard_normal(observation.shape, dtype=np.float32)
