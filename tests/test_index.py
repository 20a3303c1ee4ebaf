"""The index against brute force: rows that decide and rows that propose, folds, and what may go wrong."""

from __future__ import annotations

import threading
from math import inf

import numpy as np
import pyarrow as pa
import pytest

from tidegate.index import Index, axes, segment
from tidegate.index import index as index_module
from tidegate.index.batch import Batch
from tidegate.predicates.column import PointLists, column
from tidegate.predicates.filter import Filter
from tidegate.predicates.predicate import Within

X, Y, Z = (column("number", name) for name in "xyz")
BAG, TEXT = column("numbers", "bag"), column("text", "t")
WORDS = ["", "a", "ab", "b", "é", "\ud7ff", "\ue000", "😀", "zz"]


class Points(Batch):
    """A batch of nothing but points: arrays for single values, lists of lists for bags."""

    def __init__(self, **columns):
        super().__init__()
        self.columns = columns
        self.length = len(next(iter(columns.values())))

    def _read(self, column):
        found = self.columns.get(column.operand)
        if column == BAG and found is not None:
            offsets = np.concatenate([[0], np.cumsum([len(row) for row in found])]).astype(np.int64)
            return PointLists(offsets, np.array([point for row in found for point in row], np.float64))
        return pa.array(found, pa.large_string()) if column == TEXT and found is not None else found

    def row(self, i):
        return PointsOfOne(self.attributes(i))

    def attributes(self, i):
        return {name: given for name, values in self.columns.items() if (given := _given(values[i])) is not None}

    def holds(self, clause, p) -> bool:
        for within in clause:
            found = self.columns[within.column.operand][p]
            points = found if isinstance(found, list) else [found]
            if not any(low <= point < high for low, high in within.ranges for point in points if point is not None):
                return False
        return True


class PointsOfOne:
    """One publication of ``Points``."""

    def __init__(self, values):
        self._values = values

    def value(self, name):
        return self._values.get(name)


def _given(value):
    return None if isinstance(value, float) and np.isnan(value) else value


pytestmark = pytest.mark.usefixtures("way_to_match")


def rows(matches):
    return [sorted(matches.owners[a:b].tolist()) for a, b in zip(matches.start[:-1], matches.start[1:], strict=True)]


def brute(filters: dict[int, Filter], batch: Points):
    return [
        sorted(owner for owner, f in filters.items() if any(batch.holds(clause, p) for clause in f.clauses))
        for p in range(batch.length)
    ]


def some_ranges(rng, most=3):
    bounds = np.sort(rng.integers(-40, 41, 2 * rng.integers(1, most + 1)) / 4)
    ranges = [(float(a), float(b)) for a, b in zip(bounds[::2], bounds[1::2], strict=True) if a < b]
    if rng.random() < 0.2:
        ranges = [(-inf, -10.5), *ranges]
    if rng.random() < 0.2:
        ranges = [*ranges, (10.5, inf)]
    merged = []
    for low, high in ranges:
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged) or ((0.0, 1.0),)


def text_ranges(rng):
    low, high = sorted(rng.choice(len(WORDS), 2, replace=False))
    return ((WORDS[low], WORDS[high]),)


def some_filters(rng, count, several=0.3):
    filters = {}
    for owner in range(count):
        clauses = []
        for _ in range(1 + (rng.random() < several)):
            asked = rng.choice(5, rng.integers(0, 4), replace=False)
            at = [(X, Y, Z, BAG, TEXT)[c] for c in asked]
            clauses.append(tuple(Within(c, text_ranges(rng) if c == TEXT else some_ranges(rng)) for c in at))
        filters[owner] = Filter(tuple(clauses))
    return filters


def some_points(rng, count):
    def numbers():
        values = rng.integers(-48, 49, count) / 4
        values[rng.random(count) < 0.2] = np.nan
        return values

    bags = [(rng.integers(-48, 49, rng.integers(0, 4)) / 4).tolist() for _ in range(count)]
    texts = [None if rng.random() < 0.2 else str(rng.choice([*WORDS, "abc", "0"])) for _ in range(count)]
    return Points(x=numbers(), y=numbers(), z=numbers(), bag=bags, t=texts)


def indexed(filters):
    index = Index()
    for owner, f in filters.items():
        index.add(owner, f)
    return index


@pytest.fixture
def buckets(monkeypatch):
    """Few codes and fewer rows, so that a handful of bounds makes a bucketed column."""
    for name, value in {"MOST_CODES": 6, "MOST_ROWS": 3, "ROW_BITS": 1, "FEW_BUCKETS": 3, "MANY_BUCKETS": 4}.items():
        monkeypatch.setattr(axes, name, value)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("count", [1, 30, 400, 1200])
