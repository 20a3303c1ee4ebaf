"""Snapshots of versions: whatever was subscribed, ended, merged and tidied, each version matches as an oracle says."""

import shutil
import threading
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.profiles import examples
from tidegate import Subscription
from tidegate.errors import SnapshotError, StoreError
from tidegate.index import ArrowBatch
from tidegate.language.limits import NO_LIMITS
from tidegate.patterns import Pattern
from tidegate.store import index_layers as shelf_module
from tidegate.store.index_layers import IndexLayers
from tidegate.store.registry import Registry
from tidegate.store.stored_subscription import StoredSubscription
from tidegate.subscriptions import compile_subscription

TIME = datetime(2026, 11, 15, tzinfo=UTC)


def publications(values):
    n = len(values)
    return ArrowBatch(
        pa.table(
            {
                "id": [f"p{i}" for i in range(n)],
                "source": ["s"] * n,
                "time": pa.array([TIME] * n, pa.timestamp("us", "UTC")),
                "a": pa.array(values, pa.float64()),
            }
        )
    )


class World:
    """The oracle: all rows there ever were, and who matches at a version, in obvious loops."""

    def __init__(self):
        self.rows = []
        self.version = 0

    def subscribe(self, id, threshold):
        self.version += 1
        self.rows.append([self.version, None, id, threshold])

    def unsubscribe(self, n):
        living = [row for row in self.rows if row[1] is None]
        if living:
            self.version += 1
            living[n % len(living)][1] = self.version

    def active(self, version):
        return [row for row in self.rows if row[0] <= version and (row[1] is None or version < row[1])]

    def matching(self, value, version):
        return sorted(row[2] for row in self.active(version) if value > row[3])

    def made(self, after, upto):
        return [
            StoredSubscription(since, until, id, "ann", f"a > {threshold}", None, None)
            for since, until, id, threshold in self.rows
            if after < since <= upto
        ]

    def ended(self, after, upto):
        return [(since, until) for since, until, _, _ in self.rows if until is not None and after < until <= upto]


def matched(view, values, versions):
    found = view.match(publications(values), np.array(versions, np.int64))
    ids = view.catalogue.texts("id", found.owners).to_pylist()
    return [sorted(ids[a:b]) for a, b in zip(found.start[:-1], found.start[1:], strict=True)]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("subscribe"), st.integers(0, 9)),
        st.tuples(st.just("unsubscribe"), st.integers(0, 50)),
        st.tuples(st.just("extend"), st.floats(0, 1)),
    ),
    max_size=40,
)


@examples(40)
@given(steps=steps, ratio=st.sampled_from([1, 4]), url=st.booleans())
def test_every_version_matches_as_the_oracle_says(tmp_path_factory, steps, ratio, url):
    root = tmp_path_factory.mktemp("shelf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_CACHE", str(root / "cache"))
        patch.setattr(shelf_module, "_RATIO", ratio)
        shelf = IndexLayers(f"file://{root}/shelf" if url else root / "shelf")
        world, oldest, known, number = World(), 0, 0, 0
        for what, argument in [*steps, ("extend", 0.5)]:
            if what == "subscribe":
                number += 1
                world.subscribe(f"s{number}", argument)
            elif what == "unsubscribe":
                world.unsubscribe(argument)
            else:
                oldest = max(oldest, round(argument * world.version))
                shelf.extend(oldest, world.version, world.made(known, world.version), world.ended(known, world.version))
                known = world.version
        patch.setenv("TIDEGATE_CACHE", str(root / "cache of another machine"))
        reader = IndexLayers(f"file://{root}/shelf" if url else root / "shelf")
        for one in (shelf, reader):
            view = one.view(oldest, known)
            versions = list(range(oldest, known + 1))
            values = [5.5] * len(versions)
            assert matched(view, values, versions) == [world.matching(5.5, version) for version in versions]
            assert len(view) == len(world.active(known))


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("name LIKE '%orth%'", {"name"}),
        ("n = 1 AND CASEI(name) LIKE '%o_t%'", {"n", "name"}),
        ("S_DWITHIN(location, POINT(16 46), 5000)", {"location"}),
        ("S_INTERSECTS(seen, POLYGON((15 45, 17 45, 17 47, 15 45)))", {"seen"}),
        ("shape(series, 'spike') < 0.5", {"series"}),
        ("name LIKE '%orth%' AND topk(1, 'PT1H', n)", {"name", "n"}),
    ],
)
def test_a_view_knows_all_attributes_that_are_asked_about(tmp_path, where, names):
    """Readers of the log take no others: what is missing here would never match."""
    with Registry(tmp_path / "registry.db") as registry:
        registry.subscribe(Subscription("s", "ann", where))
        registry.prepare(1, 1)
        assert IndexLayers(registry.index_storage).view(1, 1).names == names


