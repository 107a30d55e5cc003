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
from numba.core.datamodel import PrimitiveModel
from numba.core.datamodel.registry import register_default
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
EXPONENT_BIAS, EXPONENT_PLACE = np.int32(127), np.int32(23)  # in the bits of a float32
LANES, PANEL = 16, 128  # rows of a matrix that are multiplied together, at its end and before
CACHE_LINE, AHEAD = 64, 2048  # [bytes]; the latter from the multiplied entry to the prefetched one
INDEX = ir.IntType(32)
Emit = Callable[..., Any]  # context, builder, signature and arguments to a value of LLVM
SOURCE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
COMPILE: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "arcp", "nsz"}}


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
    """Return matrices (..., outputs, inputs) in the order in which `linear` reads them, each in one piece.

    Rows are in groups of PANEL, then of LANES; a group is column by column. float32, or float16 as integers of its
    bits, because numba has no float16.
    """
    *leading, outputs, inputs = weight.shape
    padded, broad = -(-outputs // LANES) * LANES, outputs - outputs % PANEL
    rows = np.zeros((*leading, padded, inputs), dtype=np.float16 if half else np.float32)
    rows[..., :outputs, :] = weight
    groups = np.split(rows, [*range(PANEL, broad + 1, PANEL), *range(broad + LANES, padded, LANES)], axis=-2)
    result = np.concatenate([group.swapaxes(-1, -2).reshape(*leading, -1) for group in groups], axis=-1)
    return result.view(np.uint16) if half else result


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


class Vector(types.Type):
    """The type of float32 numbers in registers. LLVM's vectoriser neither keeps sums of many rows there nor prefetches:
    with cold caches, as on a robot, the step then takes a fifth longer, in half precision half as long again.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"vector of {lanes}")


@register_default(Vector)
class VectorModel(PrimitiveModel):
    """The LLVM type of a Vector."""

    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, ir.VectorType(ir.FloatType(), kind.lanes))


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any, target: Any) -> Any:
    """Return a pointer to `target` at an entry of an array, counted from its beginning, unchecked."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), target.as_pointer())


@intrinsic(prefer_literal=True)
def zeros(_context: Any, lanes: Any) -> tuple[Any, Emit]:
    """Return a vector of zeros."""
    kind = Vector(lanes.literal_value)
    return kind(lanes), lambda context, *_: ir.Constant(context.get_value_type(kind), [0.0] * kind.lanes)


@intrinsic
def multiply_add(_context: Any, total: Any, factor: Any, array: Any, index: Any) -> tuple[Any, Emit]:
    """Return total + factor * (entries of an array from an index), in float32 even from half precision."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, is_half = arguments[0].type, array.dtype == types.uint16
        stored = ir.VectorType(ir.HalfType() if is_half else ir.FloatType(), total.lanes)
        entries = builder.load(_place(context, builder, signature.args[2], arguments[2], arguments[3], stored))
        entries.align = array.dtype.bitwidth // 8
        if is_half:
            entries = builder.fpext(entries, kind)
        first = builder.insert_element(ir.Constant(kind, ir.Undefined), arguments[1], INDEX(0))
        everywhere = ir.Constant(ir.VectorType(INDEX, total.lanes), [0] * total.lanes)
        factors = builder.shuffle_vector(first, first, everywhere)
        product = builder.fmul(factors, entries, flags=("contract",))  # a * b + c in one instruction
        return builder.fadd(arguments[0], product, flags=("contract",))

    return total(total, factor, array, types.intp), generate


@intrinsic
def store(_context: Any, vector: Any, array: Any, index: Any) -> tuple[Any, Emit]:
    """Store a vector in a float32 array, from an index."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, entries, first = arguments
        place = _place(context, builder, signature.args[1], entries, first, value.type)
        builder.store(value, place).align = 4
        return context.get_dummy_value()

    return types.void(vector, array, types.intp), generate


@intrinsic
def entry(_context: Any, vector: Any, index: Any) -> tuple[Any, Emit]:
    """Return one entry of a vector."""
    return types.float32(vector, types.intp), lambda _, builder, __, arguments: builder.extract_element(*arguments)


@intrinsic
def fetch(_context: Any, array: Any, index: Any) -> tuple[Any, Emit]:
    """Prefetch PANEL entries from an index; reading past the end of the array is harmless."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = _place(context, builder, signature.args[0], arguments[0], arguments[1], ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [first.type, INDEX, INDEX, INDEX])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [first.type], kind)
        how = [INDEX(value) for value in (0, 3, 1)]  # to read, into every cache, data
        for byte in range(0, PANEL * array.dtype.bitwidth // 8, CACHE_LINE):
            builder.call(prefetch, [builder.gep(first, [INDEX(byte)]), *how])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@njit(**COMPILE)
def linear(x: Single, weight: Any, bias: Single, y: Single) -> None:
    """Set y to weight x + bias; weight as `stored`."""
    place, broad, ahead = 0, y.size - y.size % PANEL, AHEAD // weight.itemsize
    for row in range(0, broad, PANEL):
        total = zeros(PANEL)
        for column in range(x.size):
            fetch(weight, place + ahead)
            total = multiply_add(total, x[column], weight, place)
            place += PANEL
        store(total, y, row)
    for row in range(broad, y.size, LANES):
        sums = zeros(LANES)
        for column in range(x.size):
            sums = multiply_add(sums, x[column], weight, place)
            place += LANES
        for lane in range(min(LANES, y.size - row)):
            y[row + lane] = entry(sums, lane)
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


@njit(**COMPILE)
def exponential(x: np.float32) -> np.float32:
    """Return exp(x), with x clipped to +-EXP_LIMIT, within about 1e-7 (1 + |x|) of its value.

    Unlike loops of libm's exp, loops of it are vectorised. The polynomial is from Cephes' expf.
    """
    held = min(max(x, -EXP_LIMIT), EXP_LIMIT)
    whole = np.floor(held * LOG2_E + HALF)
    r = held - whole * LN_2
    power = np.int32((np.int32(whole) + EXPONENT_BIAS) << EXPONENT_PLACE).view(np.float32)  # 2^whole
    return (ONE + r + r * r * (E0 + r * (E1 + r * (E2 + r * (E3 + r * (E4 + r * E5)))))) * power


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

    def sequence(self, observations: Single) -> Single:
        return np.stack([self.step(observation) for observation in observations])