def test_rows_that_propose(buckets, seed, count):
    rng = np.random.default_rng([seed, count])
    filters, batch = some_filters(rng, count), some_points(rng, 40)
    index = indexed(filters)
    assert rows(index.match(batch)) == brute(filters, batch)
    if count > 30:
        assert index.segments[0].axes.bucketed.any()
        assert index.segments[0].doubtful.any()


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_decide(seed):
    rng = np.random.default_rng(seed)
    filters, batch = some_filters(rng, 700), some_points(rng, 60)
    index = indexed(filters)
    assert rows(index.match(batch)) == brute(filters, batch)
    assert not index.segments[0].axes.bucketed.any()


def intervals(rng, count, columns):
    low = rng.random((count, columns)) * 0.7
    return low, low + 0.3


def interval_filters(low, high):
    at = [column("number", f"v{c}") for c in range(low.shape[1])]
    return {
        i: Filter((tuple(Within(c, ((a, b),)) for c, a, b in zip(at, low[i].tolist(), high[i].tolist(), strict=True)),))
        for i in range(len(low))
    }


def test_values_beyond_all_bounds_of_a_bucketed_column():
    rng = np.random.default_rng(5)
    low, high = intervals(rng, 3000, 1)
    index = indexed(interval_filters(low, high))
    edges = np.sort(np.concatenate([low, high]).ravel())
    value = np.concatenate([[-1.0, 0.0, 1.0, 2.0], edges[:40], np.nextafter(edges[:40], -1), edges[-40:]])
    found = rows(index.match(Points(v0=value)))
    assert found == [np.flatnonzero((low[:, 0] <= v) & (v < high[:, 0])).tolist() for v in value]
    assert index.segments[0].axes.bucketed.all()


def test_more_blocks_than_a_word_has_bits():
    rng = np.random.default_rng(7)
    low, high = intervals(rng, 34_000, 3)
    index = indexed(interval_filters(low, high))
    value = rng.random((40, 3))
    value[::7, 1] = np.nan
    found = rows(index.match(Points(**{f"v{c}": value[:, c] for c in range(3)})))
    assert found == [np.flatnonzero(((low <= v) & (v < high)).all(axis=1)).tolist() for v in value]
    assert len(index.segments[0].entry_start) - 1 > 64


def test_hits_that_overflow_their_buffer(monkeypatch):
    monkeypatch.setattr(segment, "_HITS", 1)
    monkeypatch.setattr(segment, "_TILE_BYTES", 1)
    filters = {i: Filter(((Within(X, ((float(i % 3), inf),)),),)) for i in range(2000)}
    batch = Points(x=np.array([0.0, 1.0, 2.0, np.nan] * 10))
    assert rows(indexed(filters).match(batch)) == brute(filters, batch)


@pytest.mark.parametrize("size", [7, 2048])
def test_batches_larger_than_what_passes_together(monkeypatch, size):
    monkeypatch.setattr(segment, "_BATCH", size)
    rng = np.random.default_rng(size)
    filters, batch = some_filters(rng, 20), some_points(rng, 2 * size + 3)
    assert rows(indexed(filters).match(batch)) == brute(filters, batch)


def test_an_empty_batch_and_an_empty_index():
    index = indexed(some_filters(np.random.default_rng(0), 5))
    assert rows(index.match(Points(x=np.empty(0)))) == []
    assert rows(Index().match(Points(x=np.zeros(3)))) == [[], [], []]


def test_equal_clauses_are_stored_once():
    filters = {i: Filter(((Within(X, ((float(i % 2), 9.0),)), Within(Y, ((0.0, 1.0),))),)) for i in range(100)}
    index = indexed(filters)
    batch = Points(x=np.array([0.5, 1.5]), y=np.array([0.5, 0.5]))
    assert rows(index.match(batch)) == brute(filters, batch)
    assert len(index.segments[0].clauses) == 2
    swapped = Filter(((Within(Y, ((0.0, 1.0),)), Within(X, ((0.0, 9.0),))),))
    index.add(100, swapped)
    assert len(index.compact().clauses) == 2


def test_an_owner_of_several_clauses_is_listed_once():
    either = Filter(((Within(X, ((0.0, 2.0),)),), (Within(Y, ((0.0, 2.0),)),), (Within(X, ((0.0, 2.0),)),)))
    index = indexed({3: either, 4: Filter(((Within(X, ((0.0, 2.0),)),),))})
    assert rows(index.match(Points(x=np.array([1.0, 1.0, 5.0]), y=np.array([1.0, 5.0, 5.0])))) == [[3, 4], [3, 4], []]