def test_a_version_that_is_not_there_is_an_error(tmp_path):
    shelf = IndexLayers(tmp_path)
    with pytest.raises(StoreError, match=r"snapshots of versions 0 to 1; got none"):
        shelf.view(0, 1)
    shelf.extend(3, 5, [])
    with pytest.raises(StoreError, match=r"versions 2 to 4; got versions 3 to 5"):
        shelf.view(2, 4)
    assert len(shelf.view(3, 5)) == 0


def test_large_merges_run_aside_and_what_ends_meanwhile_stays_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(shelf_module, "_ASIDE", 3)
    shelf, world = IndexLayers(tmp_path), World()
    going, free = threading.Event(), threading.Event()
    merge = IndexLayers._merge

    def slow(self, kind, group, oldest):
        merged = merge(self, kind, group, oldest)
        if kind == "merge":
            going.set()
            assert free.wait(10)
        return merged

    monkeypatch.setattr(IndexLayers, "_merge", slow)
    for i in range(4):
        world.subscribe(f"s{i}", i)
    shelf.extend(0, 4, world.made(0, 4))
    for i in range(4, 8):
        world.subscribe(f"s{i}", i)
    shelf.extend(0, 8, world.made(4, 8))
    assert going.wait(10)
    world.unsubscribe(0)
    shelf.extend(0, 9, [], world.ended(8, 9))
    free.set()
    shelf.wait()
    assert len(shelf.current().layers) == 1
    assert matched(shelf.view(0, 9), [9.0, 9.0], [8, 9]) == [world.matching(9.0, 8), world.matching(9.0, 9)]


def test_only_what_can_be_needed_is_kept(tmp_path):
    shelf, world = IndexLayers(tmp_path), World()
    for i in range(30):
        world.subscribe(f"s{i}", 1)
        world.unsubscribe(0)
        version = world.version
        shelf.extend(version, version, world.made(version - 2, version), world.ended(version - 2, version))
    assert len(shelf.view(world.version, world.version)) == 0
    assert sum(layer.count for layer in shelf.current().layers) <= 4
    names = [path.name for path in tmp_path.iterdir()]
    assert sum(name.startswith("manifest-") for name in names) <= 3
    assert sum(name.startswith(("layer-", "merge-")) for name in names) <= 4


def test_a_registry_prepares_what_is_asked_for_even_if_it_is_older_than_what_is_there(tmp_path):
    registry = Registry(tmp_path / "registry.db")
    registry.needs("query", 0)
    registry.subscribe(*(Subscription(f"s{i}", "ann", f"a > {i}") for i in range(4)))
    registry.unsubscribe("ann/s0")
    registry.subscribe(Subscription("s0", "bob", "a > 3"))
    shelf = IndexLayers(registry.index_storage)
    registry.forget("query")
    registry.prepare(6, 6)
    assert shelf.current().oldest == 6
    registry.prepare(4, 6)
    view = shelf.view(4, 6)
    assert matched(view, [2.5] * 3, [4, 5, 6]) == [
        ["ann/s0", "ann/s1", "ann/s2"],
        ["ann/s1", "ann/s2"],
        ["ann/s1", "ann/s2"],
    ]
    assert matched(view, [9.0], [6]) == [["ann/s1", "ann/s2", "ann/s3", "bob/s0"]]


def test_processes_prepare_at_the_same_time(tmp_path):
    registry = Registry(tmp_path / "registry.db")
    failures = []

    def work(n):
        try:
            mine = Registry(tmp_path / "registry.db")
            for i in range(5):
                version = mine.subscribe(Subscription(f"s{n}-{i}", "ann", "a > 1"))
                mine.prepare(version, version)
                view = IndexLayers(mine.index_storage).view(version, version)
                assert len(matched(view, [2.0], [version])[0]) <= version
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    version = registry.version
    registry.prepare(version, version)
    assert len(matched(IndexLayers(registry.index_storage).view(version, version), [2.0], [version])[0]) == 20


