"""Each kernel against the obvious loop."""

from __future__ import annotations

import itertools
from math import inf, isnan, nan

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.index import terms
from tidegate.index.batch import text_buffers
from tidegate.index.clauses import TextConstants
from tidegate.kernels import encode, identity, matched_owners
from tidegate.kernels.bits import LINE, LINE_BITS, and_lines, count_ones, trailing_zeros
from tidegate.kernels.order import order

words = st.integers(0, 2**64 - 1)
lines = st.lists(words | st.just(0) | st.just(2**64 - 1), min_size=LINE, max_size=LINE)
points = st.integers(-3, 12).map(float) | st.sampled_from([0.5, -inf, inf, 1e300])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.sampled_from(
    ["", "a", "ab", "a\0", "\ud7ff", "\ue000", "😀"]
)


def _bit_operations(word, line, table, first, second):
    return trailing_zeros(word), count_ones(word), and_lines(line, table, np.uint64(first), np.uint64(second))


_compiled = []


@given(word=words, line=lines, table=st.lists(lines, min_size=2, max_size=4), data=st.data())
def test_bits(word, line, table, data):
    if not _compiled:
        from numba import njit

        _compiled.append(njit(_bit_operations))
    first, second = (LINE * data.draw(st.integers(0, len(table) - 1)) for _ in range(2))
    flat = np.array([w for row in table for w in row], np.uint64)
    target = np.array(line, np.uint64)
    zeros, ones, some = _compiled[0](np.uint64(word), target, flat, first, second)
    assert zeros == (len(bin(word)) - len(bin(word).rstrip("0")) if word else 64)
    assert ones == bin(word).count("1")
    expected = [int(a) & int(flat[first + i]) & int(flat[second + i]) for i, a in enumerate(line)]
    assert target.tolist() == expected
    assert (some != 0) is any(expected)


@st.composite
def axes(draw):
    """Cuts per column, as the index keeps them: joined, with where each column's codes begin."""
    cuts = [sorted(draw(st.sets(st.integers(0, 9).map(float), max_size=6))) for _ in range(draw(st.integers(1, 3)))]
    row_start = np.concatenate([[0], np.cumsum([len(c) + 1 for c in cuts])]).astype(np.int64)
    return cuts, np.array([c for some in cuts for c in some], np.float64), row_start


def code_of(cuts, v):
    return sum(cut <= v for cut in cuts)


@given(axes=axes(), data=st.data())
def test_encode(axes, data):
    cuts, joined, row_start = axes
    codes = int(row_start[-1])
    row_of_code = np.array(data.draw(st.lists(st.integers(0, 500), min_size=codes, max_size=codes)), np.uint16)
    row = st.lists(points | st.just(nan), min_size=len(cuts), max_size=len(cuts))
    value = np.array(data.draw(st.lists(row, min_size=1, max_size=5)), np.float64)
    code, rows = np.empty(value.shape, np.int32), np.empty(value.shape, np.int64)
    encode.encode(value, joined, row_start, row_of_code, code, rows)
    for p, c in np.ndindex(value.shape):
        expected = -1 if isnan(value[p, c]) else code_of(cuts[c], value[p, c])
        assert code[p, c] == expected
        assert rows[p, c] == (0 if expected < 0 else LINE * int(row_of_code[row_start[c] + expected]))
    for c in range(len(cuts)):
        flat = value[~np.isnan(value[:, c]), c]
        listed, at = np.empty(len(flat), np.int32), np.empty(len(flat), np.int64)
        encode.encode_lists(c, flat, joined, row_start, row_of_code, listed, at)
        assert listed.tolist() == [code_of(cuts[c], v) for v in flat]
        assert at.tolist() == [LINE * int(row_of_code[row_start[c] + q]) for q in listed]


@st.composite
def clauses(draw, columns: int, most: int = 6, code_bounds=None):
    """Ragged entries (start, column, low, high), low < high."""
    start, column, low, high = [0], [], [], []
    for _ in range(draw(st.integers(0, most))):
        for c in sorted(draw(st.sets(st.integers(0, columns - 1)))):
            a, b = draw(st.tuples(points, points).filter(lambda two: two[0] < two[1]))
            column.append(c)
            low.append(a)
            high.append(b)
        start.append(len(column))
    return np.array(start, np.int64), np.array(column, np.uint16), np.array(low, np.float64), np.array(high, np.float64)


