"""Sixteen numbers at a time: the few vector instructions that numba does not make by itself.

Written in LLVM's terms, which splits them where a processor has narrower registers. All offsets are in numbers from
the beginning of an array, which is contiguous; nothing is checked.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["LONG", "Simd", "prefetch", "rows_within"]

LONG, _INT = ir.IntType(64), ir.IntType(32)


class Simd:
    """A vector of ``count`` numbers of one type, and the operations on it."""

    def __init__(self, number: Any, count: int, name: str) -> None:
        self.count, self._name = count, f"v{count}{name}"
        self._align = {"f32": 4, "f64": 8}[name]
        self.wide = ir.VectorType(number, count)

    def zero(self) -> Any:
        return ir.Constant(self.wide, [0.0] * self.count)

    def _at(self, context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
        return builder.gep(context.make_array(kind)(context, builder, array).data, [offset])

    def load(self, context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
        """The numbers from an offset on."""
        there = self._at(context, builder, kind, array, offset)
        return builder.load(builder.bitcast(there, self.wide.as_pointer()), align=self._align)

    def store(self, context: Any, builder: Any, kind: Any, array: Any, offset: Any, numbers: Any) -> None:
        """Put numbers at an offset."""
        there = self._at(context, builder, kind, array, offset)
        builder.store(numbers, builder.bitcast(there, self.wide.as_pointer()), align=self._align)

    def splat(self, context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
        """The one number at an offset, in all lanes."""
        number = builder.load(self._at(context, builder, kind, array, offset))
        single = builder.insert_element(ir.Constant(self.wide, ir.Undefined), number, _INT(0))
        zeros = ir.Constant(ir.VectorType(_INT, self.count), [0] * self.count)
        return builder.shuffle_vector(single, ir.Constant(self.wide, ir.Undefined), zeros)

    def squared(self, builder: Any, numbers: Any, total: Any) -> Any:
        """The squares of numbers added to a total."""
        fuse = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(self.wide, [self.wide] * 3), f"llvm.fmuladd.{self._name}"
        )
        return builder.call(fuse, [numbers, numbers, total])

    def word(self, builder: Any, flags: list[Any]) -> Any:
        """The flags of several vectors, a flag per lane, as the bits of one word."""
        word = LONG(0)
        for g, some in enumerate(flags):
            bits = builder.zext(builder.bitcast(some, ir.IntType(self.count)), LONG)
            word = builder.or_(word, builder.shl(bits, LONG(self.count * g)))
        return word


@intrinsic
def prefetch(typing: Any, array: Any, offset: Any) -> Any:
    """Have the processor load a line of memory into its cache that will be read soon."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        there = builder.gep(array.data, [args[1]])
        byte = ir.IntType(8).as_pointer()
        fetch = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, _INT, _INT, _INT]), "llvm.prefetch.p0i8"
        )
        builder.call(fetch, [builder.bitcast(there, byte), _INT(0), _INT(3), _INT(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), build


_sixteen = Simd(ir.FloatType(), 16, "f32")


@intrinsic
def rows_within(
    typing: Any, blocks: Any, block: Any, points: Any, point: Any, limits: Any, limit: Any, sums: Any
) -> Any:
    """A bit for each of the 64 rows of a block whose squared distance to a point is within its limit, and those sums.

    A block has 16 numbers per row, number by number. The sums are there only if some bit is set.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds, groups = signature.args, [16 * g for g in range(4)]

        def added(totals: list[Any], numbers: range) -> list[Any]:
            for d in numbers:
                value = _sixteen.splat(context, builder, kinds[2], args[2], builder.add(args[3], LONG(d)))
                for g, first in enumerate(groups):
                    there = builder.add(args[1], LONG(64 * d + first))
                    gap = builder.fsub(_sixteen.load(context, builder, kinds[0], args[0], there), value)
                    totals[g] = _sixteen.squared(builder, gap, totals[g])
            return totals

        def within(totals: list[Any]) -> Any:
            flags = []
            for total, first in zip(totals, groups, strict=True):
                bound = _sixteen.load(context, builder, kinds[4], args[4], builder.add(args[5], LONG(first)))
                flags.append(builder.fcmp_ordered("<=", total, bound))
            return _sixteen.word(builder, flags)

        totals = added([_sixteen.zero() for _ in groups], range(8))
        found = cgutils.alloca_once_value(builder, within(totals))
        with builder.if_then(builder.icmp_unsigned("!=", builder.load(found), LONG(0))):
            totals = added(totals, range(8, 16))
            builder.store(within(totals), found)
            for total, first in zip(totals, groups, strict=True):
                _sixteen.store(context, builder, kinds[6], args[6], LONG(first), total)
        return builder.load(found)

    number = types.int64
    return types.uint64(blocks, number, points, number, limits, number, sums), build
