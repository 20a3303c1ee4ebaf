"""Subscriptions with terms of an ontology: what was asked is kept beside what it means, and can be renewed."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

import tidegate as tg
from tests.parts.cellar import PREFIXES, cellar
from tests.store.wine_terms import GONE, NEW, OLD, RED, WHITE, meant, wine, wines
from tidegate.ontologies.current import load, use
from tidegate.store import Registry
from tidegate.store.index_layers import IndexLayers
from tidegate.store.ontology_renewal import UnrenewableSubscription
from tidegate.store.stored_subscription import StoredSubscription


@pytest.fixture
def registry(url, tmp_path):
    with Registry(url, storage=tmp_path / "shelf") as registry:
        yield registry


# --- what is stored -------------------------------------------------------------------------------------------------


def test_what_was_asked_is_shown_and_what_it_means_is_matched(registry, know):
    know(**OLD)
    given = [
        tg.Subscription("red", "ann", RED),
        tg.Subscription("white", "ann", WHITE),
        tg.Subscription("both", "bob", f"{RED} AND price > 5"),
        tg.Subscription("plain", "bob", "price > 5"),
    ]
    registry.subscribe(*given)
    assert list(registry) == given == [entry.subscription for entry in registry.listing()]
    assert registry.subscription("ann/red") == given[0]
    rows = list(registry.rows(0, 4))
    assert [row.subscription for row in rows] == given
    assert [row.asked is None for row in rows] == [False, False, False, True]
    assert [row.until for row in rows] == [None] * 4
    assert rows[3] == StoredSubscription.of(given[3], 4, True)
    assert [wines(row.meant.where) for row in rows[:3]] == [{"merlot", "malbec"}, {"riesling"}, {"merlot", "malbec"}]


def test_what_is_stored_needs_no_ontology(registry, tmp_path):
    with use(None):
        load(cellar(tmp_path / "cellar.ttl", **OLD), prefixes=PREFIXES)
        registry.subscribe(
            tg.Subscription("red", "ann", RED), tg.Subscription("top", "ann", f"{RED} AND topk(1, 9, price)")
        )
    with pytest.raises(tg.TidegateError):
        tg.Engine([tg.Subscription("red", "ann", RED)])
    registry.prepare(0, 2)
    view = IndexLayers(registry.index_storage).view(0, 2)
    assert len(view) == 2
    found = view.match(tg.index.ObjectBatch([wine("merlot"), wine("riesling")]), 2)
    assert view.catalogue.texts("id", found.owners).to_pylist() == ["ann/red"]
    assert found.start.tolist() == [0, 1, 1]
    assert [s.where for s in registry] == [RED, f"{RED} AND topk(1, 9, price)"]


def test_shapes_of_ones_own_are_written_out_in_what_was_asked_too(registry, know, tmp_path):
    from tidegate.shapes import named_shapes

    know(**OLD)
    (tmp_path / "mine.toml").write_text("[shapes.mine]\npoints = [0, 5, 1]\n")
    with named_shapes.use():
        named_shapes.load(tmp_path / "mine.toml")
        registry.subscribe(tg.Subscription("s", "ann", f"{RED} AND shape(close, 'mine') <= 0.5"))
    know(**NEW)
    assert registry.renew() == 1  # nobody knows the shape any more
    assert "isA" in str(registry.subscription("ann/s").where)
    assert "mine" not in str(registry.subscription("ann/s").where)


def test_nul_in_what_was_asked(registry, know):
    know(**OLD)
    with pytest.raises(tg.SubscriptionError, match="without the character NUL"):
        registry.subscribe(tg.Subscription("s", "ann", f"{RED} AND name <> '\0'"))


def test_a_term_that_is_not_there(registry, know):
    know(**GONE)
    with pytest.raises(tg.TidegateError, match="White"):
        registry.subscribe(tg.Subscription("red", "ann", RED), tg.Subscription("white", "ann", WHITE))
    assert len(registry) == registry.version == 0


# --- renewed --------------------------------------------------------------------------------------------------------


def test_only_what_means_something_else_is_made_anew(registry, know, url):
    know(**OLD)
    registry.subscribe(
        tg.Subscription("red", "ann", RED),
        tg.Subscription("white", "ann", WHITE),
        tg.Subscription("dear", "bob", f"{RED} AND price > 5", active_until=tg.model.moment(10**15)),
        tg.Subscription("plain", "bob", "price > 5"),
    )
    before = {entry.subscription.id: entry for entry in registry.listing()}
    assert registry.renew() == 0
    assert registry.version == 4
    know(**NEW)
    with Registry(url) as other:
        assert registry.renew() == 2
        assert registry.version == other.version == 6
        after = {entry.subscription.id: entry for entry in other.listing()}
    assert {id: entry.subscription for id, entry in after.items()} == {id: e.subscription for id, e in before.items()}
    assert {id: entry.created for id, entry in after.items()} == {id: entry.created for id, entry in before.items()}
    assert {id: entry.since for id, entry in after.items()} == {"white": 2, "plain": 4, "red": 5, "dear": 6}
    assert registry.ended(4, 6) == [(1, 5), (3, 6)]
    assert [(row.since, row.until) for row in registry.rows(0, 6)] == [
        (1, 5), (2, None), (3, 6), (4, None), (5, None), (6, None),
    ]  # fmt: skip
    three = {"merlot", "malbec", "syrah"}
    registry.unsubscribe("bob/plain")
    assert meant(registry, 6) | {"plain": set()} == {
        "red": three, "white": {"riesling"}, "dear": three, "plain": set(),
    }  # fmt: skip
    assert registry.renew() == 0
    know(**OLD)
    assert registry.renew() == 2
    assert meant(registry, 9)["red"] == {"merlot", "malbec"}


def test_each_publication_has_the_meaning_of_its_version(registry, know):
    know(**OLD)
    registry.needs("q", 0)
    registry.subscribe(*(tg.Subscription(f"s{i}", "ann", RED if i % 2 else WHITE) for i in range(6)))
    know(**NEW)
    assert registry.renew() == 3
    registry.prepare(0, 9)
    view = IndexLayers(registry.index_storage).view(0, 9)
    batch = tg.index.ObjectBatch([wine("syrah"), wine("merlot"), wine("riesling")])
    for version, told in (
        (6, [[], ["s1", "s3", "s5"], ["s0", "s2", "s4"]]),
        (9, [["s1", "s3", "s5"]] * 2 + [["s0", "s2", "s4"]]),
    ):
        start, owners = view.match(batch, version)
        ids = [id.removeprefix("ann/") for id in view.catalogue.texts("id", owners).to_pylist()]
        assert [sorted(ids[a:b]) for a, b in pairwise(start)] == told
    assert len(view) == 6


def test_terms_that_have_gone_refuse_all(registry, know):
    know(**OLD)
    registry.subscribe(tg.Subscription("red", "ann", RED), tg.Subscription("white", "ann", WHITE))
    registry.subscribe(*(tg.Subscription(f"w{i}", "ann", WHITE) for i in range(11)))
    before = list(registry.rows(0, 13))
    know(**GONE)
    with pytest.raises(tg.SubscriptionError) as caught:
        registry.renew()
    said = str(caught.value)
    assert said.startswith("expected subscriptions that can be expressed with this ontology; got 12 subscriptions that")
    assert "'ann/white' (" in said
    assert "w:White" in said
    assert "'ann/w8' (" in said
    assert "'ann/w9' (" not in said
    assert said.endswith("; and 2 more")
    assert "\n" not in said
    assert (list(registry.rows(0, 99)), registry.version) == (before, 13)

    lost: list[UnrenewableSubscription] = []
    registry.unsubscribe(*(f"ann/w{i}" for i in range(11)))
    assert registry.renew(keep=lost.append) == 1
    assert [one.id for one in lost] == ["ann/white"]
    assert "w:White" in lost[0].why
    assert meant(registry, registry.version) == {"red": {"merlot"}, "white": {"riesling"}}
    assert registry.renew(keep=lost.append) == 0
    registry.unsubscribe("ann/white")
    assert registry.renew() == 0


def test_without_an_ontology_nothing_is_renewed(registry, tmp_path):
    with use(None):
        load(cellar(tmp_path / "cellar.ttl", **OLD), prefixes=PREFIXES)
        registry.subscribe(tg.Subscription("red", "ann", RED))
    with use(None), pytest.raises(tg.SettingError, match=r"an ontology, loaded with tg\.load_ontology; got none"):
        registry.renew()
    assert (registry.version, len(registry)) == (1, 1)


def test_more_than_one_statement_holds(registry, know, monkeypatch):
    for module in ("database", "registry", "ontology_renewal"):
        monkeypatch.setattr(f"tidegate.store.{module}.CHUNK", 7)
    know(**OLD)
    registry.subscribe(*(tg.Subscription(f"s{i}", "ann", f"{RED} AND price > {i}") for i in range(20)))
    know(**NEW)
    assert registry.renew() == 20
    assert registry.ended(0, 99) == [(i, 20 + i) for i in range(1, 21)]
    assert [(row.id, row.since) for row in registry.rows(20, 40)] == [(f"s{i}", 21 + i) for i in range(20)]
    assert [s.id for s in registry] == [f"s{i}" for i in range(20)]


@pytest.fixture
def meanwhile(registry, monkeypatch):
    """Have something done when the registry has looked at its subscriptions, before it changes any."""
    write = registry._database.write

    def then(done):
        def late(work):
            monkeypatch.undo()
            done()
            return write(work)

        monkeypatch.setattr(registry._database, "write", late)

    return then


def test_who_comes_and_goes_while_it_is_renewed(registry, know, url, meanwhile):
    """What was made after the first look is looked at too, and what has ended by then is left alone."""
    before = know(**OLD)
    registry.subscribe(*(tg.Subscription(f"s{i}", "ann", RED) for i in range(4)))
    know(**NEW)

    def change():
        with use(before), Registry(url) as other:
            other.unsubscribe("ann/s0")
            other.subscribe(tg.Subscription("late", "ann", RED), tg.Subscription("plain", "ann", "price > 5"))

    meanwhile(change)
    assert registry.renew() == 4
    registry.unsubscribe("ann/plain")
    three = {"merlot", "malbec", "syrah"}
    assert meant(registry, registry.version) == {"s1": three, "s2": three, "s3": three, "late": three}
    assert registry.renew() == 0


def test_another_ontology_while_it_is_renewed(registry, know, meanwhile):
    know(**OLD)
    registry.subscribe(tg.Subscription("red", "ann", RED), tg.Subscription("white", "ann", WHITE))
    know(**NEW)
    meanwhile(lambda: know(Red=["merlot"], White=["riesling", "syrah"]))
    assert registry.renew() == 2
    assert meant(registry, 4) == {"red": {"merlot"}, "white": {"riesling", "syrah"}}


@pytest.mark.contract
def test_readers_see_all_or_nothing(registry, know, url):
    know(**OLD)
    registry.subscribe(*(tg.Subscription(f"s{i}", "ann", RED) for i in range(30)))
    seen, done = set(), threading.Event()

    def read():
        with Registry(url) as other:
            while not done.is_set():
                version = other.version
                rows = [row for row in other.rows(0, version) if row.until is None or row.until > version]
                seen.add((version, len(rows), len({row.id for row in rows}), len({row.where for row in rows})))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, 4):
            know(**(NEW if number % 2 else OLD))
            assert registry.renew() == 30
    finally:
        done.set()
        reader.join()
    assert seen <= {(30 * n, 30, 30, 1) for n in range(1, 5)}