@given(axes=axes(), data=st.data())
def test_code_ranges_and_signatures(axes, data):
    cuts, joined, row_start = axes
    start, column, low, high = data.draw(clauses(len(cuts)))
    first, last = np.empty(len(column), np.int32), np.empty(len(column), np.int32)
    encode.code_ranges(column, low, high, joined, row_start, first, last)
    bounds = [[-inf, *some, inf] for some in cuts]
    for k, c in enumerate(column):
        reached = [q for q in range(len(cuts[c]) + 1) if low[k] < bounds[c][q + 1] and bounds[c][q] < high[k]]
        assert list(range(first[k], last[k])) == reached
    signature = encode.code_signatures(start, column, first, last, row_start)
    for c, some in enumerate(cuts):
        admits = [
            frozenset(
                i
                for i in range(len(start) - 1)
                for k in range(start[i], start[i + 1])
                if column[k] == c and first[k] <= q < last[k]
            )
            for q in range(len(some) + 1)
        ]
        seen = [tuple(row) for row in signature[row_start[c] + c : row_start[c + 1] + c].tolist()]
        assert [[a == b for b in seen] for a in seen] == [[a == b for b in admits] for a in admits]


@given(data=st.data())
def test_canonical_and_identity(data):
    start, column, low, high = data.draw(clauses(3))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    count = len(start) - 1
    opens = (
        [data.draw(st.lists(st.integers(0, 2), max_size=2)) for _ in range(count)] if data.draw(st.booleans()) else []
    )
    open_start = np.concatenate([[0], np.cumsum([len(o) for o in opens])]).astype(np.int64)
    open_predicate = np.array([p for o in opens for p in o], np.int32)
    for i in range(count):  # shuffle within clauses: canonical undoes it
        here = np.arange(start[i], start[i + 1])
        mixed = rng.permutation(here)
        column[here], low[here], high[here] = column[mixed], low[mixed], high[mixed]
    before = [sorted(zip(column[a:b], low[a:b], high[a:b], strict=True)) for a, b in itertools.pairwise(start)]
    encode.canonical(start, column, low, high)
    after = [list(zip(column[a:b], low[a:b], high[a:b], strict=True)) for a, b in itertools.pairwise(start)]
    assert after == before
    ids = [tuple(row) for row in encode.identity(start, column, low, high, open_start, open_predicate).tolist()]
    sets = map(tuple, map(sorted, opens))  # their order does not matter
    whole = list(zip(map(tuple, after), sets, strict=True)) if opens else [tuple(a) for a in after]
    assert [[a == b for b in ids] for a in ids] == [[a == b for b in whole] for a in whole]


@given(some=st.lists(texts | st.none(), min_size=1, max_size=8), constants=st.sets(texts, max_size=6))
def test_text_ranks(some, constants):
    ordered = sorted(constants)
    offsets, letters, valid = text_buffers(pa.array(some, pa.large_string()))
    known = TextConstants.of(ordered)
    ranks = encode.text_ranks(offsets, letters, valid, known.offsets, known.letters).tolist()
    for rank, text in zip(ranks, some, strict=True):
        assert isnan(rank) if text is None else rank == sum(constant <= text for constant in ordered)


@given(whole=st.lists(texts, max_size=8), a=st.integers(0, 8), b=st.integers(0, 8))
def test_text_buffers_of_a_slice(whole, a, b):
    for kind in (pa.string(), pa.large_string()):
        part = pa.array(whole, kind)[min(a, b) : max(a, b)]
        offsets, letters, valid = text_buffers(part)
        found = [letters[i:j].tobytes().decode() for i, j in itertools.pairwise(offsets)]
        assert found == part.to_pylist()
        assert valid.all()


@given(data=st.data(), block=st.sampled_from([1, 2, 4]))
def test_order_is_a_permutation(data, block):
    columns = data.draw(st.integers(1, 3))
    codes = np.array([data.draw(st.integers(1, 20)) for _ in range(columns)], np.int32)
    start, column, first, last = [0], [], [], []
    for _ in range(data.draw(st.integers(0, 30))):
        for c in sorted(data.draw(st.sets(st.integers(0, columns - 1)))):
            a = data.draw(st.integers(0, int(codes[c]) - 1))
            column.append(c)
            first.append(a)
            last.append(data.draw(st.integers(a + 1, int(codes[c]))))
        start.append(len(column))
    arrays = np.array(start, np.int64), np.array(column, np.uint16), np.array(first, np.int32), np.array(last, np.int32)
    assert sorted(order(*arrays, codes, block).tolist()) == list(range(len(start) - 1))


def test_order_puts_like_beside_like():
    rng = np.random.default_rng(0)
    first = rng.permutation(np.repeat(np.arange(8), LINE_BITS)).astype(np.int32)
    count = len(first)
    start, column = np.arange(count + 1), np.zeros(count, np.uint16)
    sequence = order(start, column, first, first + 1, np.array([8], np.int32), LINE_BITS)
    assert [len(set(first[some].tolist())) for some in sequence.reshape(-1, LINE_BITS)] == [1] * 8


