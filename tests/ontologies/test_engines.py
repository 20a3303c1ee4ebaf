"""Engines that notice another ontology, and snapshots that keep their meaning."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime

import pytest

import tidegate as tg
from tests.ontologies.statements import E, engine, publication, told
from tidegate.ontologies import current
from tidegate.sealed_directory import seal

# --- engines --------------------------------------------------------------------------------------------------------


_BEFORE = ":i a :A . :j a :B . :A rdfs:subClassOf :Top . :B rdfs:subClassOf :Top ."
_AFTER = ":i a :A . :j a :B . :k a :B . :A rdfs:subClassOf :Top . :B rdfs:subClassOf :Top ."


def test_an_engine_notices_another_ontology_and_touches_only_what_changed(load):
    load(_BEFORE)
    found = engine(
        "isA(x, 'e:A')", "isA(x, 'e:B')", "NOT isA(x, 'e:B')", "isA(x, 'e:Top') AND n = 1", "n = 1", "x = 'e:k'"
    )
    assert told(found, x="e:k", n=1) == {"NOT isA(x, 'e:B')", "n = 1", "x = 'e:k'"}
    before = list(found)
    load(_AFTER)
    assert told(found, x="e:k", n=1) == {"isA(x, 'e:B')", "isA(x, 'e:Top') AND n = 1", "n = 1", "x = 'e:k'"}
    assert found.renewed == 3
    assert list(found) == before
    assert len(found) == 6
    load(_AFTER)
    assert told(found, x="e:i") == {"isA(x, 'e:A')", "NOT isA(x, 'e:B')"}
    assert found.renewed == 0
    found.unsubscribe("isA(x, 'e:B')")
    found.unsubscribe("NOT isA(x, 'e:B')")
    load(_BEFORE)
    assert told(found, x="e:k") == {"x = 'e:k'"}
    assert (found.renewed, len(found)) == (1, 4)


def test_bags_are_renewed_too(load):
    load(_BEFORE)
    found = engine("a_contains(b, ('e:B', 'e:A'), 'isA')", "NOT a_overlaps(b, ('e:B'), 'isA')")
    assert told(found, b=["e:k", "e:i"]) == {"NOT a_overlaps(b, ('e:B'), 'isA')"}
    load(_AFTER)
    assert told(found, b=["e:k", "e:i"]) == {"a_contains(b, ('e:B', 'e:A'), 'isA')"}


def test_patterns_are_renewed_and_begin_anew(load):
    load(_BEFORE)
    where = "together('PT1H', isA(x, 'e:B'), n = 1)"
    found = engine(where, "topk(1, 'PT1H', n) AND isA(x, 'e:B')", "together('PT1H', isA(x, 'e:A'), n = 1)")
    assert len(found.publish([publication("p0", x="e:j", n=9)])) == 1
    load(_AFTER)
    assert found.publish([publication("p1", n=1)]) == []  # p0 is forgotten by who was renewed
    assert found.renewed == 2
    assert {n.subscription for n in found.publish([publication("p2", x="e:k", n=5)])} == {s.id for s in list(found)[:2]}
    found.unsubscribe(where)
    assert found.publish([publication("p3", x="e:k", n=6)]) == []


def test_a_term_that_is_gone_is_of_nothing_and_may_come_back(load, caplog):
    load(_BEFORE)
    found = engine("isA(x, 'e:B')", "NOT isA(x, 'e:B')", "topk(1, 'PT1H', n) AND isA(x, 'e:B')")
    with caplog.at_level(logging.WARNING, "tidegate"):
        load(":i a :A .")
        assert told(found, x="e:j", n=1) == {"NOT isA(x, 'e:B')"}
    assert "e:B" in caplog.text
    load(_BEFORE)
    assert told(found, x="e:j", n=1) == {"isA(x, 'e:B')", "topk(1, 'PT1H', n) AND isA(x, 'e:B')"}


def test_subscribe_and_advance_notice_as_well(load):
    load(_BEFORE)
    found = engine("isA(x, 'e:B')")
    load(_AFTER)
    found.subscribe(tg.Subscription("s", "ann", "isA(x, 'e:A')"))
    assert found.renewed == 1
    load(_BEFORE)
    found.advance(datetime(2026, 11, 15, 9, tzinfo=UTC))
    assert found.renewed == 1
    assert told(found, x="e:k") == set()


def test_other_prefixes_are_another_meaning(write):
    path = write(_BEFORE)
    tg.load_ontology(path, prefixes={"e": E})
    found = engine("isA(x, 'e:B')", f"isA(x, '{E}B')")
    tg.load_ontology(path, prefixes={"f": E})
    assert told(found, x="f:j") == {f"isA(x, '{E}B')"}
    assert told(found, x="e:j") == set()


def test_an_ontology_that_comes_while_one_subscribes(load, monkeypatch):
    load(_BEFORE)
    found = tg.Engine()
    notice = found._notice

    def meanwhile():
        monkeypatch.undo()
        load(_AFTER)
        notice()

    monkeypatch.setattr(found, "_notice", meanwhile)
    found.subscribe(tg.Subscription("s", "ann", "isA(x, 'e:B')"))
    assert told(found, x="e:k") == {"s"}


def test_publishers_see_the_old_or_the_new_and_nothing_between(load):
    load(_BEFORE)
    found = tg.Engine([tg.Subscription(f"s{i}", "ann", f"isA(x, 'e:B') AND m < {i + 1}") for i in range(300)])
    seen, errors, stop = set(), [], threading.Event()

    def publish():
        try:
            while not stop.is_set():
                rows = found.publish([publication("p", x="e:j", m=0), publication("q", x="e:k", m=0)])
                seen.add((sum(n.publications == ("p",) for n in rows), sum(n.publications == ("q",) for n in rows)))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=publish) for _ in range(2)]
    for thread in threads:
        thread.start()
    for text in (_AFTER, _BEFORE, _AFTER, ":k a :B .", _AFTER, _BEFORE):
        load(text)
        for _ in range(3):
            found.publish([publication("r", x="e:j", m=0)])
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert seen <= {(300, 0), (300, 300), (0, 300)}
    assert len(seen) > 1


# --- snapshots ------------------------------------------------------------------------------------------------------


_KEPT = (
    "isA(x, 'e:B')",
    "NOT isA(x, 'e:B')",
    "a_containedBy(b, ('e:A', 'e:B'), 'isA')",
    "topk(1, 'PT1H', n) AND isA(x, 'e:B')",
)


def test_a_snapshot_keeps_its_meaning_where_there_is_no_ontology(load, tmp_path):
    load(_BEFORE)
    engine(*_KEPT).save(tmp_path / "kept")
    with current.use(None):
        found = tg.Engine.load(tmp_path / "kept")
        assert told(found, x="e:j", n=1) == {_KEPT[0], _KEPT[3]}
        assert told(found, b=["e:i", "e:j"]) == {_KEPT[2]}
        assert told(found, b=["e:j", "e:j"]) == told(found, x="e:j", n=5) - {_KEPT[0]} == set()
        found.save(tmp_path / "again")
    load(_AFTER)
    for name in ("kept", "again"):
        found = tg.Engine.load(tmp_path / name)
        assert told(found, x="e:k", n=1) == {_KEPT[0], _KEPT[3]}
        assert found.renewed == 4


def test_a_snapshot_is_renewed_only_where_the_ontology_is_another(load, tmp_path):
    load(_BEFORE)
    engine(*_KEPT).save(tmp_path / "kept")
    found = tg.Engine.load(tmp_path / "kept")
    assert told(found, x="e:j") == {_KEPT[0]}
    assert found.renewed == 0
    load(_AFTER)
    assert told(found, x="e:k") == {_KEPT[0]}


def test_snapshots_of_two_ontologies_together(load, tmp_path):
    load(_BEFORE)
    engine("n = 1", "isA(x, 'e:B')").save(tmp_path / "one")
    engine("n = 2").save(tmp_path / "none")
    load(_AFTER)
    engine("NOT isA(x, 'e:B')", "isA(x, 'e:A')").save(tmp_path / "two")
    found = tg.Engine.load(*(tmp_path / name for name in ("one", "none", "two")))
    assert told(found, x="e:k", n=2) == {"isA(x, 'e:B')", "n = 2"}
    assert len(found) == 5
    load(":k a :A . :j a :B . ")
    assert told(found, x="e:k") == {"NOT isA(x, 'e:B')", "isA(x, 'e:A')"}


def test_a_broken_snapshot_says_so(load, tmp_path):
    load(_BEFORE)
    engine(*_KEPT).save(tmp_path / "kept")
    (tmp_path / "kept" / "asked.json").write_text("[[1]]")
    seal(tmp_path / "kept")
    with pytest.raises(tg.SnapshotError, match="ask an ontology"):
        tg.Engine.load(tmp_path / "kept")
