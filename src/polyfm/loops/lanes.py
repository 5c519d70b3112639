"""Vectors in loops: an array indexed with ``lanes(s)`` in the last place gives LANES numbers at once, from s on.

Sums, differences, products, quotients and square roots of such vectors, and with single numbers, are vectors, and can
be assigned to an array in the same way; the precision is that of the vectors. A formula for one s is then the formula
for many, in the processor's registers and without the checks that a compiler makes before it turns a loop into vectors:
those cost more than the work of a short loop. In plain Python ``lanes(s)`` is a slice, and all of this is numpy's
arithmetic.
"""

import math
import operator

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

from polyfm.loops.jit import LANES, instructions_for, overload


class Vector(types.Type):
    """LANES numbers."""

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(name=f"vector({LANES} x {dtype})")


class Place(types.Type):
    """Where LANES numbers begin."""

    def __init__(self):
        super().__init__(name="place of a vector")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        number = manager.lookup(vector.dtype).get_value_type()
        super().__init__(manager, vector, ir.VectorType(number, LANES))


@register_model(Place)
class _PlaceModel(models.PrimitiveModel):
    def __init__(self, manager, place):
        super().__init__(manager, place, manager.lookup(types.intp).get_value_type())


def lanes(s):
    """The places s .. s + LANES - 1."""
    return slice(s, s + LANES)


def total(vector):
    """The sum of a vector's numbers, or of one number."""
    return np.sum(vector)


def sqrt(vector):
    """The square roots of a vector's numbers, or that of one number."""
    return np.sqrt(vector)


@instructions_for(lanes)
def _place(typing, s):
    def generate(context, builder, signature, arguments):
        return context.cast(builder, arguments[0], s, types.intp)

    return Place()(s), generate


def _as_vector(context, builder, kind, value, vector):
    """A value of the type `kind` as a vector of that type: itself, in its precision, or a number in every lane."""
    if isinstance(kind, Vector):
        if kind.dtype == vector.dtype:
            return value
        change = builder.fpext if kind.dtype.bitwidth < vector.dtype.bitwidth else builder.fptrunc
        return change(value, context.get_value_type(vector))
    number = context.cast(builder, value, kind, vector.dtype)
    undefined = ir.Constant(context.get_value_type(vector), ir.Undefined)
    first = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(builder.insert_element(undefined, number, ir.IntType(32)(0)), undefined, first)


def _kinds(index) -> tuple:
    """The types of an index, one for each axis."""
    return tuple(getattr(index, "types", (index,))) or (None,)


def _is_vector(array, index) -> bool:
    """Whether an index ends in `lanes`; consecutive numbers are neighbours in memory in contiguous arrays alone."""
    return isinstance(array, types.Array) and array.layout == "C" and isinstance(_kinds(index)[-1], Place)


def _pointer(context, builder, kinds, values, vector):
    """Where an array's vector lies; `kinds` and `values` are those of the array and of its index."""
    array = context.make_array(kinds[0])(context, builder, values[0])
    index = cgutils.unpack_tuple(builder, values[1]) if isinstance(kinds[1], types.BaseTuple) else [values[1]]
    places = [
        value if isinstance(kind, Place) else context.cast(builder, value, kind, types.intp)
        for kind, value in zip(_kinds(kinds[1]), index, strict=True)
    ]
    pointer = cgutils.get_item_pointer(context, builder, kinds[0], array, places, wraparound=False)
    return builder.bitcast(pointer, context.get_value_type(vector).as_pointer())


@instructions_for(operator.getitem)
def _load(typing, array, index):
    if not _is_vector(array, index):
        return None
    vector = Vector(array.dtype)

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature.args, arguments, vector)
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return vector(array, index), generate


@instructions_for(operator.setitem)
def _store(typing, array, index, value):
    if not _is_vector(array, index):
        return None
    vector = Vector(array.dtype)

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature.args, arguments, vector)
        new = _as_vector(context, builder, value, arguments[2], vector)
        builder.store(new, pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, index, value), generate


@instructions_for(total)
def _total(typing, vector):
    if not isinstance(vector, Vector):
        return vector(vector), lambda context, builder, signature, arguments: arguments[0]

    def generate(context, builder, signature, arguments):
        (part,), width = arguments, LANES
        while width > 1:
            width //= 2
            halves = [
                ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(start, start + width)))
                for start in (0, width)
            ]
            low, high = (builder.shuffle_vector(part, ir.Constant(part.type, ir.Undefined), half) for half in halves)
            part = builder.fadd(low, high)
        return builder.extract_element(part, ir.IntType(32)(0))

    return vector.dtype(vector), generate


@intrinsic
def _sqrt(typing, vector):
    def generate(context, builder, signature, arguments):
        kind = arguments[0].type
        name = f"llvm.sqrt.v{LANES}f{vector.dtype.bitwidth}"
        root = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name)
        return builder.call(root, arguments)

    return vector(vector), generate


def _arithmetic(instruction: str):
    def emit(typing, a, b):
        vectors = [kind for kind in (a, b) if isinstance(kind, Vector)]
        if not vectors or not all(isinstance(kind, Vector | types.Number) for kind in (a, b)):
            return None
        vector = max(vectors, key=lambda kind: kind.dtype.bitwidth)

        def generate(context, builder, signature, arguments):
            values = [
                _as_vector(context, builder, kind, value, vector) for kind, value in zip((a, b), arguments, strict=True)
            ]
            return getattr(builder, instruction)(*values, flags=("contract",))

        return vector(a, b), generate

    return emit


for _instruction, _operators in {
    "fadd": (operator.add, operator.iadd),
    "fsub": (operator.sub, operator.isub),
    "fmul": (operator.mul, operator.imul),
    "fdiv": (operator.truediv, operator.itruediv),
}.items():
    for _operator in _operators:
        instructions_for(_operator)(_arithmetic(_instruction))


@overload(sqrt)
def _sqrt_of(vector):
    if isinstance(vector, Vector):
        return lambda vector: _sqrt(vector)
    return lambda vector: math.sqrt(vector)
