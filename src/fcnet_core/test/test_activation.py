"""The rational function is the exact GELU to float32 rounding."""

from __future__ import annotations

import math

import numpy as np

from fcnet_core.policies.layers import gelu


def test_gelu_is_exact_to_float32_rounding_from_minus_ten_to_ten() -> None:
    x = np.linspace(-10, 10, 100_001, dtype=np.float32)
    exact = np.array([value * 0.5 * (1 + math.erf(value / math.sqrt(2))) for value in x.astype(float)])
    assert (np.abs(gelu(x) - exact) / np.maximum(1.0, np.abs(x))).max() < 3e-7


def test_gelu_leaves_its_input_alone() -> None:
    x = np.array([-20.0, -1.0, 0.0, 1.0, 20.0], dtype=np.float32)
    gelu(x)
    np.testing.assert_array_equal(x, [-20.0, -1.0, 0.0, 1.0, 20.0])
