"""Vectors of 16 numbers for numba: loops that keep sums in registers and prefetch.

LLVM's vectoriser does neither for sums of many rows: with it, the step of a policy with 0.8 million parameters takes
a fifth longer. A vector is one register of AVX-512, two of AVX2, four of NEON. `+`, `-` and
`*` work on two vectors of one kind. Indices count entries of a contiguous array from its beginning, unchecked.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core.datamodel import PrimitiveModel
from numba.core.datamodel.registry import register_default
from numba.core.typing import signature
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.extending import intrinsic, lower_builtin

LANES = 16
CACHE_LINE = 64  # [bytes]
Emit = Callable[[Any, Any, Any, Any], Any]  # context, builder, signature and arguments to a value of LLVM
INDEX = ir.IntType(32)
ENTRIES = {
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.uint16: ir.HalfType(),  # float16 as the integers of its bits: numba knows no half
}


class Vector(types.Type):
    """The type of LANES numbers in registers."""

    def __init__(self, entry: types.Float) -> None:
        self.entry = entry
        super().__init__(name=f"vector of {LANES} {entry}")


@register_default(Vector)
class VectorModel(PrimitiveModel):
    """The LLVM type of a Vector."""

    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, ir.VectorType(ENTRIES[kind.entry], LANES))


SINGLES, DOUBLES = Vector(types.float32), Vector(types.float64)


OPERATIONS = {
    "fadd": (operator.add, operator.iadd),
    "fsub": (operator.sub, operator.isub),
    "fmul": (operator.mul, operator.imul),
}


def _define(operation: Callable[[Any, Any], Any], instruction: str) -> None:
    class Operation(ConcreteTemplate):
        key = operation
        cases = [signature(kind, kind, kind) for kind in (SINGLES, DOUBLES)]

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments, flags=("contract",))  # a * b + c in one instruction

    infer_global(operation)(Operation)
    lower_builtin(operation, Vector, Vector)(generate)


for _instruction, _operations in OPERATIONS.items():
    for _operation in _operations:
        _define(_operation, _instruction)


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any, target: ir.Type) -> Any:
    """Return a pointer to `target` at an entry of an array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), target.as_pointer())


@intrinsic
def load(_context: Any, array: Any, index: Any) -> tuple[Any, Emit]:
    """Load LANES entries of an array from an index; half precision becomes float32."""
    kind = DOUBLES if array.dtype == types.float64 else SINGLES

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        stored = ir.VectorType(ENTRIES[array.dtype], LANES)
        value = builder.load(_place(context, builder, signature.args[0], arguments[0], arguments[1], stored))
        value.align = array.dtype.bitwidth // 8
        return builder.fpext(value, context.get_value_type(kind)) if array.dtype == types.uint16 else value

    return kind(array, types.intp), generate


@intrinsic
def store(_context: Any, vector: Any, array: Any, index: Any) -> tuple[Any, Emit]:
    """Store a vector in an array of its type, from an index."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, array_value, start = arguments
        place = _place(context, builder, signature.args[1], array_value, start, value.type)
        builder.store(value, place).align = vector.entry.bitwidth // 8
        return context.get_dummy_value()

    return types.void(vector, array, types.intp), generate


@intrinsic(prefer_literal=True)
def fetch(_context: Any, array: Any, index: Any, entries: Any) -> tuple[Any, Emit]:
    """Prefetch `entries` (a constant) from an index; reading past the end of the array is harmless."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = _place(context, builder, signature.args[0], arguments[0], arguments[1], ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [first.type, INDEX, INDEX, INDEX])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [first.type], kind)
        how = [ir.Constant(INDEX, value) for value in (0, 3, 1)]  # to read, into every cache, data
        for byte in range(0, entries.literal_value * array.dtype.bitwidth // 8, CACHE_LINE):
            builder.call(prefetch, [builder.gep(first, [ir.Constant(INDEX, byte)]), *how])
        return context.get_dummy_value()

    return types.void(array, types.intp, entries), generate


@intrinsic
def spread(_context: Any, number: Any) -> tuple[Any, Emit]:
    """Return a vector with this float32 or float64 in every entry."""
    kind = Vector(number)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        nothing = ir.Constant(context.get_value_type(kind), ir.Undefined)
        first = builder.insert_element(nothing, arguments[0], ir.Constant(INDEX, 0))
        return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(INDEX, LANES), [0] * LANES))

    return kind(number), generate


@intrinsic
def entry(_context: Any, vector: Any, index: Any) -> tuple[Any, Emit]:
    """Return one entry of a vector."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.extract_element(*arguments)

    return vector.entry(vector, types.intp), generate


@intrinsic
def widened(_context: Any, vector: Any) -> tuple[Any, Emit]:
    """Convert a vector of float32 to float64."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fpext(arguments[0], context.get_value_type(DOUBLES))

    return DOUBLES(SINGLES), generate


@intrinsic
def narrowed(_context: Any, vector: Any) -> tuple[Any, Emit]:
    """Convert a vector of float64 to float32."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fptrunc(arguments[0], context.get_value_type(SINGLES))

    return SINGLES(DOUBLES), generate


def whole(size: int) -> int:
    """Round a size up to whole vectors."""
    return -(-size // LANES) * LANES


def packed(arrays: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Copy the arrays into one piece of memory, each at the start of a cache line."""
    sizes = [-(-array.nbytes // CACHE_LINE) * CACHE_LINE for array in arrays]
    memory = np.zeros(sum(sizes) + CACHE_LINE, dtype=np.uint8)
    start, views = -memory.ctypes.data % CACHE_LINE, []
    for array, size in zip(arrays, sizes, strict=True):
        view = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        view[...] = array
        views.append(view)
        start += size
    return views
