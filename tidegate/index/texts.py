"""The text terms of a segment: which of its patterns of LIKE the texts of a batch are as, all looked up together.

``kernels/grams.py`` finds the terms that lead to clauses; any other term is compared with the texts it is asked of. The
texts of a publication are read, and folded, once per operand.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.index.batch import Batch, text_buffers
from tidegate.index.offsets import below, fits, offsets
from tidegate.index.ragged import starts
from tidegate.index.terms import FoundTerms, TermLookup
from tidegate.index.text_terms import TextTerms
from tidegate.kernels.grams import SIZES, Grams, fill_filter, find, rarest_grams
from tidegate.kernels.like import TextBuffers, fit_pairs
from tidegate.predicates.column import Row, column

__all__ = ["SegmentTexts", "TextHits"]

_NONE = np.empty(0, np.int64)
#: Bits of the filter for each gram.
_FILTER_BITS = 16


class TextHits(FoundTerms):
    """What ``SegmentTexts`` found for some publications, and their texts."""

    def __init__(self, terms: TextTerms, texts: Callable[[int], TextBuffers | None]) -> None:
        self._terms, self._texts = terms, texts
        self._pairs: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    def take(self, publication: NDArray[np.int64], term: NDArray[np.int64]) -> None:
        """Record pairs of publications, in ascending order, and text terms that hold for them."""
        if len(term):
            self._pairs.append((publication, term))

    @property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if len(self._pairs) <= 1:
            return self._pairs[0] if self._pairs else (_NONE, _NONE)
        publication = np.concatenate([p for p, _ in self._pairs])
        order = np.argsort(publication, kind="stable")
        return publication[order], np.concatenate([term for _, term in self._pairs])[order]

    def holds(
        self, publication: NDArray[np.int64], term: NDArray[np.int64], negated: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        if len(self._terms.operands) == 1:
            return self._compared(0, publication, term, negated)
        answer = np.zeros(len(term), np.bool_)
        operand = self._terms.operand[term]
        for number in np.unique(operand).tolist():
            mine = np.flatnonzero(operand == number)
            answer[mine] = self._compared(number, publication[mine], term[mine], negated[mine])
        return answer

    def _compared(
        self, operand: int, publication: NDArray[np.int64], term: NDArray[np.int64], negated: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        texts = self._texts(operand)
        if texts is None:
            return np.zeros(len(term), np.bool_)
        held: NDArray[np.bool_] = fit_pairs(publication, term, negated, self._terms.patterns, texts)
        return held


class SegmentTexts(TermLookup):
    """All text terms of a segment's clauses."""

    def __init__(
        self, terms: TextTerms, drives: NDArray[np.bool_], facts: Any = None, arrays: dict[str, Any] | None = None
    ) -> None:
        self._terms = terms
        self._columns = [column("text", operand) for operand in terms.operands]
        self._grams = _grams(terms, np.flatnonzero(drives)) if arrays is None else Grams(**arrays)
        self._sizes: list[int] = _sizes(terms, self._grams) if facts is None else facts["sizes"]
        """By operand, a bit for each size of its grams."""
        self._sought = [(number, at) for number, at in enumerate(self._columns) if self._sizes[number]]
        self._of_thread = threading.local()
        if arrays is not None:
            self._check()

    def _check(self) -> None:
        grams = self._grams
        for name, size in (("filter", 64 * len(grams.filter)), ("bucket", len(grams.bucket) - 1)):
            if size < 2 or size & (size - 1):
                raise ValueError(f"{name} of {size}")
        offsets("bucket", grams.bucket, len(grams.bucket) - 1, len(grams.key))
        offsets("gram-start", grams.start, len(grams.key), len(grams.pattern))
        below("gram-pattern", grams.pattern, len(self._terms))
        fits("gram-place", grams.place.shape, grams.pattern.shape)
        if len(grams.place) and (grams.place < 0).any():
            raise ValueError("a gram before its pattern")
        if (grams.place >= np.diff(self._terms.start)[grams.pattern]).any():
            raise ValueError("a gram behind its pattern")
        fits("filter", grams.filter.shape, (len(grams.filter),))
        below("gram-sizes", np.array(self._sizes, np.int64), 1 << len(SIZES))

    @property
    def nbytes(self) -> int:
        return self._terms.nbytes + sum(array.nbytes for array in self._grams)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        return self._grams._asdict()

    @property
    def facts(self) -> Any:
        """The sizes of grams."""
        return {"sizes": self._sizes}

    def found(self, batch: Batch, begin: int, end: int) -> TextHits:
        def texts(number: int) -> TextBuffers | None:
            points = batch.points(self._columns[number])
            return None if points is None else TextBuffers(*text_buffers(points[begin:end]))

        found = TextHits(self._terms, texts)
        for number, _ in self._sought:
            if (mine := texts(number)) is not None:
                found.take(*self._found(number, mine))
        return found

    def alone(self, row: Row) -> TextHits:
        def texts(number: int) -> TextBuffers | None:
            text: Any = self._columns[number].point(row)
            return None if text is None else _text_alone(text.encode())

        found = TextHits(self._terms, texts)
        for number, _ in self._sought:
            if (mine := texts(number)) is not None:
                found.take(*self._found(number, mine))
        return found

    def _found(self, number: int, texts: TextBuffers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        own = self._of_thread.__dict__
        if "stamps" not in own:
            own["stamps"], own["stamp"] = np.zeros(len(self._grams.pattern), np.int64), 1
        stamp = own["stamp"]
        own["stamp"] += len(texts.valid)
        pairs: tuple[NDArray[np.int64], NDArray[np.int64]] = find(
            texts, number, self._sizes[number], self._grams, self._terms.patterns, own["stamps"], stamp
        )
        return pairs


_ONE_VALID = np.ones(1, np.bool_)


def _text_alone(text: bytes) -> TextBuffers:
    """The buffers of one text, which nobody may write, like those of ``text_buffers``."""
    offsets = np.array([0, len(text)])
    offsets.flags.writeable = False
    return TextBuffers(offsets, np.frombuffer(text or b"\0", np.uint8), _ONE_VALID)


def _grams(terms: TextTerms, some: NDArray[np.int64]) -> Grams:
    """The grams of some terms, each of which has a literal piece."""
    windows = max(16, len(terms.letters))
    hashes, place = rarest_grams(terms.patterns, terms.operand, terms.size, some, _bits(4 * windows))
    order = np.argsort(hashes, kind="stable")
    key, first = np.unique(hashes[order], return_index=True)
    filter_bits, bucket_bits = max(9, _bits(_FILTER_BITS * len(key))), max(1, _bits(len(key)))
    filter = np.zeros((1 << filter_bits) // 64, np.uint64)
    fill_filter(key, filter, filter_bits)
    begins = np.bincount((key >> np.uint64(64 - bucket_bits)).astype(np.int64), minlength=1 << bucket_bits)
    return Grams(
        filter=filter,
        bucket=starts(begins).astype(np.int32),
        key=key,
        start=np.append(first, len(order)).astype(np.int32),
        pattern=some[order].astype(np.int32),
        place=place[order],
    )


def _sizes(terms: TextTerms, grams: Grams) -> list[int]:
    sizes = [0] * len(terms.operands)
    operand, size = terms.operand[grams.pattern], terms.size[grams.pattern]
    for number, each in set(zip(operand.tolist(), size.tolist(), strict=True)):
        sizes[number] |= 1 << each
    return sizes


def _bits(count: int) -> int:
    return max(count - 1, 0).bit_length()