@st.composite
def found(draw):
    """Hits in runs as select writes them, and the owners of the clauses."""
    publications, count = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    owned = [sorted(draw(st.sets(st.integers(0, 6), max_size=3))) for _ in range(count)]
    runs, hits = [], []
    for p in draw(st.lists(st.integers(0, publications - 1), max_size=6)):
        mine = draw(st.lists(st.integers(-1, count - 1), max_size=4))
        runs.append((p, len(hits), len(hits) + len(mine)))
        hits += mine
    return publications, np.array(runs, np.int64).reshape(-1, 3), np.array(hits, np.int32), owned


@given(found=found(), dead=st.sets(st.integers(0, 6)), once=st.booleans())
def test_owners_of_hits(found, dead, once):
    publications, runs, hits, owned = found
    owner_start = np.concatenate([[0], np.cumsum([len(o) for o in owned])]).astype(np.int64)
    owner = np.array([o for some in owned for o in some], np.int32)
    marks = np.array([who in dead for who in range(7)], np.uint8)
    stamps = np.zeros(7 if once else 0, np.int32)
    start, result = matched_owners.owners_of_hits(publications, runs, hits, owner_start, owner, marks, stamps)
    for p in range(publications):
        wanted = [
            who
            for run in runs
            if run[0] == p
            for hit in hits[run[1] : run[2]]
            if hit >= 0
            for who in owned[hit]
            if who not in dead
        ]
        assert result[start[p] : start[p + 1]].tolist() == (list(dict.fromkeys(wanted)) if once else wanted)


@given(found=found())
def test_rows_of_runs(found):
    publications, runs, hits, _ = found
    start, result = matched_owners.rows_of_runs(publications, runs, hits)
    for p in range(publications):
        assert result[start[p] : start[p + 1]].tolist() == [
            hit for run in runs if run[0] == p for hit in hits[run[1] : run[2]]
        ]


@given(found=found(), data=st.data())
def test_open_pairs(found, data):
    _, runs, hits, owned = found
    hits = np.abs(hits)
    hits[hits >= len(owned)] = 0
    some = st.tuples(st.integers(0, 2), st.integers(0, 5), st.booleans())
    opened = [data.draw(st.lists(st.integers(0, 3) | some, max_size=2)) for _ in owned]
    codes = [code if isinstance(code, int) else terms.code_of(*code) for some in opened for code in some]
    open_start = np.concatenate([[0], np.cumsum([len(some) for some in opened])]).astype(np.int64)
    pairs = matched_owners.open_pairs(runs, hits, open_start, np.array(codes, np.int32), terms.MOST_KINDS)
    for part in range(terms.MOST_KINDS + 1):
        here = slice(pairs.start[part], pairs.start[part + 1])
        found = [array[here].tolist() for array in pairs[1:]]
        assert list(zip(*found, strict=True)) == [
            (p, i, code, False) if isinstance(code, int) else (p, i, *code[1:])
            for p, a, b in runs.tolist()
            for i in range(a, b)
            for code in opened[hits[i]]
            if part == (0 if isinstance(code, int) else 1 + code[0])
        ]


_rows = st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=3, max_size=3)


@given(one=_rows, two=_rows)
def test_join_rows(one, two):
    def ragged(rows):
        start = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        return start, np.array([x for row in rows for x in row], np.int32)

    start, joined = matched_owners.join_rows(*ragged(one), *ragged(two))
    assert [joined[a:b].tolist() for a, b in itertools.pairwise(start)] == [
        a + b for a, b in zip(one, two, strict=True)
    ]


@given(
    subscriptions=st.lists(texts, min_size=1, max_size=4, unique=True),
    publications=st.lists(texts, min_size=1, max_size=4, unique=True),
)
def test_notification_ids_tell_content_apart(subscriptions, publications):
    s = identity.text_hashes(*text_buffers(pa.array(subscriptions, pa.large_string()))[:2])
    p = identity.text_hashes(*text_buffers(pa.array(publications, pa.large_string()))[:2])
    n = len(subscriptions)
    start = np.arange(len(publications) + 1, dtype=np.int64) * n
    found = set()
    for time in (0, 1, -(10**15)):
        digits = identity.notification_ids(
            start, np.tile(s, (len(publications), 1)), p, np.full(len(publications), time)
        )
        names = [bytes(row).decode() for row in digits]
        assert all(len(name) == 32 and set(name) <= set("0123456789abcdef") for name in names)
        found.update(names)
        if n > 1:  # the same pair has the same id wherever it stands
            again = identity.notification_ids(np.array([0, 1], np.int64), s[1:2], p[:1], np.array([time]))
            assert bytes(again[0]).decode() == names[1]
    assert len(found) == 3 * n * len(publications)
