"""Compiled activations are exact to float32 rounding."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from fcnet_core.policies import compiled_layers


def applied(activation, x: np.ndarray) -> np.ndarray:
    y = x.copy()
    activation(y)
    return y


@njit
def exponentials(x):
    y = np.empty_like(x)
    for i in range(x.size):
        y[i] = compiled_layers.exponential(x[i])
    return y


def test_gelu_is_exact_to_float32_rounding_from_minus_ten_to_ten() -> None:
    x = np.linspace(-10, 10, 100_001, dtype=np.float32)
    exact = np.array([value * 0.5 * (1 + math.erf(value / math.sqrt(2))) for value in x.astype(float)])
    assert (np.abs(applied(compiled_layers.gelu, x) - exact) / np.maximum(1.0, np.abs(x))).max() < 3e-7


def test_gelu_tanh_is_exact_to_float32_rounding_at_any_size() -> None:
    x = np.concatenate([np.linspace(-10, 10, 100_001), [-1e6, -300.0, 300.0, 1e6]]).astype(np.float32)
    wide = x.astype(float)
    exact = wide / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    assert (np.abs(applied(compiled_layers.gelu_tanh, x) - exact) / np.maximum(1.0, np.abs(wide))).max() < 3e-7


def test_the_exponential_is_exact_to_float32_rounding_of_its_argument() -> None:
    x = np.linspace(-87, 87, 200_001, dtype=np.float32)
    error = np.abs(exponentials(x) / np.exp(x.astype(float)) - 1)
    assert (error / (1 + np.abs(x))).max() < 1.5e-7
    assert exponentials(np.array([-1e30, -1e3], dtype=np.float32)).max() < 1e-37
    assert exponentials(np.zeros(1, dtype=np.float32))[0] == 1.0
