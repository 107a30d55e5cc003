"""Layers compiled with numba, for vectors of one robot, without Python objects and without the GIL.

Reading weights takes most of a step's time. They are read once, in memory order; half precision halves that time and
becomes float32 in registers. Sums may be reordered, but NaN and infinity keep their meaning.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.experimental import structref
from numba.extending import intrinsic

from fcnet_core.arrays import Floats, Single
from fcnet_core.policies.normalisation import Units
from fcnet_core.policies.simd import LANES, entry, fetch, load, spread, store, whole

EPSILON = np.float32(1e-5)  # of layer_norm, as torch's default

# GELU in its exact (erf) form, as a rational function that compiled loops evaluate quickly:
# gelu(x) = x (1/2 + c P(c^2) / Q(c^2)) with c = x clipped to +-LIMIT. P / Q was fitted by iteratively reweighted
# least squares to the normal distribution function minus 1/2; in float32 the result is within 3e-7 max(1, |x|) of the
# exact value, the same as an exact formula that is rounded to float32 at every operation. scipy's erf takes 4 times
# as long and cannot be called from compiled code without the GIL.
LIMIT = np.float32(5.4)
P0, P1, P2 = np.float32(3.9894205e-01), np.float32(3.4492053e-02), np.float32(4.7223987e-03)
P3, P4, P5 = np.float32(1.7626610e-04), np.float32(6.4904007e-06), np.float32(2.2776980e-08)
Q0, Q1, Q2 = np.float32(1.0), np.float32(2.5312305e-01), np.float32(2.9027889e-02)
Q3, Q4, Q5 = np.float32(1.9254906e-03), np.float32(7.6510310e-05), np.float32(1.2086646e-06)
# gelu_tanh(x) = x / 2 (1 + tanh(TANH_SCALE (x + TANH_CUBE x^3)))
TANH_SCALE, TANH_CUBE = np.float32(math.sqrt(2 / math.pi)), np.float32(0.044715)
Counts = npt.NDArray[np.int64]
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
EXP_LIMIT, LOG2_E, LN_2 = np.float32(87), np.float32(1.4426950408889634), np.float32(0.6931471805599453)
E0, E1, E2 = np.float32(5.0000001201e-1), np.float32(1.6666665459e-1), np.float32(4.1665795894e-2)
E3, E4, E5 = np.float32(8.3334519073e-3), np.float32(1.3981999507e-3), np.float32(1.9875691500e-4)
PANEL = 8 * LANES  # rows of a matrix that are multiplied together
AHEAD = 2048  # [bytes] from the multiplied entry to the prefetched one
SOURCES = hashlib.sha256(
    b"".join(Path(__file__).with_name(f"{name}.py").read_bytes() for name in ("compiled_layers", "simd"))
)
COMPILE: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
}


@njit(**COMPILE)
def normalise(x: Single, units: Units, y: Single) -> bool:
    """Write the network's input (normalisation.py). Return False, with y undefined, for NaN or infinity."""
    total = ZERO
    for i in range(x.size):
        total += ZERO * x[i]  # NaN where x is not finite
        scaled = (x[i] - units.observation_mean[i]) / units.observation_std[i]
        y[i] = min(max(scaled, -units.clip), units.clip)
    return total == ZERO


@njit(**COMPILE)
def denormalise(y: Single, units: Units) -> None:
    """Convert the network's output to an action, in place."""
    for i in range(y.size):
        y[i] = units.action_mean[i] + units.action_scale[i] * y[i]


@structref.register
class StepDataType(types.StructRef):
    """The type of StepData in compiled code.

    numba caches a compiled step by its argument types until the file of the step changes, even if the functions that it
    calls have changed. The digest of their sources is part of this type, so such a step is compiled again.
    """

    def __init__(self, fields: Any) -> None:
        super().__init__(fields)
        self.name += SOURCES.hexdigest()


class StepData(structref.StructRefProxy):
    """Arguments of a compiled step: `units` (Units), `weights`, `memory` and `scratch`, arrays or named tuples of them.

    They are passed as one reference: passing some twenty arrays takes 1 us of every step.
    """


structref.define_proxy(StepData, StepDataType, ["units", "weights", "memory", "scratch"])


class CompiledStep(NamedTuple):
    """The parts of a policy.CompiledRuntime. memory: arrays (B, ...) of B robots, zero after a reset."""

    steps: Any
    weights: Any
    memory: Any
    scratch: Any


