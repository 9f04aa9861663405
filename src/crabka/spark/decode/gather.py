"""Compiled copies from where records lie to the buffers of Arrow columns.

As in the walks no bounds are checked by numba: `measure` and `copy_fields` trust the positions that a walk has found
in the same data, and compare them once more where a wrong one would be a read or a write outside.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from crabka.spark.decode.jit import BYTES, INT32S, INT64S, OUTPUT_BYTES, TWO_NUMBERS, compiled
from crabka.spark.decode.kernels import Bytes, Number, Numbers

_emit: Final[Any] = cgutils

Offsets = npt.NDArray[np.int32]


@intrinsic
def _copy_bytes(_context: Any, output: Any, start: Any, data: Any, span: Any) -> Any:
    """Emit a memcpy of the span (position, size), several times as fast as the loop that short fields compile to."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = context.make_array(signature.args[0])(context, builder, arguments[0])
        source = context.make_array(signature.args[2])(context, builder, arguments[2])
        position, size = (builder.extract_value(arguments[3], index) for index in range(2))
        _emit.raw_memcpy(
            builder, builder.gep(target.data, [arguments[1]]), builder.gep(source.data, [position]), size, 1
        )
        return context.get_dummy_value()

    return types.void(output, start, data, span), generate


@compiled(TWO_NUMBERS, INT64S, INT32S)
def measure(sizes: Numbers, offsets: Offsets) -> tuple[Number, Number]:
    """Fill Arrow's offsets of fields with these sizes, where a negative one means null; returns (bytes, nulls).

    `offsets` has one more entry than there are sizes, and all bytes together are fewer than 2 GiB.
    """
    total = np.int64(0)
    nulls = np.int64(0)
    offsets[0] = 0
    for index in range(len(sizes)):
        size = sizes[index]
        if size < 0:
            nulls += 1
        else:
            total += size
        offsets[index + 1] = total
    return total, nulls


@compiled(types.boolean, BYTES, INT64S, INT32S, OUTPUT_BYTES)
def copy_fields(data: Bytes, positions: Numbers, offsets: Offsets, output: Bytes) -> bool:
    """Copy the fields at these positions, one after the other; returns whether all of them were in the data."""
    end = np.int64(len(data))
    for index in range(len(positions)):
        start = np.int64(offsets[index])
        size = np.int64(offsets[index + 1]) - start
        position = positions[index]
        if size > 0:
            if position < 0 or size > end - position or size > len(output) - start:
                return False
            _copy_bytes(output, start, data, (position, size))  # type: ignore[call-arg] # the context is not passed
    return True


@compiled(types.void, INT64S, OUTPUT_BYTES)
def mark_valid(sizes: Numbers, bitmap: Bytes) -> None:
    """Set the bit of every field whose size is not negative; the bitmap is zeroed and has a bit for each."""
    for index in range(len(sizes)):
        if sizes[index] >= 0:
            bitmap[index >> 3] |= np.uint8(1 << (index & 7))
