"""Steps compiled with numba: layers for vectors of one robot, without Python objects and without the GIL, and the
runtime of a step made of them.

Reading weights takes most of a step's time. They are read once, in memory order; half precision halves that time and
becomes float32 in registers. Sums may be reordered, but NaN and infinity keep their meaning.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, typeof, types
from numba.experimental import structref
from numba.extending import intrinsic

from fcnet_core.arrays import Floats, Mask, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import finite_observation
from fcnet_core.policies.normalisation import Units

EPSILON = np.float32(1e-5)  # of layer_norm, as torch's default

# GELU in its exact (erf) form, as a rational function that compiled loops evaluate quickly:
# gelu(x) = x (1/2 + c P(c^2) / Q(c^2)) with c = x clipped to +-LIMIT. P / Q was fitted by iteratively reweighted
# least squares to the normal distribution function minus 1/2; in float32 the result is within 3e-7 max(1, |x|) of the
# exact value, the same as an exact formula that is rounded to float32 at every operation. scipy's erf takes 4 times
# as long and cannot be called from compiled code without the GIL.
LIMIT = np.float32(5.4)
P0, P1, P2, P3, P4, P5 = map(
    np.float32, (3.9894205e-01, 3.4492053e-02, 4.7223987e-03, 1.7626610e-04, 6.4904007e-06, 2.2776980e-08)
)
Q0, Q1, Q2, Q3, Q4, Q5 = map(
    np.float32, (1.0, 2.5312305e-01, 2.9027889e-02, 1.9254906e-03, 7.6510310e-05, 1.2086646e-06)
)
# gelu_tanh(x) = x / 2 (1 + tanh(TANH_SCALE (x + TANH_CUBE x^3)))
TANH_SCALE, TANH_CUBE = np.float32(math.sqrt(2 / math.pi)), np.float32(0.044715)
Counts = npt.NDArray[np.int64]
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
EXP_LIMIT, LOG2_E, LN_2 = np.float32(87), np.float32(1.4426950408889634), np.float32(0.6931471805599453)
E0, E1, E2 = np.float32(5.0000001201e-1), np.float32(1.6666665459e-1), np.float32(4.1665795894e-2)
E3, E4, E5 = np.float32(8.3334519073e-3), np.float32(1.3981999507e-3), np.float32(1.9875691500e-4)
CACHE_LINE = 64  # [bytes]
SOURCE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
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
    calls have changed. The digest of this file is part of this type, so such a step is compiled again.
    """

    def __init__(self, fields: Any) -> None:
        super().__init__(fields)
        self.name += SOURCE


class StepData(structref.StructRefProxy):
    """Arguments of a compiled step: `units` (Units), `weights`, `memory` and `scratch`, arrays or named tuples of them.

    They are passed as one reference: passing some twenty arrays takes 1 us of every step.
    """


structref.define_proxy(StepData, StepDataType, ["units", "weights", "memory", "scratch"])


def stored(weight: Floats, half: bool) -> npt.NDArray[Any]:
    """Return matrices (..., outputs, inputs) as (..., inputs, outputs), float32, or float16 as integers of its bits,
    because numba has no float16.
    """
    turned = np.ascontiguousarray(weight.swapaxes(-1, -2), dtype=np.float16 if half else np.float32)
    return turned.view(np.uint16) if half else turned


def packed(arrays: Any) -> Any:
    """Copy a named tuple of arrays into one piece of memory, each at the start of a cache line."""
    sizes = [-(-array.nbytes // CACHE_LINE) * CACHE_LINE for array in arrays]
    memory = np.zeros(sum(sizes) + CACHE_LINE, dtype=np.uint8)
    start, views = -memory.ctypes.data % CACHE_LINE, []
    for array, size in zip(arrays, sizes, strict=True):
        view = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        view[...] = array
        views.append(view)
        start += size
    return type(arrays)(*views)


@intrinsic
def single(_context: Any, number: Any) -> tuple[Any, Callable[..., Any]]:
    """Return an entry of a `stored` matrix as float32."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(types.float32)
        is_half = number == types.uint16
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), kind) if is_half else arguments[0]

    return types.float32(number), generate


@njit(**COMPILE)
def linear(x: Single, weight: Any, bias: Single, y: Single) -> None:
    """Set y to weight x + bias; weight as `stored`. Eight inputs at a time, so that sums are seldom stored."""
    whole = x.size - x.size % 8
    for i in range(y.size):
        y[i] = bias[i]
    for j in range(0, whole, 8):
        x0, x1, x2, x3, x4, x5, x6, x7 = x[j], x[j + 1], x[j + 2], x[j + 3], x[j + 4], x[j + 5], x[j + 6], x[j + 7]
        w0, w1, w2, w3 = weight[j], weight[j + 1], weight[j + 2], weight[j + 3]
        w4, w5, w6, w7 = weight[j + 4], weight[j + 5], weight[j + 6], weight[j + 7]
        for i in range(y.size):
            near = x0 * single(w0[i]) + x1 * single(w1[i]) + x2 * single(w2[i]) + x3 * single(w3[i])
            y[i] += near + (x4 * single(w4[i]) + x5 * single(w5[i]) + x6 * single(w6[i]) + x7 * single(w7[i]))
    for j in range(whole, x.size):
        for i in range(y.size):
            y[i] += x[j] * single(weight[j, i])


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


class CompiledRuntime:
    """Runtime in compiled code without the GIL, for a policy with one input vector: one robot, or a loop over `batch`.

    steps: compiled function of observations (B, observation), actions (B, action), an output, numbers of steps since
    the reset (B,), which it increases, and StepData. It returns False if an observation is not finite; memories of this
    robot and of later ones are then unchanged. memory: named tuple of arrays (B, ...), zero after a reset. weights,
    scratch: named tuples of arrays. Compiling takes some seconds the first time on a machine and is cached.
    """

    def __init__(
        self, model: PolicyModel, batch: int | None, steps: Any, weights: Any, memory: Any, scratch: Any
    ) -> None:
        units = Units(**model.scales, clip=np.float32(model.card.observation_clip))
        self._parts = (units, *map(packed, (weights, memory, scratch)))
        self._data: Any = StepData(*self._parts)
        self._single, self._shape = batch is None, (batch or 1, model.card.config.action)
        self._counts = np.zeros(self._shape[0], dtype=np.int64)
        observation = np.zeros((self._shape[0], model.card.config.observation), dtype=np.float32)
        arguments = (observation, np.zeros(self._shape, np.float32), self._counts, self._data)
        # Compiled for these types only: looking up the types in every call takes 2 us.
        self._step = steps.compile(tuple(map(typeof, arguments)))

    @property
    def state(self) -> dict[str, npt.NDArray[Any]]:
        return {**self._parts[2]._asdict(), "steps": self._counts}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        for name, array in self.state.items():
            array[...] = state[name]

    def copy(self) -> CompiledRuntime:
        other = copy.copy(self)
        units, weights, memory, scratch = self._parts
        other._parts = (units, weights, *copy.deepcopy((memory, scratch)))
        other._counts, other._data = self._counts.copy(), StepData(*other._parts)
        return other

    def reset(self, mask: Mask | None = None) -> None:
        for array in self.state.values():
            array[slice(None) if mask is None else mask] = 0

    def step(self, observation: Single) -> Single:
        action = np.empty(self._shape, np.float32)
        seen = observation[None] if self._single else observation
        if not self._step(seen, action, self._counts, self._data):
            finite_observation(observation, observation.shape)  # raises
        return action[0] if self._single else action
