"""The layers of layers.py compiled with numba, for vectors of one robot: no Python object is touched, no GIL is held.

Weights are read once, in order, which is what the time of a step goes into. Sums may be reordered, but NaN and
infinity keep their meaning.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from fcnet_core.arrays import Single
from fcnet_core.policies.layers import EPSILON, GELU_DENOMINATOR, GELU_LIMIT, GELU_NUMERATOR
from fcnet_core.policies.normalisation import Units

P0, P1, P2, P3, P4, P5 = GELU_NUMERATOR
Q0, Q1, Q2, Q3, Q4, Q5 = GELU_DENOMINATOR
LIMIT, ZERO, HALF, ONE = GELU_LIMIT, np.float32(0), np.float32(0.5), np.float32(1)
COMPILE: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
}


@njit(**COMPILE)
def normalise(x: Single, units: Units, y: Single) -> None:
    """Write the network's input, see normalisation.py."""
    for i in range(x.size):
        scaled = (x[i] - units.observation_mean[i]) / units.observation_std[i]
        y[i] = min(max(scaled, -units.clip), units.clip)


@njit(**COMPILE)
def denormalise(y: Single, units: Units) -> None:
    """Make the network's output an action, in place."""
    for i in range(y.size):
        y[i] = units.action_mean[i] + units.action_scale[i] * y[i]


@njit(**COMPILE)
def linear(x: Single, weight: Single, bias: Single, y: Single) -> None:
    """Set y to weight x + bias."""
    for row in range(bias.size):
        total = ZERO
        for column in range(x.size):
            total += weight[row, column] * x[column]
        y[row] = total + bias[row]


@njit(**COMPILE)
def add(x: Single, y: Single) -> None:
    """Add x to y."""
    for i in range(y.size):
        y[i] += x[i]


@njit(**COMPILE)
def layer_norm(x: Single, weight: Single, bias: Single, y: Single) -> None:
    """Scale and shift x after normalising it to mean 0 and variance 1."""
    size = np.float32(x.size)
    total = ZERO
    for c in range(x.size):
        total += x[c]
    mean = total / size
    total = ZERO
    for c in range(x.size):
        total += (x[c] - mean) * (x[c] - mean)
    scale = ONE / np.sqrt(total / size + EPSILON)
    for c in range(x.size):
        y[c] = (x[c] - mean) * scale * weight[c] + bias[c]


@njit(**COMPILE)
def gelu(x: Single) -> None:
    """Replace every entry by its GELU, see layers.py."""
    for i in range(x.size):
        clipped = min(max(x[i], -LIMIT), LIMIT)
        z = clipped * clipped
        numerator = P0 + z * (P1 + z * (P2 + z * (P3 + z * (P4 + z * P5))))
        denominator = Q0 + z * (Q1 + z * (Q2 + z * (Q3 + z * (Q4 + z * Q5))))
        x[i] *= HALF + clipped * (numerator / denominator)
