"""Activations are what they say to float32 rounding, in NumPy and compiled."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit

from fcnet_core.policies import compiled_layers
from fcnet_core.policies.layers import gelu, gelu_tanh


def compiled_gelu_tanh(x: np.ndarray) -> np.ndarray:
    y = x.copy()
    compiled_layers.gelu_tanh(y)
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
    assert (np.abs(gelu(x) - exact) / np.maximum(1.0, np.abs(x))).max() < 3e-7


@pytest.mark.parametrize("form", [gelu_tanh, compiled_gelu_tanh])
def test_gelu_tanh_is_exact_to_float32_rounding_at_any_size(form) -> None:
    x = np.concatenate([np.linspace(-10, 10, 100_001), [-1e6, -300.0, 300.0, 1e6]]).astype(np.float32)
    wide = x.astype(float)
    exact = wide / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    assert (np.abs(form(x) - exact) / np.maximum(1.0, np.abs(wide))).max() < 3e-7
    assert np.abs(form(x[:100_001]) - gelu(x[:100_001])).max() < 5e-4


def test_the_compiled_exponential_is_exact_to_float32_rounding_of_its_argument() -> None:
    x = np.linspace(-87, 87, 200_001, dtype=np.float32)
    error = np.abs(exponentials(x) / np.exp(x.astype(float)) - 1)
    assert (error / (1 + np.abs(x))).max() < 1.5e-7
    assert exponentials(np.array([-1e30, -1e3], dtype=np.float32)).max() < 1e-37
    assert exponentials(np.zeros(1, dtype=np.float32))[0] == 1.0


@pytest.mark.parametrize("form", [gelu, gelu_tanh])
def test_activations_leave_their_input_alone(form) -> None:
    x = np.array([-20.0, -1.0, 0.0, 1.0, 20.0], dtype=np.float32)
    form(x)
    np.testing.assert_array_equal(x, [-20.0, -1.0, 0.0, 1.0, 20.0])
