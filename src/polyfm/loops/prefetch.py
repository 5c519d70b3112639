"""Memory that is asked for before it is needed.

Rows of X name their features long before a loop comes to them. Where parameters are larger than the cache, waiting for
them is most of the work; who asks for the features of the next rows while working on this one does not wait. Nothing
is read or changed: in plain Python this does nothing at all.
"""

import math

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from polyfm.loops.jit import instructions_for

LINE = 64  # bytes that come together
AHEAD = 40  # non-zeros: about as many as are worked on in the time that memory takes to answer


def prefetch(array, indices, e):
    """Have array[j] brought into the cache, j being the feature some way after entry e of sparse rows. Dense rows,
    whose `indices` are None, have few features: they stay in the cache."""


@instructions_for(prefetch)
def _prefetch(typing, array, indices, e):
    def generate(context, builder, signature, arguments):
        if isinstance(indices, types.NoneType):
            return context.get_dummy_value()
        struct = context.make_array(array)(context, builder, arguments[0])
        size, number, flag = ir.IntType(64), ir.IntType(32), ir.IntType(8)
        features = context.make_array(indices)(context, builder, arguments[1])
        some_way_on = builder.add(context.cast(builder, arguments[2], e, types.intp), size(AHEAD))
        last = builder.sub(cgutils.unpack_tuple(builder, features.shape)[0], size(1))
        place = builder.select(builder.icmp_signed("<", some_way_on, last), some_way_on, last)
        feature = cgutils.get_item_pointer(context, builder, indices, features, [place], wraparound=False)
        j = context.cast(builder, builder.load(feature), indices.dtype, types.intp)
        index = [j, *[size(0)] * (array.ndim - 1)]
        first = cgutils.get_item_pointer(context, builder, array, struct, index, wraparound=False)
        first = builder.bitcast(first, flag.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [first.type, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [first.type], kind)
        length = cgutils.unpack_tuple(builder, struct.strides)[0]
        with cgutils.for_range_slice(builder, size(0), length, size(LINE), intp=size) as (offset, _):
            builder.call(ask, [builder.gep(first, [offset]), number(0), number(3), number(1)])  # to read, and to keep
        return context.get_dummy_value()

    return types.void(array, indices, e), generate


def aligned(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Zeros that begin with a line of the cache: a vector then lies in one line, and what a feature needs in as few as
    can be."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(size + LINE, dtype=np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(dtype).reshape(shape)
