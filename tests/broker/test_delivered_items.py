"""What readers of queues are shown, as obvious loops say: the expired, withdrawn and unreadable is skipped."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.ontologies.statements import HEAD, E
from tests.oracle import holds
from tests.parts.profiles import examples
from tests.pipeline.lane import TIME
from tests.store.written_queues import told
from tidegate.broker.delivered_items import DeliveredItems, QueuePosition
from tidegate.broker.read_filter import ReadFilter
from tidegate.errors import SettingError
from tidegate.language import parse
from tidegate.model import micros
from tidegate.ontologies import current
from tidegate.records.row_objects import row_objects
from tidegate.store.delivery_records import DeliveryKind, MatchedSubscription, PatternNotification
from tidegate.store.log_rows import LogRows
from tidegate.store.principals import Principals
from tidegate.store.queues import Queues
from tidegate.testing import as_table

NOW = micros(TIME)
#: By version: a name, which attributes it wants, and whether it wants what has expired.
SUBSCRIPTIONS = [
    MatchedSubscription("all", "all"),
    MatchedSubscription("none", "none"),
    MatchedSubscription("n", ["n"]),
    MatchedSubscription("old", ["tags"], True),
    MatchedSubscription("old-n", ["n", "name"], True),
]
READS = [
    None, "n > 2", "NOT n > 2", "A_CONTAINS(tags, ('a', 'b'))", "S_INTERSECTS(location, BBOX(15, 45, 17, 47))",
    "CASEI(name) LIKE 'n%'", "source = 'z1' OR n = 4", "valid_until IS NULL", "TRUE", "FALSE",
    "S_DWITHIN(location, POINT(16 46), 5000)",
]  # fmt: skip


def publication(number, drawn):
    n, tags, name, place, until = drawn
    attributes = {"n": n, "tags": tags, "name": name}
    return tg.Publication(
        f"p{number}",
        f"z{number % 3}",
        TIME + timedelta(seconds=number),
        {key: value for key, value in attributes.items() if value is not None},
        location=place,
        valid_until=None if until is None else TIME + timedelta(microseconds=until),
    )


publications = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 5)),
        st.one_of(st.none(), st.lists(st.sampled_from("abc"), min_size=1, max_size=3)),
        st.sampled_from([None, "North", "south", "n"]),
        st.sampled_from([None, (16.0, 46.0), (16.05, 46.0), (20.0, 46.0)]),
        st.sampled_from([None, -1_000_000, -1, 0, 1, 1_000_000]),
    ),
    min_size=1,
    max_size=10,
)
deliveries = st.lists(
    st.tuples(
        st.sampled_from([*DeliveryKind, DeliveryKind.PUBLICATION, DeliveryKind.PUBLICATION]),
        st.lists(st.integers(0, 9), min_size=1, max_size=3),  # rows, of which all but patterns name the first
        st.sets(st.integers(0, len(SUBSCRIPTIONS) - 1), min_size=1),
    ),
    min_size=1,
    max_size=30,
)


def thing(number, kind, rows, named, queue):
    """A delivery as ``told`` takes it."""
    more = {
        DeliveryKind.PATTERN: PatternNotification(NOW, tuple(rows), 1.5, None).packed(),
        DeliveryKind.SKIPPED: b'"because"',
        DeliveryKind.RETRACTED: orjson.dumps({"retracts": number - 1}),
    }.get(kind, b"")
    return int(kind), rows[0], more, [(queue, one) for one in sorted(named)]


class Shown:
    """The oracle: what each delivery is to a reader at a moment, in obvious loops."""

    def __init__(self, publications, gone, withdrawn, read, at):
        self.publications, self.gone, self.withdrawn, self.at = publications, gone, withdrawn, at
        self.read = None if read is None else parse(read)

    def may_read(self, row):
        return self.read is None or (row not in self.gone and holds(self.read, self.publications[row]))

    def content(self, row, named):
        one = self.publications[row]
        if row in self.gone:
            return {"id": one.id, "source": one.source, "time": stamp(one.time), "gone": True}
        (found,) = row_objects(as_table([one]))
        wanted = [SUBSCRIPTIONS[i].fields for i in named]
        if "all" not in wanted:
            names = {name for fields in wanted if fields != "none" for name in fields}
            found["attributes"] = {key: value for key, value in found["attributes"].items() if key in names}
        return found

    def item(self, number, kind, rows, named):
        """An item, or the reason for which it is left out."""
        if kind == DeliveryKind.SKIPPED:
            return "because"
        if not all(self.may_read(row) for row in (rows if kind == DeliveryKind.PATTERN else rows[:1])):
            return "unreadable"
        row, named = rows[0], sorted(named)
        if kind in (DeliveryKind.PUBLICATION, DeliveryKind.INITIAL):
            if row in self.withdrawn:
                return "unpublished"
            until = self.publications[row].valid_until
            if row not in self.gone and until is not None and micros(until) <= self.at:
                named = [i for i in named if SUBSCRIPTIONS[i].expired]
                if not named:
                    return "expired"
        item = {"number": number, "matched_at": stamp(TIME)}
        if kind == DeliveryKind.RETRACTED:
            found = self.content(row, named)
            found = {name: found[name] for name in ("id", "source", "time", "gone") if name in found}
            return item | {"type": "retracted", "retracts": number - 1, "publication": found}
        item |= {"type": "notification", "initial": kind == DeliveryKind.INITIAL}
        item["subscriptions"] = [SUBSCRIPTIONS[i].id for i in named]
        if kind == DeliveryKind.PATTERN:
            found = [self.content(row, named) for row in rows]
            return item | {"time": stamp(TIME), "publications": found, "score": 1.5, "distance": None}
        found = self.content(row, named)
        return item | {"time": found["time"], "publication": found}


def stamp(time):
    return f"{time.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def one_by_one(items):
    """Items with a reason in place of each number that was left out."""
    for item in items:
        assert item["type"] in ("notification", "retracted", "skipped")
        if item["type"] == "skipped":
            assert item["from"] <= item["number"]
            yield from [(number, item["reason"]) for number in range(item["from"], item["number"] + 1)]
        else:
            yield item["number"], item


@examples(40)
@given(
    drawn=publications, things=deliveries, gone=st.integers(0, 5), withdrawn=st.sets(st.integers(0, 9), max_size=4),
    read=st.sampled_from(READS), at=st.sampled_from([NOW - 1, NOW, NOW + 1]),
    limits=st.lists(st.integers(1, 9), min_size=1),
)  # fmt: skip
def test_readers_are_shown_what_the_oracle_says(drawn, things, gone, withdrawn, read, at, limits):
    rows = [publication(number, one) for number, one in enumerate(drawn)]
    things = [(kind, [row % len(rows) for row in named], told_to) for kind, named, told_to in things]
    lost = set(range(min(gone, len(rows) - 1)))
    with TemporaryDirectory() as name:
        directory = Path(name)
        with tg.Log(directory / "log", segment_bytes=1) as log, Queues(directory / "queues") as queues:
            for one in rows:
                log.append(one)
            if lost:
                log.retain(before=len(lost), named=np.arange)
            queue = queues.make("ann")
            batch = told([thing(i + 1, *one, queue) for i, one in enumerate(things)])
            queues.commit(0, NOW, batch, lambda numbers: [SUBSCRIPTIONS[number].packed() for number in numbers])
            filter = None if read is None else ReadFilter.of(read)
            with LogRows(directory / "log") as contents:
                items = DeliveredItems(
                    queues, contents, withdrawn=lambda rows: np.isin(rows, list(withdrawn)), clock=lambda: at
                )
                found, position, page_number = [], QueuePosition(0), 0
                while position.number < len(things):
                    limit = limits[page_number % len(limits)]
                    page = items.page(queue, position, limit, filter)
                    assert 0 < len(page.items) <= limit
                    reasons = [(one["type"], one.get("reason")) for one in page.items]
                    for before, after in pairwise(reasons):
                        assert before != after or before[0] != "skipped", "two ranges that could be one"
                    found += page.items
                    position, page_number = QueuePosition(page.next, page.epoch), page_number + 1
                whole = items.page(queue, QueuePosition(0), 1000, filter).items
    oracle = Shown(rows, lost, withdrawn, read, at)
    expected = [(i + 1, oracle.item(i + 1, *one)) for i, one in enumerate(things)]
    assert list(one_by_one(found)) == expected
    assert list(one_by_one(whole)) == expected


@pytest.mark.parametrize("limit", [1, 7])
def test_a_long_range_is_one_item(tmp_path, limit):
    """Also where a page shows few items."""
    with tg.Log(tmp_path / "log") as log, Queues(tmp_path / "queues") as queues:
        log.append([publication(i, (i, None, None, None, 0 if i < 900 else None)) for i in range(950)])
        queue = queues.make("ann")
        batch = told([thing(i + 1, DeliveryKind.PUBLICATION, [i], {0}, queue) for i in range(950)])
        queues.commit(0, NOW, batch, lambda numbers: [SUBSCRIPTIONS[number].packed() for number in numbers])
        with LogRows(tmp_path / "log") as contents:
            items = DeliveredItems(queues, contents, clock=lambda: NOW)
            page = items.page(queue, QueuePosition(0), limit)
    assert page.items[0] == {"type": "skipped", "from": 1, "number": 900, "reason": "expired"}
    assert [item["number"] for item in page.items[1:]] == list(range(901, 900 + limit))
    assert page.next == 899 + limit if limit > 1 else 900


@pytest.mark.parametrize(
    ("read", "shown"), [(None, True), ("n > 2", True), ("n > 3", False), ("location IS NULL", True)]
)
def test_where_there_is_no_log_the_content_is_judged(tmp_path, read, shown):
    """And what is known by its id only may not be read by who may not read everything."""
    content = {"id": "p1", "source": "z", "time": stamp(TIME), "attributes": {"n": 3, "m": 1.5, "s": [1.0, None, 2.0]}}
    with Queues(tmp_path) as queues:
        queue = queues.make("ann")
        pattern = PatternNotification(NOW, ("p1",), None, None).packed()
        things = [(0, -1, orjson.dumps(content), [(queue, 0)]), (1, -1, pattern, [(queue, 0)])]
        queues.commit(0, NOW, told(things), lambda numbers: [SUBSCRIPTIONS[number].packed() for number in numbers])
        filter = None if read is None else ReadFilter(read)
        first, *rest = DeliveredItems(queues, None).page(queue, QueuePosition(0), 100, filter).items
    if not shown:
        assert (first, rest) == ({"type": "skipped", "from": 1, "number": 2, "reason": "unreadable"}, [])
        return
    assert first["publication"] == content
    assert rest[0]["type"] == ("notification" if read is None else "skipped")


def test_what_is_no_publication_may_not_be_read():
    contents = [{"id": "p", "source": "z", "time": stamp(TIME), "attributes": {"n": n}} for n in (1, {"strange": 1})]
    assert ReadFilter("TRUE").holds_for(contents).tolist() == [True, False]


def test_what_an_ontology_means_may_be_read(tmp_path):
    (tmp_path / "o.ttl").write_text(HEAD + ":Squall rdfs:subClassOf :Storm . :s a :Squall . :t a :Storm . :f a :Fog .")
    kinds = ["e:s", "e:f", "e:t", None]
    made = [tg.Publication(f"p{i}", "z", TIME, {"kind": kind} if kind else {}) for i, kind in enumerate(kinds)]
    with current.use(None):
        tg.load_ontology(tmp_path / "o.ttl", prefixes={"e": E})
        assert ReadFilter("isA(kind, 'e:Storm')").holds(as_table(made)).tolist() == [True, False, True, False]


def test_readers_of_queues_need_no_ontology(tmp_path):
    (tmp_path / "o.ttl").write_text(HEAD + ":t a :Storm . :f a :Fog .")
    made = [tg.Publication(kind, "z", TIME, {"kind": kind}) for kind in ("e:t", "e:f")]
    with Principals(tmp_path / "registry.db") as principals:
        with current.use(None):
            tg.load_ontology(tmp_path / "o.ttl", prefixes={"e": E})
            principals.put("ann", read="isA(kind, 'e:Storm')")
        with current.use(None):
            assert ReadFilter.of(principals.read_of("ann")).holds(as_table(made)).tolist() == [True, False]
        assert [principals.read_of(name) for name in ("bob", "no name", "'")] == [None] * 3


def test_a_pattern_is_no_read():
    with pytest.raises(SettingError, match="a filter as read; got a pattern, topk"):
        ReadFilter("topk(1, 'PT1H', n)")


def test_subscriptions_of_before_want_nothing_expired():
    assert MatchedSubscription.unpacked(b'["s","all"]') == ("s", "all", False)
    assert MatchedSubscription.unpacked(MatchedSubscription("s", "all", True).packed()).expired is True
