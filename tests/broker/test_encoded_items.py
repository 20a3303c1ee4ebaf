"""Items of many queues read at once, as JSON, are those that each queue gives alone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.broker.test_delivered_items import NOW, READS, SUBSCRIPTIONS, publication, publications
from tests.parts.profiles import examples
from tests.pipeline.lane import TIME
from tests.store.written_queues import few_frames_are_merged, told
from tidegate.broker import encoded_items
from tidegate.broker.delivered_items import DeliveredItems, QueuePosition
from tidegate.broker.encoded_content import ContentCache, EncodedContent
from tidegate.broker.encoded_items import EncodedItems
from tidegate.broker.read_filter import ReadFilter
from tidegate.store.delivery_records import DeliveryKind, PatternNotification
from tidegate.store.log_rows import LogRows
from tidegate.store.queue_reader import QueueReader
from tidegate.store.queues import Queues

KINDS = [*DeliveryKind, DeliveryKind.PUBLICATION, DeliveryKind.PUBLICATION, DeliveryKind.PUBLICATION]


def meanings(numbers):
    return [SUBSCRIPTIONS[number].packed() for number in numbers]


def things(random, rows, queues):
    """What a batch tells: some things, each to some queues."""
    found = []
    for _ in range(random.randrange(1, 12)):
        kind = random.choice(KINDS)
        named = [random.randrange(rows) for _ in range(random.randrange(1, 4))]
        more = {
            DeliveryKind.PATTERN: PatternNotification(NOW, tuple(named), 1.5, None).packed(),
            DeliveryKind.SKIPPED: b'"because"',
            DeliveryKind.RETRACTED: orjson.dumps({"retracts": 1}),
        }.get(kind, b"")
        row = named[0]
        if kind in (DeliveryKind.PUBLICATION, DeliveryKind.INITIAL) and random.random() < 0.1:  # of no log
            row, more = -1, orjson.dumps({"id": "x", "source": "z", "time": "2026-01-01T00:00:00Z", "attributes": {}})
        pairs = [
            (queue, one)
            for queue in random.sample(queues, random.randrange(1, len(queues) + 1))
            for one in sorted(random.sample(range(len(SUBSCRIPTIONS)), random.randrange(1, 3)))
        ]
        found.append((int(kind), row, more, pairs))
    return found


def alone(items, queue, position, limit, read):
    page = items.page(queue, position, limit, read)
    return page.epoch, page.next, [orjson.loads(orjson.dumps(item)) for item in page.items]


def encoded(page):
    found = []
    for item in page.items:
        body = orjson.loads(item.body)
        number = body["oldest"] - 1 if body["type"] == "gap" else body["number"]
        assert (item.type, item.number) == (body["type"], number)
        found.append(body)
    return page.epoch, page.next, found


@examples(25)
@given(drawn=publications, seed=st.integers(0, 1 << 32))
def test_many_queues_at_once_give_what_each_gives_alone(drawn, seed):
    random = Random(seed)
    withdrawn, at = random.sample(range(10), random.randrange(4)), random.choice([NOW - 1, NOW, NOW + 1])
    settings = {"withdrawn": lambda rows: np.isin(rows, withdrawn), "clock": lambda: at}
    with TemporaryDirectory() as name, few_frames_are_merged():
        directory, most = Path(name), random.choice([3, 10, 1000])
        with tg.Log(directory / "log", segment_bytes=1) as log, Queues(directory / "queues", most=most) as writer:
            for number, one in enumerate(drawn):
                log.append(publication(number, one))
            queues = [writer.make(f"p{i}") for i in range(random.randrange(1, 9))]
            writer.commit(0, NOW, told([]), meanings)
            with QueueReader(writer.directory, most=most) as reader, LogRows(directory / "log") as rows:
                together, each = EncodedItems(reader, rows, **settings), DeliveredItems(reader, rows, **settings)
                for batch in range(1, random.randrange(2, 12)):
                    writer.commit(batch, NOW + batch, told(things(random, len(drawn), queues)), meanings)
                    if random.random() < 0.2:
                        log.retain(before=random.randrange(len(drawn)), named=np.arange)
                    if random.random() < 0.5:
                        reader.refresh()
                        compare(random, reader, together, each, queues)


def compare(random, reader, together, each, queues):
    some, limit = random.choices(queues, k=random.randrange(1, 10)), random.randrange(1, 9)
    wanted = []
    for queue in some:
        number = random.choice([0, random.randrange(reader.last(queue) + 1), reader.last(queue), 100_000])
        wanted.append((queue, QueuePosition(number, random.choice([None, queue.epoch, queue.epoch, "another"]))))
    reads = [None if (read := random.choice(READS)) is None else ReadFilter.of(read) for _ in wanted]
    if random.random() < 0.5:
        found = followed(reader, together, wanted, limit, reads, random.choice([1, 300, 1000]))
        assert found == [everything(each, *one, read) for one, read in zip(wanted, reads, strict=True)]
    found = together.pages(wanted, limit, reads)
    expected = [alone(each, *one, limit, read) for one, read in zip(wanted, reads, strict=True)]
    assert list(map(encoded, found)) == expected


def followed(reader, together, wanted, limit, reads, most):
    """All that pages of few bytes give one after the other, each of at least one item; where they have many bytes
    together, these are the pages of the first queues.
    """
    given, left = [[] for _ in wanted], [(place, *one) for place, one in enumerate(wanted)]
    while left:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(encoded_items, "_TOGETHER", 700)
            pages = together.pages([one[1:] for one in left], limit, [reads[place] for place, *_ in left], most)
        some, left = left[: len(pages)], left[len(pages) :]
        assert some
        for (place, queue, position), page in zip(some, pages, strict=True):
            _, _, items = encoded(page)
            assert sum(len(item.body) for item in page.items[:-1] if item.type != "gap") < most
            given[place] += items
            if items:
                left.append((place, queue, QueuePosition(page.next, page.epoch)))
            else:
                assert position.number == page.next == reader.last(queue)
    return [each_number(items) for items in given]


def everything(each, queue, position, read):
    """The same in one page."""
    return each_number(alone(each, queue, position, 100_000, read)[2])


def each_number(items):
    """What is said of each number: ranges of what is left out may begin and end elsewhere."""
    return [
        {**item, "from": number, "number": number} if item["type"] == "skipped" else item
        for item in items
        for number in (range(item["from"], item["number"] + 1) if item["type"] == "skipped" else [0])
    ]


def test_a_long_range_is_one_item(tmp_path):
    with tg.Log(tmp_path / "log") as log, Queues(tmp_path / "queues") as queues:
        log.append([publication(i, (i, None, None, None, 0 if i < 900 else None)) for i in range(950)])
        made = [queues.make(name) for name in ("ann", "bob")]
        batch = told([(0, i, b"", [(queue, 0) for queue in made]) for i in range(950)])
        queues.commit(0, NOW, batch, meanings)
        with LogRows(tmp_path / "log") as rows:
            items = EncodedItems(queues, rows, withdrawn=lambda rows: rows < 0, clock=lambda: NOW)
            for page in items.pages([(queue, QueuePosition(0)) for queue in made], 7, [None, None]):
                assert [item.number for item in page.items] == [900, *range(901, 907)]
                assert orjson.loads(page.items[0].body)["from"] == 1


def test_content_is_read_and_encoded_once_for_all(tmp_path, monkeypatch):
    read, encodings = [], []
    monkeypatch.setattr(EncodedContent, "_both", counting(EncodedContent._both, encodings))
    with tg.Log(tmp_path / "log") as log, Queues(tmp_path / "queues") as queues:
        log.append([publication(i, (i, None, None, None, None)) for i in range(3)])
        made = [queues.make(f"p{i}") for i in range(100)]
        queues.commit(0, NOW, told([(0, i, b"", [(one, one.number % 3) for one in made]) for i in range(3)]), meanings)
        with LogRows(tmp_path / "log") as rows:
            monkeypatch.setattr(rows, "publications", counting(rows.publications, read))
            items = EncodedItems(queues, rows, withdrawn=lambda rows: rows < 0, clock=lambda: NOW)
            for _ in range(2):
                pages = items.pages([(queue, QueuePosition(0)) for queue in made], 10, [None] * 100)
                assert all(len(page.items) == 3 for page in pages)
    assert read == [([0, 1, 2],)]
    assert {(one.publication["id"], fields) for one, fields in list(encodings)} == {
        (f"p{i}", fields) for i in range(3) for fields in (None, frozenset(), frozenset({"n"}))
    }


def test_no_more_content_is_read_than_pages_have_bytes(tmp_path, monkeypatch):
    read = []
    with tg.Log(tmp_path / "log") as log, Queues(tmp_path / "queues") as queues:
        log.append([tg.Publication(f"p{i}", "z", TIME, {"text": 1000 * "x"}) for i in range(100)])
        made = [queues.make(f"p{i}") for i in range(10)]
        batch = told([(0, i, b"", [(queue, 0) for queue in made]) for i in range(100)])
        queues.commit(0, NOW, batch, meanings)
        with LogRows(tmp_path / "log") as rows:
            monkeypatch.setattr(rows, "publications", counting(rows.publications, read))
            monkeypatch.setattr(encoded_items, "_TOGETHER", 15_000)
            items = EncodedItems(queues, rows, withdrawn=lambda rows: rows < 0, clock=lambda: NOW)
            pages = items.pages([(queue, QueuePosition(0)) for queue in made], 100, [None] * 10, 5_000)
            assert [len(page.items) for page in pages] == [len(pages[0].items)] * 3
            assert 3 <= len(pages[0].items) <= 5
    assert read in ([([0, 1, 2, 3],)], [([0, 1, 2, 3, 4],)])


def counting(function, noted):
    def counted(*arguments):
        noted.append(arguments)
        return function(*arguments)

    return counted


def test_a_cache_counts_what_is_encoded_of_its_content_for_many_readers():
    names = [f"a{i}" for i in range(20)]
    contents = [EncodedContent({"id": f"p{i}", "attributes": dict.fromkeys(names, 20 * "x")}) for i in range(10)]
    cache = ContentCache(sum(content.nbytes for content in contents))
    for row, content in enumerate(contents):
        cache.put(row, content)
    assert all(cache.get(row) is not None for row in range(10))
    for count in range(10):
        cache.get(9).ending(frozenset(names[:count]))
    assert cache.get(9) is contents[9]
    assert [cache.get(row) is not None for row in range(10)].count(True) < 8


def test_a_cache_forgets_what_was_not_used_for_longest():
    contents = [EncodedContent({"id": f"p{i}", "time": str(TIME + timedelta(seconds=i))}) for i in range(10)]
    cache = ContentCache(contents[0].nbytes * 3 + 1)
    for row, content in enumerate(contents[:3]):
        cache.put(row, content)
    assert cache.get(0) is contents[0]
    cache.put(3, contents[3])
    assert [cache.get(row) is not None for row in range(4)] == [True, False, True, True]
    cache.drop_before(3)
    assert [cache.get(row) is not None for row in range(4)] == [False, False, False, True]
    for row in range(4, 10):
        cache.put(row, contents[row])
    assert sum(cache.get(row) is not None for row in range(10)) == 3
