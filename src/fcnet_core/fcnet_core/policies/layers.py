"""Layers in NumPy for several architectures, on arrays (..., channels) of one robot or many."""

from __future__ import annotations

import math

import numpy as np

from fcnet_core.arrays import Floats

EPSILON = np.float32(1e-5)  # of layer_norm, as torch's default

# GELU in its exact (erf) form, as a rational function that compiled loops and bulk NumPy evaluate quickly:
# gelu(x) = x (1/2 + c P(c^2) / Q(c^2)) with c = x clipped to +-GELU_LIMIT. P / Q was fitted by iteratively reweighted
# least squares to the normal distribution function minus 1/2; in float32 the result is within 3e-7 max(1, |x|) of the
# exact value, the same as an exact formula that is rounded to float32 at every operation. scipy's erf takes 4 times
# as long and cannot be called from compiled code without the GIL.
GELU_LIMIT = np.float32(5.4)
GELU_NUMERATOR = tuple(
    np.float32(p) for p in (3.9894205e-01, 3.4492053e-02, 4.7223987e-03, 1.7626610e-04, 6.4904007e-06, 2.2776980e-08)
)
GELU_DENOMINATOR = tuple(
    np.float32(q) for q in (1.0, 2.5312305e-01, 2.9027889e-02, 1.9254906e-03, 7.6510310e-05, 1.2086646e-06)
)
# gelu_tanh(x) = x / 2 (1 + tanh(GELU_TANH_SCALE (x + GELU_TANH_CUBE x^3)))
GELU_TANH_SCALE, GELU_TANH_CUBE = math.sqrt(2 / math.pi), 0.044715


def gelu(x: Floats) -> Floats:
    """Return the GELU of an array of any shape."""
    clipped = np.clip(x, -GELU_LIMIT, GELU_LIMIT)
    square = clipped * clipped
    ratio = _polynomial(GELU_NUMERATOR, square)
    ratio /= _polynomial(GELU_DENOMINATOR, square)
    ratio *= clipped
    ratio += np.float32(0.5)
    ratio *= x
    return ratio


def _polynomial(coefficients: tuple[np.float32, ...], x: Floats) -> Floats:
    value = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        value += coefficient
        value *= x
    value += coefficients[0]
    return value


def linear(x: Floats, weight: Floats, bias: Floats) -> Floats:
    """Multiply x (..., inputs) by weight (outputs, inputs) and add bias (outputs,)."""
    result: Floats = x @ weight.T
    result += bias
    return result


def layer_norm(x: Floats, weight: Floats, bias: Floats) -> Floats:
    """Normalise the last axis of x (..., d) to mean 0 and variance 1, then scale and shift it."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.einsum("...d,...d->...", centred, centred)[..., None] / np.float32(x.shape[-1])
    centred /= np.sqrt(variance + EPSILON)
    centred *= weight
    centred += bias
    return centred


def gelu_tanh(x: Floats) -> Floats:
    """Return the tanh approximation of GELU (GPT-2's gelu_new), within 5e-4 of the exact form."""
    value: Floats = x * x
    value *= GELU_TANH_CUBE
    value += 1.0
    value *= x
    value *= GELU_TANH_SCALE
    np.tanh(value, out=value)
    value += 1.0
    value *= x
    value *= 0.5
    return value


def softmax(x: Floats) -> Floats:
    """Compute the softmax over the last axis in place; entries of minus infinity get 0, at least one must be finite."""
    x -= x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    return x
