"""The index against brute force: rows that decide and rows that propose, folds, snapshots, and what may go wrong."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from math import inf

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
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

    def holds(self, clause, p) -> bool:
        for within in clause:
            found = self.columns[within.column.operand][p]
            points = found if isinstance(found, list) else [found]
            if not any(low <= point < high for low, high in within.ranges for point in points if point is not None):
                return False
        return True


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
    monkeypatch.setattr(index_module, "_ASIDE", 16)
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
    assert index._merging is not None, "nothing was folded aside"
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


# --- snapshots ----------------------------------------------------------------------------------------------------

WHERE = [
    "x > 3 AND t LIKE 'a%'",
    "x + y > 3 OR NOT t LIKE '%b_d%'",
    "x < y",
    "a_contains(bag, (1, 2))",
    "a_overlaps(bag, (1, TIMESTAMP('2026-11-15T08:00:00Z')), '<=')",
    "S_DWITHIN(location, POINT(7 45), 500)",
    "NOT S_INTERSECTS(location, POLYGON((0 0, 9 0, 9 50, 0 0)))",
    "CASEI(t) = CASEI('ÄB')",
    "CASEI(t) LIKE '%ä_c%'",
    "TRUE",
    "FALSE",
]


def made(where=WHERE):
    return tg.Engine([tg.Subscription(f"s{i:02}", "ann", w) for i, w in enumerate(where)])


def published(engine):
    when = datetime(2026, 11, 15, 8, tzinfo=UTC)
    attributes = [
        {"x": 4, "y": 5, "t": "abcd", "bag": [1, 2, 2]},
        {"x": 9, "y": 1, "t": "äb"},
        {"bag": [when]},
        {"t": "ÄÄC"},
    ]
    batch = [tg.Publication(f"p{i}", "z", when, a, location=(7, 45)) for i, a in enumerate(attributes)]
    return engine.publish(batch)


def test_a_snapshot_says_the_same(tmp_path):
    engine = made()
    expected = published(engine)
    assert len({n.subscription for n in expected}) > 6
    engine.save(tmp_path / "deep" / "new")
    loaded = tg.Engine.load(tmp_path / "deep" / "new")
    assert published(loaded) == expected
    assert list(loaded) == list(engine)
    assert loaded.index_bytes == engine.index_bytes
    with pytest.raises(tg.SubscriptionError, match="not in use"):
        loaded.subscribe(tg.Subscription("s00", "bob", "TRUE"))


def test_a_snapshot_is_replaced_by_the_engine_that_came_from_it(tmp_path):
    made().save(tmp_path)
    loaded = tg.Engine.load(tmp_path)
    loaded.unsubscribe("s09")
    loaded.subscribe(tg.Subscription("new", "bob", {"op": ">", "args": [{"property": "x"}, 3]}))
    expected = published(loaded)
    loaded.save(tmp_path)
    assert published(loaded) == expected
    again = tg.Engine.load(tmp_path)
    assert published(again) == expected
    assert [s.id for s in again] == [s.id for s in loaded]
    assert sorted(p.name for p in tmp_path.parent.glob(f".{tmp_path.name}*")) == []


@pytest.mark.parametrize("where", [[], ["FALSE"]])
def test_an_engine_without_clauses_can_be_saved(tmp_path, where):
    made(where).save(tmp_path)
    loaded = tg.Engine.load(tmp_path)
    assert published(loaded) == []
    loaded.subscribe(tg.Subscription("s", "ann", "x = 4"))
    assert len(published(loaded)) == 1


def test_an_engine_whose_subscriptions_all_ended_can_be_saved(tmp_path):
    engine = made()
    for subscription in list(engine):
        engine.unsubscribe(subscription.id)
    engine.save(tmp_path)
    loaded = tg.Engine.load(tmp_path)
    assert len(loaded) == 0
    assert published(loaded) == published(engine) == []


def test_a_target_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear ann")
    for target in (
        tmp_path,
        tmp_path / "letter.txt",
        tmp_path / "letter.txt" / "below",
        tmp_path / ("n" * 300),
        tmp_path / "a\0b",
    ):
        with pytest.raises(tg.SnapshotError, match=r"^expected .*; got ") as caught:
            made().save(target)
        assert isinstance(caught.value, OSError)
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]


def saved_files(path):
    engine = made()
    engine.subscribe(tg.Subscription("shape", "ann", "shape(close, (1, 2, 4)) <= 0.5"))
    engine.save(path)
    return sorted(p.name for p in path.iterdir())


def test_every_file_of_a_snapshot_is_needed(tmp_path):
    for name in saved_files(tmp_path / "s"):
        file = tmp_path / "s" / name
        whole = file.read_bytes()
        for broken in (None, b"", whole[: len(whole) // 2]):
            file.unlink() if broken is None else file.write_bytes(broken)
            with pytest.raises(tg.SnapshotError, match=r"^expected .*; got .*; at .*") as caught:
                tg.Engine.load(tmp_path / "s")
            assert str(tmp_path / "s") in str(caught.value)
            file.write_bytes(whole)
    assert published(tg.Engine.load(tmp_path / "s")) == published(made())


@pytest.mark.parametrize(
    "change",
    [
        {"format": 999},
        {"format": "x"},
        {"subscriptions": 1},
        {"columns": [["nosuch", "x"]]},
        {"columns": None},
        {"columns": [["number", {"op": 5}]]},
        {"bytes": []},
        {"bytes": {"start": 3}},
        {"texts": [77]},
    ],
)
def test_facts_that_do_not_fit_the_files(tmp_path, change):
    made().save(tmp_path)
    facts = json.loads((tmp_path / "index.json").read_bytes())
    (tmp_path / "index.json").write_text(json.dumps(facts | change))
    with pytest.raises(tg.SnapshotError, match="expected"):
        tg.Engine.load(tmp_path)


def test_no_directory_is_no_snapshot(tmp_path):
    with pytest.raises(tg.SnapshotError, match="a directory with a complete snapshot"):
        tg.Engine.load(tmp_path / "nowhere")
    with pytest.raises(tg.SnapshotError, match="a directory with a complete snapshot"):
        tg.Engine.load(tmp_path)
