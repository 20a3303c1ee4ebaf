"""Snapshots of an index: what they say again, what they replace, and files that do not fit."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tidegate import sealed_directory
from tidegate.sealed_directory import Seal, seal

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


def test_how_subscriptions_are_told_is_saved_too(tmp_path):
    told = [{"initial": True}, {}, {"fields": ["x", "t"], "deliver": {"webhook": "w"}}, {"fields": "none"}]
    first, second = (
        [tg.Subscription(f"{name}{i}", "ann", "x > 3", **options) for i, options in enumerate(some)]
        for name, some in (("a", told), ("b", told[::-1]))
    )
    for directory, some in ((tmp_path / "a", first), (tmp_path / "b", second)):
        engine = tg.Engine([tg.Subscription("ended", "ann", "x > 3", expired=True), *some])
        engine.unsubscribe("ended")
        assert list(engine) == some
        engine.save(directory)
    engine = tg.Engine.load(tmp_path / "a", tmp_path / "b")
    assert list(engine) == first + second
    engine.unsubscribe("a1")
    engine.save(tmp_path / "c")
    assert list(tg.Engine.load(tmp_path / "c")) == first[:1] + first[2:] + second


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
    (tmp_path / "files.json").unlink()
    seal(tmp_path)
    with pytest.raises(tg.SnapshotError, match="expected"):
        tg.Engine.load(tmp_path)


def test_a_snapshot_of_this_format_has_a_seal(tmp_path):
    made().save(tmp_path)
    (tmp_path / "files.json").unlink()
    with pytest.raises(tg.SnapshotError, match="a snapshot with a list of its files; got none"):
        tg.Engine.load(tmp_path)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A snapshot with all kinds of arrays."""
    path = tmp_path_factory.mktemp("sealed") / "s"
    saved_files(path)
    return path


@examples(30)
@given(st.data())
def test_numbers_that_lead_astray_are_found_although_their_checksum_is_right(sealed, data):
    """Whatever is in the arrays: an error, or a match that ends. A kernel that reads elsewhere would end the tests."""
    with TemporaryDirectory() as parent:
        path = Path(shutil.copytree(sealed, f"{parent}/s"))
        name = data.draw(st.sampled_from(sorted(p.name for p in path.glob("*.npy"))))
        array = np.load(path / name)
        if not array.size or array.dtype.kind == "f":
            return
        least, most = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
        value = data.draw(st.integers(least, most) | st.integers(max(least, -3), min(most, 600)))
        array.reshape(-1)[data.draw(st.integers(0, array.size - 1))] = value
        np.save(path / name, array)
        (path / "files.json").unlink()
        seal(path)
        with suppress(tg.SnapshotError):
            published(tg.Engine.load(path))


@pytest.mark.parametrize(
    "name", ["start", "owner_start", "open_start", "entry_start", "entry_offset", "axes-row_start"]
)
def test_offsets_are_looked_at_each_time(sealed, tmp_path, name, monkeypatch):
    """Also where the contents of the files are believed because they were verified before."""
    path = Path(shutil.copytree(sealed, tmp_path / "s"))
    array = np.load(path / f"{name}.npy")
    array[len(array) // 2] += 1000
    np.save(path / f"{name}.npy", array)
    monkeypatch.setattr(Seal, "verify", lambda self: False)
    with pytest.raises(tg.SnapshotError, match="a directory with a complete snapshot; got ValueError"):
        tg.Engine.load(path)


def test_large_files_are_read_by_the_first_who_opens_them_and_by_whom_finds_them_changed(sealed, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sealed_directory, "SMALL", 0)
    path = Path(shutil.copytree(sealed, tmp_path / "s"))
    for moment in (path.stat().st_mtime_ns, 0):  # just written, then settled
        monkeypatch.setattr(sealed_directory, "_SETTLED", moment)
        assert [Seal.of(path).verify() for _ in range(2)] == [True, True]
    first = Seal.of(path)
    first.verify()
    first.remember()
    assert Seal.of(path).verify() is False
    content = bytearray((path / "table.npy").read_bytes())
    content[-1] ^= 1
    (path / "table.npy").write_bytes(content)
    os.utime(path / "table.npy", (1, 1))
    with pytest.raises(tg.SnapshotError, match=r"a file as it was written; .* by its checksum; at .*table\.npy"):
        Seal.of(path).verify()


def test_no_directory_is_no_snapshot(tmp_path):
    with pytest.raises(tg.SnapshotError, match="a directory with a complete snapshot"):
        tg.Engine.load(tmp_path / "nowhere")
    with pytest.raises(tg.SnapshotError, match="a directory with a complete snapshot"):
        tg.Engine.load(tmp_path)