@pytest.mark.parametrize("seed", range(4))
def test_owners_that_come_and_go(buckets, seed):
    rng = np.random.default_rng(seed)
    filters, batch = some_filters(rng, 300), some_points(rng, 20)
    index, alive = Index(), {}
    for owner, f in filters.items():
        index.add(owner, f)
        alive[owner] = f
        if rng.random() < 0.4:
            gone = int(rng.choice(list(alive)))
            index.remove(gone)
            del alive[gone]
        if rng.random() < 0.05:
            assert rows(index.match(batch)) == brute(alive, batch)
    assert rows(index.match(batch)) == brute(alive, batch)
    index.compact()
    assert len(index.segments) == 1
    assert set(index.segments[0].clauses.owner.tolist()) <= alive.keys()
    assert rows(index.match(batch)) == brute(alive, batch)


def test_owners_past_the_first_thousand():
    filters = {i: Filter(((Within(X, ((float(i), inf),)),),)) for i in range(0, 5000, 7)}
    index = indexed(filters)
    index.remove(4998)
    assert rows(index.match(Points(x=np.array([5000.0]))))[0] == [i for i in filters if i != 4998]


def test_folding_aside_while_others_match(monkeypatch):
    monkeypatch.setattr(index_module, "_WORTH", 16)
    monkeypatch.setattr(index_module, "_RATIO", 2)
    rng = np.random.default_rng(3)
    filters, batch = some_filters(rng, 400), some_points(rng, 8)
    wanted = brute(filters, batch)
    index, wrong, done = Index(), [], threading.Event()

    def match_all_the_time():
        while not done.is_set():
            # what is found must be right, and what was added before the match began must be found
            before = added[0]
            for found, owners in zip(rows(index.match(batch)), wanted, strict=True):
                if not set(owners[: sum(o < before for o in owners)]) <= set(found) <= set(owners):
                    wrong.append((before, found, owners))

    added = [0]
    threads = [threading.Thread(target=match_all_the_time) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for owner, f in filters.items():
            index.add(owner, f)
            added[0] = owner + 1
            if owner % 10 == 0:
                _ = index.segments
    finally:
        done.set()
        for thread in threads:
            thread.join()
    index.wait()
    assert not wrong
    assert rows(index.match(batch)) == wanted
    assert index._folding is not None, "nothing was folded aside"
    index.compact()
    assert rows(index.match(batch)) == wanted
    index.close()


def test_a_sample_of_the_bounds_is_not_taken_for_all_of_them(monkeypatch):
    monkeypatch.setattr(axes, "MOST_CODES", 8)
    monkeypatch.setattr(axes, "MOST_ROWS", 8)
    monkeypatch.setattr(axes, "ROW_BITS", 1)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        monkeypatch.setattr(axes, "_SAMPLE", 8 + seed % 8)
        low = np.where(rng.random(200) < 0.5, -inf, rng.integers(0, 20, 200)).tolist()
        high = np.where(rng.random(200) < 0.5, inf, rng.integers(20, 40, 200)).tolist()
        filters = {i: Filter(((Within(X, ((a, b),)),),)) for i, (a, b) in enumerate(zip(low, high, strict=True))}
        batch = Points(x=np.arange(-1.0, 41.0))
        assert rows(indexed(filters).match(batch)) == brute(filters, batch)


def test_segments_that_share_columns_and_were_never_matched_singly(monkeypatch):
    rng = np.random.default_rng(11)
    filters, batch = some_filters(rng, 60), some_points(rng, 30)
    index = Index()
    monkeypatch.setattr(index_module, "_RATIO", 0)  # none are merged
    for owner, f in filters.items():
        index.add(owner, f)
        if owner % 20 == 19:
            _ = index.segments
    assert len(index.segments) == 3
    assert rows(index.match(batch)) == brute(filters, batch)


def test_what_is_in_a_segment_is_a_newcomer_no_more(monkeypatch):
    monkeypatch.setattr(index_module, "_WORTH", 30)
    monkeypatch.setattr(index_module, "_SOME", 10**9)
    rng = np.random.default_rng(13)
    filters, batch = some_filters(rng, 100), some_points(rng, 30)
    index = indexed(filters)
    for _ in range(3):  # before, while and after the thread of the index builds the segment
        assert rows(index.match(batch)) == brute(filters, batch)
        index.wait()
    assert not index._standing.newcomers
    assert len(index._standing.segments) == 1
    index.close()