def stored(weight: Floats, half: bool) -> npt.NDArray[Any]:
    """Return matrices (..., outputs, inputs) in the order of `multiply`, each in one piece.

    Rows are in groups of PANEL, then of LANES; a group is column by column. float32, or float16 as integers of its
    bits, because numba has no float16.
    """
    *leading, outputs, inputs = weight.shape
    rows = np.zeros((*leading, whole(outputs), inputs), dtype=np.float16 if half else np.float32)
    rows[..., :outputs, :] = weight
    broad = outputs - outputs % PANEL
    starts = [*range(0, broad, PANEL), *range(broad, whole(outputs), LANES)]
    panels = [rows[..., start:stop, :] for start, stop in zip(starts, [*starts[1:], whole(outputs)], strict=True)]
    pieces = [panel.swapaxes(-1, -2).reshape(*leading, panel.shape[-2] * inputs) for panel in panels]
    result = np.concatenate(pieces, axis=-1)
    return result.view(np.uint16) if half else result


@njit(**COMPILE)
def multiply(x: Single, weight: Any, y: Single) -> None:
    """Set y to weight x; weight as `stored`."""
    place, broad, ahead = 0, y.size - y.size % PANEL, AHEAD // weight.itemsize
    for row in range(0, broad, PANEL):
        y0 = y1 = y2 = y3 = y4 = y5 = y6 = y7 = spread(ZERO)
        for column in range(x.size):
            fetch(weight, place + ahead, PANEL)
            factor = spread(x[column])
            y0 += factor * load(weight, place)
            y1 += factor * load(weight, place + LANES)
            y2 += factor * load(weight, place + 2 * LANES)
            y3 += factor * load(weight, place + 3 * LANES)
            y4 += factor * load(weight, place + 4 * LANES)
            y5 += factor * load(weight, place + 5 * LANES)
            y6 += factor * load(weight, place + 6 * LANES)
            y7 += factor * load(weight, place + 7 * LANES)
            place += PANEL
        store(y0, y, row)
        store(y1, y, row + LANES)
        store(y2, y, row + 2 * LANES)
        store(y3, y, row + 3 * LANES)
        store(y4, y, row + 4 * LANES)
        store(y5, y, row + 5 * LANES)
        store(y6, y, row + 6 * LANES)
        store(y7, y, row + 7 * LANES)
    for row in range(broad, y.size, LANES):
        total = spread(ZERO)
        for column in range(x.size):
            total += spread(x[column]) * load(weight, place)
            place += LANES
        for lane in range(min(LANES, y.size - row)):
            y[row + lane] = entry(total, lane)


@njit(**COMPILE)
def linear(x: Single, weight: Any, bias: Single, y: Single) -> None:
    """Set y to weight x + bias; weight as `stored`."""
    multiply(x, weight, y)
    add(bias, y)


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
    """Replace every entry by its GELU."""
    for i in range(x.size):
        clipped = min(max(x[i], -LIMIT), LIMIT)
        z = clipped * clipped
        numerator = P0 + z * (P1 + z * (P2 + z * (P3 + z * (P4 + z * P5))))
        denominator = Q0 + z * (Q1 + z * (Q2 + z * (Q3 + z * (Q4 + z * Q5))))
        x[i] *= HALF + clipped * (numerator / denominator)


@intrinsic
def power_of_two(_context: Any, _exponent: Any) -> tuple[Any, Callable[..., Any]]:
    """Return 2 to the power of a float32 with a whole value from -126 to 127, by setting the exponent bits."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        whole = builder.fptosi(arguments[0], context.get_value_type(types.int32))
        biased = builder.add(whole, context.get_constant(types.int32, 127))
        bits = builder.shl(biased, context.get_constant(types.int32, 23))
        return builder.bitcast(bits, context.get_value_type(types.float32))

    return types.float32(types.float32), generate


@njit(**COMPILE)
def exponential(x: np.float32) -> np.float32:
    """Return exp(x), with x clipped to +-EXP_LIMIT, within about 1e-7 (1 + |x|) of its value.

    Unlike loops of libm's exp, loops of it are vectorised. The polynomial is from Cephes' expf.
    """
    held = min(max(x, -EXP_LIMIT), EXP_LIMIT)
    whole = np.floor(held * LOG2_E + HALF)
    r = held - whole * LN_2
    return (ONE + r + r * r * (E0 + r * (E1 + r * (E2 + r * (E3 + r * (E4 + r * E5)))))) * power_of_two(whole)


@njit(**COMPILE)
def gelu_tanh(x: Single) -> None:
    """Replace every entry by its GELU in the tanh approximation, x / (1 + exp(-2 u))."""
    for i in range(x.size):
        u = TANH_SCALE * x[i] * (ONE + TANH_CUBE * x[i] * x[i])
        x[i] /= ONE + exponential(-(u + u))
