"""Words of 64 bits and lines of eight words: the few machine operations the matching kernels are made of.

Written as LLVM instructions because numba offers neither trailing-zero count nor vector types; a line is one cache
line and one or two vector registers.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["LINE", "LINE_BITS", "and_lines", "copy_line", "count_ones", "trailing_zeros"]

#: Words in a line.
LINE = 8
LINE_BITS = 64 * LINE

_vector = ir.VectorType(ir.IntType(64), LINE)


@intrinsic
def trailing_zeros(context: Any, word: Any) -> Any:
    """How many zero bits end the word; 64 for zero."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), build


@intrinsic
def count_ones(context: Any, word: Any) -> Any:
    """How many bits of the word are set."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), build


def _line(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), _vector.as_pointer())


@intrinsic
def copy_line(context: Any, line: Any, rows: Any, first: Any) -> Any:
    """``line = rows[first:first + 8]``."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        line_type, rows_type = signature.args[:2]
        target = _line(context, builder, line_type, args[0], ir.Constant(ir.IntType(64), 0))
        builder.store(builder.load(_line(context, builder, rows_type, args[1], args[2]), align=8), target, align=8)
        return context.get_dummy_value()

    return types.none(line, rows, types.uint64), build


@intrinsic
def and_lines(context: Any, line: Any, rows: Any, first: Any, second: Any) -> Any:
    """``line &= rows[first:first + 8] & rows[second:second + 8]``; returns the OR of the result's words."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        line_type, rows_type = signature.args[:2]
        target = _line(context, builder, line_type, args[0], ir.Constant(ir.IntType(64), 0))
        result = builder.load(target, align=8)
        for offset in args[2:]:
            result = builder.and_(result, builder.load(_line(context, builder, rows_type, args[1], offset), align=8))
        builder.store(result, target, align=8)
        reduce = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.IntType(64), [_vector]), f"llvm.vector.reduce.or.v{LINE}i64"
        )
        return builder.call(reduce, [result])

    return types.uint64(line, rows, types.uint64, types.uint64), build