# --- patterns -------------------------------------------------------------------------------------------------------


class Patterned(World):
    """An oracle whose subscriptions have patterns, but for each fifth."""

    def where(self, since, threshold):
        forms = (
            f"a > {threshold} AND topk(3, 'PT1M', b)",
            f"together('PT1M', a > {threshold}, a <= {threshold})",
            f"absent('PT{threshold + 1}S', a > {threshold}, source)",
            f"a > {threshold} AND topk(2, 5, distance((b, c), (1, {threshold})))",
            f"a > {threshold}",
        )
        return forms[since % 5]

    def made(self, after, upto):
        return [row._replace(where=self.where(row.since, self._threshold(row))) for row in super().made(after, upto)]

    def _threshold(self, row):
        return next(threshold for since, _, _, threshold in self.rows if since == row.since)

    def standing(self, version):
        """Id, family, numbers and keys of filters of whoever has a pattern at a version."""
        found = []
        for since, _, id, threshold in self.active(version):
            pattern = compile_subscription(Subscription(id, "ann", self.where(since, threshold)), NO_LIMITS)
            if isinstance(pattern, Pattern):
                keys = [inner.key for inner in pattern.filters]
                found.append((id, pattern.family, pattern.form, list(pattern.numbers), keys))
        return sorted(found)

    def plain(self, value, version):
        return sorted(id for since, _, id, t in self.active(version) if since % 5 == 4 and value > t)


def patterns_at(view, version):
    there = view.patterns.subscriptions
    alive = (view.since[there] <= version) & (view.until(there) > version)
    rows = np.flatnonzero(alive)
    ids = view.catalogue.texts("id", there[rows].astype(np.int32)).to_pylist()
    return sorted(
        (id, s.family, s.form, list(s.numbers), list(s.filters))
        for id, (_, s) in zip(ids, view.patterns.admitted(rows), strict=True)
    )


def passed_by(view, value):
    """The keys of the filters that a publication passes."""
    hits = view.patterns.index.match(publications([value])).owners
    return sorted(view.patterns.keys[hit].tobytes() for hit in hits)


@examples(30)
@given(steps=steps, ratio=st.sampled_from([1, 4]), url=st.booleans())
def test_patterns_of_every_version_are_there(tmp_path_factory, steps, ratio, url):
    """With their filters, each of which passes what it should, however layers were merged."""
    root = tmp_path_factory.mktemp("shelf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_CACHE", str(root / "cache"))
        patch.setattr(shelf_module, "_RATIO", ratio)
        location = f"file://{root}/shelf" if url else root / "shelf"
        shelf, world, oldest, known, number = IndexLayers(location), Patterned(), 0, 0, 0
        for what, argument in [*steps, ("extend", 0.5)]:
            if what == "subscribe":
                number += 1
                world.subscribe(f"s{number}", argument)
            elif what == "unsubscribe":
                world.unsubscribe(argument)
            else:
                oldest = max(oldest, round(argument * world.version))
                shelf.extend(oldest, world.version, world.made(known, world.version), world.ended(known, world.version))
                known = world.version
        for view in (shelf.view(oldest, known), IndexLayers(location).view(oldest, known)):
            versions = list(range(oldest, known + 1))
            assert [patterns_at(view, version) for version in versions] == [world.standing(v) for v in versions]
            assert matched(view, [5.5] * len(versions), versions) == [world.plain(5.5, v) for v in versions]
            assert len(view) == len(world.active(known))
            found = passed_by(view, 5.5)
            for id, _, _, _, keys in world.standing(known):
                (threshold,) = (t for _, _, name, t in world.rows if name == id)
                assert keys[0] in found if threshold < 5.5 else keys[0] not in found
            where_it_is = view.numbers(view.since)
            assert where_it_is.tolist() == list(range(len(view.since)))
            assert view.numbers(np.array([known + 1, 0])).tolist() == [-1, -1]
            of_shards = [set(view.filters_of(shard, 3).tolist()) for shard in range(3)]
            for version in versions:
                for id, *_, keys in world.standing(version):
                    (since,) = (since for since, _, name, _ in world.rows if name == id)
                    numbers = {n for n, key in enumerate(view.patterns.keys) if key.tobytes() in keys}
                    assert numbers & of_shards[since % 3]
            if len(view.patterns):
                assert view.names >= {"a"}


