"""Shape subscriptions in the engine: what they mean, what they cover, and where their series lie."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tidegate as tg
from tests.shapes.asked_shapes import NOON, asking, near_to, published, series, told
from tidegate.index import overflow_file
from tidegate.index.shapes import look_up_with
from tidegate.index.term_kinds import SHAPE
from tidegate.language import from_json
from tidegate.predicates import compile_filter
from tidegate.shapes.normal_form import distance, normal
from tidegate.shapes.sphere_group import ShapeLookup, structures
from tidegate.shapes.transforms import PCA, TRANSFORMS


def test_scale_and_shift_do_not_matter():
    engine = tg.Engine([asking("shape(close, (1, 2, 4, 3, 1)) <= 1e-9")])
    assert told(engine, [1, 2, 4, 3, 1], [110, 120, 140, 130, 110], [-1, -2, -4, -3, -1], [1e308, 0, 0, 0, 1]) == [
        "p0",
        "p1",
    ]


def test_a_series_is_near_itself_at_tolerance_zero():
    rng = np.random.default_rng(1)
    values = series(rng, 2040, 30)
    engine = tg.Engine([asking(near_to(row, 0), f"s{i}") for i, row in enumerate(values)])
    found = engine.publish(published(*values.tolist()))
    assert sorted((n.subscription, n.publications[0]) for n in found) == sorted((f"s{i}", f"p{i}") for i in range(30))


def test_the_tolerance_is_decided_in_doubles():
    rng = np.random.default_rng(2)
    values, other = series(rng, 300, 40), series(rng, 300, 1)[0]
    subscriptions = []
    for i, row in enumerate(values):
        far = distance(normal(row), normal(other))
        for name, bound in (("at", far), ("below", np.nextafter(far, 0))):
            for op in ("<=", "<"):
                where = {**near_to(row, float(bound)), "op": op}
                subscriptions.append(asking(where, f"{name}{op}{i}"))
    found = {n.subscription for n in tg.Engine(subscriptions).publish(published(other.tolist()))}
    assert found == {f"at<={i}" for i in range(40)}


def test_a_shape_beside_other_conditions():
    engine = tg.Engine([asking("shape(close, (1, 2, 4)) <= 0.1 AND no2 > 40 AND NOT shape(open, (1, 2, 4)) <= 0.1")])
    rising, falling = [1, 2, 4], [4, 2, 1]
    publications = [
        tg.Publication(f"p{i}", "z", NOON, attributes)
        for i, attributes in enumerate(
            [
                {"close": rising, "no2": 41, "open": falling},
                {"close": rising, "no2": 39, "open": falling},
                {"close": rising, "no2": 41, "open": rising},
                {"close": falling, "no2": 41, "open": falling},
                {"close": rising, "no2": 41},
                {"close": rising, "no2": 41, "open": [5, 5, 5]},
                {"close": rising, "open": falling},
            ]
        )
    ]
    assert [n.publications for n in engine.publish(publications)] == [("p0",)]
    assert engine.shapeless == 1


def test_a_named_shape_is_drawn_at_the_length_of_the_publication():
    engine = tg.Engine([asking("shape(close, 'spike') <= 5"), asking("shape(close, (0, 1), 'stretched') <= 1", "ramp")])
    spike = [0.0] * 21 + [0.5, 1.0, 0.5] + [0.0] * 20
    found = engine.publish(published(spike, list(range(44)), list(range(300)), list(range(300, 0, -1))))
    assert {(n.subscription, n.publications[0]) for n in found} == {("s", "p0"), ("ramp", "p1"), ("ramp", "p2")}


def test_many_tolerances_of_one_series():
    engine = tg.Engine([asking(f"shape(close, (1, 2, 4, 3)) <= {i / 10}", f"s{i}") for i in range(30)])
    other = [1, 2, 4, 3.5]
    far = distance(normal([1, 2, 4, 3]), normal(other))
    assert {n.subscription for n in engine.publish(published(other))} == {
        f"s{i}" for i in range(30) if far <= i / 10
    }  # fmt: skip


def test_all_that_a_deployment_may_choose_gives_the_same(tmp_path):
    rng = np.random.default_rng(3)
    rows, others = series(rng, 50, 200), series(rng, 50, 20)
    subscriptions = [asking(near_to(row, float(rng.uniform(0, 8))), f"s{i}") for i, row in enumerate(rows)]
    expected = tg.Engine(subscriptions).publish(published(*others.tolist()))
    assert len(expected) > 50
    hows = [ShapeLookup(transform, structure) for transform in TRANSFORMS for structure in structures()]
    for number, how in enumerate([*hows, ShapeLookup(PCA.fit(rows, 5))]):
        before = look_up_with(how)
        try:
            engine = tg.Engine([*subscriptions, asking("shape(close, (1, 2, 4)) <= 1", "other")])
        finally:
            look_up_with(before)
        engine.save(tmp_path / str(number))
        for one in (engine, tg.Engine.load(tmp_path / str(number))):
            assert one.publish(published(*others.tolist())) == expected


def test_doubles_that_are_many_lie_in_a_file(monkeypatch, tmp_path):
    monkeypatch.setattr(overflow_file, "_FEW", 100)
    rng = np.random.default_rng(4)
    rows = series(rng, 700, 20)  # so long that their expressions go to the spool as well
    engine = tg.Engine([asking(near_to(row.tolist(), 0), f"s{i}") for i, row in enumerate(rows)])
    assert [n.subscription for n in engine.publish(published(rows[7].tolist()))] == ["s7"]
    assert [subscription.where for subscription in engine] == [near_to(row.tolist(), 0) for row in rows]
    engine.subscribe(asking(near_to(rows[7] * 2, 1e-6), "late"))
    engine.unsubscribe("s7")
    assert [n.subscription for n in engine.publish(published(rows[7].tolist()))] == ["late"]
    engine.save(tmp_path)
    again = tg.Engine.load(tmp_path)
    assert list(again) == list(engine)
    assert [n.subscription for n in again.publish(published(rows[7].tolist()))] == ["late"]


def test_what_nobody_asks_about_any_more_is_let_go():
    rng = np.random.default_rng(5)
    rows = series(rng, 500, 64)
    engine = tg.Engine([asking(near_to(row, 1.0), f"s{i}") for i, row in enumerate(rows)])
    full = engine.index_bytes
    assert full <= 1.3 * rows.size * 4
    for i in range(48):
        engine.unsubscribe(f"s{i}")
    engine._index.compact()
    assert engine.index_bytes < full / 2
    assert told(engine, rows[0].tolist(), rows[63].tolist()) == ["p1"]


def test_explain_says_what_it_saw():
    engine = tg.Engine([asking("shape(close, (1, 2, 4)) <= 0.1 AND no2 > 40")])
    text = str(engine.explain("s", tg.Publication("p", "z", NOON, {"close": [1, 2, 4], "no2": 3})))
    assert "✓ shape(close, (1, 2, 4)) <= 0.1   — close is [1, 2, 4]" in text
    assert "✗ no2 > 40" in text


def predicate(series, bound, op="<="):
    ((found,),) = compile_filter(from_json({**near_to(series, bound), "op": op})).clauses
    return found


def test_one_sphere_covers_another_that_lies_inside_it():
    rng = np.random.default_rng(6)
    for _ in range(50):
        a, b = series(rng, 12, 2).tolist()
        apart, bound = distance(normal(a), normal(b)), float(rng.uniform(0, 2))
        assert predicate(a, apart + bound + 1e-6).covers(predicate(b, bound))
        assert not predicate(a, apart + bound - 1e-6).covers(predicate(b, bound))
        assert not predicate(b, bound).covers(predicate(a, apart + bound + 1e-6))
        outside = predicate(a, apart - bound - 1e-6, ">") if apart > bound + 1e-6 else None
        if outside is not None:
            assert outside.covers(predicate(b, bound))
            assert not predicate(a, apart - bound + 1e-6, ">").covers(predicate(b, bound))
            assert predicate(b, bound, ">").covers(predicate(a, apart + bound + 1e-6, ">"))
            assert not outside.covers(predicate(b, bound, ">"))
    assert predicate(a, 1).covers(predicate(a, 1, "<"))
    assert not predicate(a, 1, "<").covers(predicate(a, 1))
    assert not predicate(a, 9).covers(predicate(a[:-1], 0))


def test_series_of_several_lengths_and_attributes_lie_together():
    rng = np.random.default_rng(7)
    engine, asked = tg.Engine(), []
    for i in range(60):
        n, name = (40, 41, 33)[i % 3], ("close", "open")[i % 2]
        row = series(rng, n, 1)[0]
        where = {**near_to(row, 1e-9)}
        where["args"][0]["args"][0] = {"property": name}
        engine.subscribe(asking(where, f"s{i}"))
        asked.append((name, row.tolist()))
        if i == 30:
            engine.publish(published([1, 2, 4]))  # makes a segment, which is merged with the others
    for i, (name, row) in enumerate(asked):
        assert [n.subscription for n in engine.publish(published(row, name=name))] == [f"s{i}"]
    (segment,) = (engine._index.compact(),)
    assert (np.diff(segment.clauses.terms[SHAPE].length) >= 0).all()
    for kin in segment.lookups[SHAPE]._kin.values():
        assert np.shares_memory(kin.exact, segment.clauses.terms[SHAPE].values)  # not a copy


def test_a_snapshot_of_many_lengths_is_few_files(tmp_path):
    rng = np.random.default_rng(8)
    rows = {n: series(rng, n, 1)[0].tolist() for n in range(3, 130)}
    engine = tg.Engine([asking(near_to(row, 0), str(n)) for n, row in rows.items()])
    engine.save(tmp_path)
    assert len(list(tmp_path.iterdir())) < 60
    again = tg.Engine.load(tmp_path)
    for n, row in rows.items():
        assert [told.subscription for told in again.publish(published(row))] == [str(n)]
    place = tmp_path / "shape.bundle"
    place.write_bytes(place.read_bytes()[:-64])
    with pytest.raises(tg.SnapshotError):
        tg.Engine.load(tmp_path)


@pytest.mark.parametrize("fails", [1, 2])
def test_where_there_is_no_room_nothing_has_changed(monkeypatch, fails):
    """First for the expression, then for the series."""
    rng = np.random.default_rng(9)
    rows = series(rng, 700, 3)
    engine, calls, append = tg.Engine(), [], overflow_file._write

    def full(descriptor, data, at):
        calls.append(at)
        if len(calls) == fails:
            raise OSError(28, "No space left on device")
        append(descriptor, data, at)

    monkeypatch.setattr(overflow_file, "_FEW", 0)
    engine.subscribe(asking(near_to(rows[0], 0), "zero"))
    monkeypatch.setattr(overflow_file, "_write", full)
    with pytest.raises(tg.StoreError, match="room for temporary files; got No space left on device"):
        engine.subscribe(asking(near_to(rows[1], 0), "one"))
    assert "one" not in engine
    engine.subscribe(asking(near_to(rows[2], 0), "two"))
    assert told(engine, *rows.tolist()) == ["p0", "p2"]
    engine.subscribe(asking(near_to(rows[1], 0), "one"))
    engine.unsubscribe("one")
    assert told(engine, *rows.tolist()) == ["p0", "p2"]
    assert [subscription.id for subscription in engine] == ["zero", "two"]


def test_a_spool_is_not_disturbed_by_a_child(monkeypatch):
    monkeypatch.setattr(overflow_file, "_FEW", 0)
    kept = overflow_file.OverflowFile()
    kept.append(b"aaaaa")
    child = os.fork()
    if child == 0:
        kept.append(b"bbbbb")
        os._exit(kept.read(0, 5) != b"aaaaa")
    assert os.waitpid(child, 0)[1] == 0
    assert kept.read(kept.append(b"ddddd"), 5) == b"ddddd"
    assert kept.read(0, 10) == b"aaaaaddddd"