def test_merges_keep_patterns_and_drop_those_that_ended(tmp_path):
    """And the filters that only they had; those that are shared are there once."""
    shelf, world = IndexLayers(tmp_path), Patterned()
    for i in range(10):
        world.subscribe(f"s{i}", i % 2)
        shelf.extend(0, world.version, world.made(world.version - 1, world.version))
    before = shelf.view(0, 10)
    assert len(before.patterns) == 8
    for _ in range(7):
        world.unsubscribe(0)
    shelf.extend(17, 17, [], world.ended(10, 17))
    world.subscribe("new", 1)
    shelf.extend(18, 18, world.made(17, 18))
    view = IndexLayers(tmp_path).view(18, 18)
    assert [named.count for named in shelf.current().layers] == [4]
    assert patterns_at(view, 18) == world.standing(18)
    wanted = {key for *_, keys in world.standing(18) for key in keys}
    assert {key.tobytes() for key in view.patterns.keys} == wanted
    assert len(view.patterns.keys) == len(wanted)
    assert len(before.patterns) == 8  # whoever has mapped the layers of before still has them
    assert patterns_at(before, 10) == world.standing(10)


def test_a_layer_without_patterns_between_some_with(tmp_path, monkeypatch):
    monkeypatch.setattr(shelf_module, "_RATIO", 0)  # no merges
    shelf, world = IndexLayers(tmp_path), Patterned()
    for i in range(6):
        world.subscribe(f"s{i}", i)
        shelf.extend(0, world.version, world.made(world.version - 1, world.version))
    assert len(shelf.current().layers) == 6
    view = shelf.view(0, 6)
    assert patterns_at(view, 6) == world.standing(6)
    assert view.patterns.subscriptions.tolist() == [0, 1, 2, 4, 5]
    assert view.names >= {"a", "b", "c"}


def test_a_layer_whose_patterns_are_broken_is_an_error(tmp_path):
    shelf, world = IndexLayers(tmp_path), Patterned()
    world.subscribe("s", 1)
    shelf.extend(0, 1, world.made(0, 1))
    (path,) = tmp_path.glob("layer-*/patterns/patterns.arrow")
    path.write_bytes(b"no arrow")
    with pytest.raises(SnapshotError, match=r"a file of \d+ bytes; got 8; at .*patterns\.arrow"):
        IndexLayers(tmp_path).view(0, 1)


@pytest.mark.parametrize("what", ["layer", "manifest", "gone", "format"])
def test_layers_that_cannot_be_read_are_made_again_from_the_registry(tmp_path, what, caplog):
    with Registry(tmp_path / "registry.db") as registry:
        registry.subscribe(Subscription("s1", "ann", "x > 1"), Subscription("s2", "ann", "topk(1, 'PT1S', x)"))
        registry.unsubscribe("ann/s1")
        registry.needs("somebody", 0)
        registry.prepare(0, 3)
        storage = Path(registry.index_storage)
    (layer,), (manifest,) = storage.glob("layer-*"), storage.glob("manifest-*")
    if what == "gone":
        shutil.rmtree(layer)
    elif what == "format":
        (layer / "index.json").write_text('{"format": 2}')
        (layer / "files.json").unlink()
    else:
        file = {"layer": layer / "since.npy", "manifest": manifest}[what]
        content = bytearray(file.read_bytes())
        content[-3] ^= 1
        file.write_bytes(content)
    with Registry(tmp_path / "registry.db") as registry:
        registry.prepare(0, 3)
        assert "index snapshots are made again from the registry: expected" in caplog.text
        view = IndexLayers(storage).view(0, 3)
        assert view.since.tolist() == [1, 2]
        assert view.until(np.array([0])).tolist() == [3]
        assert len(view.patterns) == 1
    caplog.clear()
    with Registry(tmp_path / "registry.db") as registry:
        registry.prepare(0, 3)
    assert not caplog.text
