"""Publications of the log by row number, against the list of what was appended."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from tempfile import TemporaryDirectory

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.store.log_contents import frames
from tests.store.writing import NOON, rows
from tidegate.errors import StoreError
from tidegate.model import Publication
from tidegate.records.row_objects import row_objects
from tidegate.records.tables import table as as_table
from tidegate.store import log_check
from tidegate.store.log import Log
from tidegate.store.log_intake import PendingAppend, bundles
from tidegate.store.log_rows import LogRows
from tidegate.store.log_segment import segments


def stamp(when):
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def told(value):
    """A value as JSON has it."""
    if isinstance(value, list):
        return [told(item) for item in value]
    if isinstance(value, datetime):
        return {"timestamp": stamp(value)}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    return {"lon": value[0], "lat": value[1]} if isinstance(value, tuple) else value


def content(publication, fields=None):
    """What a reader of its row is given."""
    found = {"id": publication.id, "source": publication.source, "time": stamp(publication.time)}
    for name in ("start", "end", "valid_until"):
        if (when := getattr(publication, name)) is not None:
            found[name] = stamp(when)
    if publication.phase is not None:
        found["phase"] = publication.phase
    if publication.location is not None:
        found["location"] = told(publication.location)
    attributes = publication.attributes.items()
    return found | {"attributes": {name: told(v) for name, v in attributes if fields is None or name in fields}}


def strict(value):
    """A value that is equal only to one of the same types throughout: 5 is not 5.0, and -0.0 not 0.0."""
    if isinstance(value, dict):
        return {name: strict(one) for name, one in value.items()}
    return [strict(one) for one in value] if isinstance(value, list) else (type(value), repr(value))


TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)) | st.just(
    datetime(2026, 3, 29, 1, 30, tzinfo=timezone(timedelta(hours=-7)))
)
POINTS = st.tuples(st.floats(-180, 180), st.floats(-90, 90))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=4)
LONG = st.integers(-(2**63), 2**64 - 1) | st.sampled_from([2**53, 2**53 + 1, -(2**53), -(2**53) - 1])
NUMBERS = st.integers(-3, 9) | st.sampled_from([5, 5.0, 5.5, -0.0, 0]) | FLOATS
#: What a list may have side by side; among them floats that are not alone no integers that a double rounds.
LISTS = [st.booleans(), FLOATS, TEXTS, TIMES, st.dates(), NUMBERS, st.integers(0, 2**63 - 1), st.just(float("inf"))]
VALUES = st.one_of(
    NUMBERS, NUMBERS, LONG, st.booleans(), TEXTS, TIMES, st.dates(), POINTS, *(st.lists(k, max_size=3) for k in LISTS)
)
ATTRIBUTES = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@st.composite
def publications(draw):
    time = draw(TIMES)
    phase, start, end = draw(
        st.sampled_from([(None, None, None), (None, time, time), ("START", time, None), ("END", None, time)])
    )
    places, until = draw(st.none() | POINTS), draw(st.none() | TIMES)
    return Publication(
        "p", draw(st.sampled_from(["z7", "ž"])), time, draw(ATTRIBUTES), start, end, phase, places, until
    )


RETAINED = st.tuples(st.floats(0.2, 1), st.none() | st.sets(st.floats(0, 0.999), max_size=30))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(publications(), min_size=1, max_size=6)),
        st.tuples(st.just("append"), st.lists(publications(), min_size=1, max_size=6)),
        st.tuples(st.just("retain"), RETAINED),
        st.tuples(st.just("retain"), RETAINED),
        st.tuples(st.just("read"), st.tuples(st.lists(st.floats(0, 0.999), max_size=9), st.none() | st.just({"a"}))),
    ),
    min_size=3,
    max_size=12,
)


IDENTITY = ("id", "source", "time", "phase")


def named(rows):
    """What retention is told that somebody names: those of the rows that lie between two others."""
    rows = sorted(rows)
    return lambda begin, end: np.array([row for row in rows if begin <= row < end], np.int64)


@given(STEPS, st.sampled_from([1, 1, 2000, 1 << 20]), st.integers(1, 4))
def test_rows_are_what_was_appended(steps, segment_bytes, most):
    with TemporaryDirectory() as directory, Log(directory, segment_bytes=segment_bytes) as log:
        given, noted, begin = [], set(), 0
        with LogRows(directory, frames=most) as reader:
            for step, what in [*steps, ("read", ([i / 20 for i in range(20)], None))]:
                if step == "append":
                    given += what
                    log.append(what)
                elif step == "retain":
                    names = None if what[1] is None else {int(part * len(given)) for part in what[1]}
                    log.retain(before=round(what[0] * len(given)), named=None if names is None else named(names))
                    noted = noted if names is None else (noted | set(range(begin, log.begin))) & names
                    begin = log.begin
                elif given:
                    asked, fields = [int(part * len(given)) for part in what[0]], what[1]
                    for row, found in zip(asked, reader.publications(asked, fields), strict=True):
                        expected = content(given[row], fields)
                        if row < begin:
                            left = {name: expected[name] for name in IDENTITY if name in expected} | {"gone": True}
                            assert found == left or (row not in noted and found == {"gone": True})
                        else:
                            assert strict(found) == strict(expected)


def test_a_segment_that_grew_before_another_followed(tmp_path):
    with Log(tmp_path, segment_bytes=3000) as log, LogRows(tmp_path) as reader:
        log.append(rows(["a"]))
        assert reader.publications([0])[0]["id"] == "a"
        while len(segments(tmp_path)) == 1:
            log.append(rows([f"p{log.end}"]))
        assert [row["id"] for row in reader.publications(range(log.end))] == [
            "a",
            *(f"p{i}" for i in range(1, log.end)),
        ]


def test_a_row_that_is_not_there_yet(tmp_path):
    with Log(tmp_path, segment_bytes=1) as log, LogRows(tmp_path) as reader:
        for row in (0, -1):
            with pytest.raises(StoreError, match=f"rows before 0, the end of the log; got row {row}"):
                reader.publications([row])
        assert reader.publications([]) == []
        for number in range(3):  # a reader notices rows and segments that come later
            log.append(rows([f"p{number}"]))
            assert [found["id"] for found in reader.publications(range(number + 1))] == [
                f"p{i}" for i in range(number + 1)
            ]
            with pytest.raises(StoreError, match=f"rows before {number + 1}, the end of the log; got row {number + 1}"):
                reader.publications([0, number + 1])
    with pytest.raises(StoreError, match="an open log"):
        reader.publications([0])
    with pytest.raises(StoreError, match="expected a log"):
        LogRows(tmp_path / "none").publications([0])


def test_a_damaged_frame_is_an_error_until_it_is_given_up(tmp_path):
    with Log(tmp_path) as log:
        for number in range(3):
            log.append(rows([f"p{number}", "x"]))
        part = log.slices(2, 4, 1)[0]
    with open(part.file, "r+b") as file:
        file.seek(part.last_byte - 80)
        byte = file.read(1)[0]
        file.seek(part.last_byte - 80)
        file.write(bytes([byte ^ 1]))
    with LogRows(tmp_path) as reader:
        assert reader.publications([0, 4])[1]["id"] == "p2"
        with pytest.raises(StoreError, match=f"a whole frame of the log; got .* at byte {part.first_byte} of"):
            reader.publications([0, 3])
        (frame,) = log_check.damaged(tmp_path)
        log_check.drop(tmp_path, frame)
        assert [found.get("id", found) for found in reader.publications([0, 3, 2, 4])] == [
            "p0",
            {"lost": True},
            {"lost": True},
            "p2",
        ]


def six(directory):
    """Six rows, a segment each but the last two."""
    with Log(directory, segment_bytes=1) as log:
        for number in range(4):
            log.append([Publication(f"p{number}", "z7", NOON, {"n": 1.5}, phase="START")])
        log.append(rows(["p4", "p5"]))
    return lambda begin, end: np.arange(begin, end)


def ids_of(directory):
    with LogRows(directory) as reader:
        return [row.get("id") for row in reader.publications(range(6))]


def test_what_is_noted_goes_once_nobody_names_it(tmp_path):
    everybody = six(tmp_path)
    with Log(tmp_path) as log:
        assert log.retain(before=3, named=everybody) == 3
        assert ids_of(tmp_path) == [f"p{i}" for i in range(6)]
        assert len(list(tmp_path.glob("*.gone"))) == 3
        assert log.retain(before=3) == 0  # who does not know who names rows takes nothing away
        assert log.retain(size=0, named=named({1, 3})) == 1
        assert ids_of(tmp_path) == [None, "p1", None, "p3", "p4", "p5"]
        with LogRows(tmp_path) as reader:
            expected = {"id": "p3", "source": "z7", "phase": "START", "time": "2026-11-15T12:00:00.000000Z"}
            assert reader.publications([3, 0]) == [{**expected, "gone": True}, {"gone": True}]
            assert log.retain(size=0, named=named({5})) == 0
            assert reader.publications([3]) == [{"gone": True}]
    assert not list(tmp_path.glob("*.gone"))


def test_no_named_row_is_lost_between_two_steps(tmp_path, monkeypatch):
    """Retention is killed before each of its calls of the system, and its disk is full at each."""

    class Killed(BaseException):
        pass

    def fail(left, name, error):
        real = getattr(os, name)

        def failing(*args, **kwargs):
            left[0] -= 1
            if not left[0]:
                raise error
            return real(*args, **kwargs)

        return failing

    def attempt(directory, step, error):
        everybody, left = six(directory), [step]
        with Log(directory) as log, monkeypatch.context() as patch:
            for name in ("fsync", "rename", "unlink"):
                patch.setattr(os, name, fail(left, name, error))
            with suppress(Killed, StoreError):
                log.retain(size=0, named=everybody)
        assert ids_of(directory) == [f"p{i}" for i in range(6)]
        with Log(directory) as log:  # it is gone on with
            log.retain(size=0, named=everybody)
            assert log.begin == 4
        assert ids_of(directory) == [f"p{i}" for i in range(6)]
        assert {file.suffix for file in directory.iterdir()} == {"", ".log", ".index", ".gone"}
        return left[0] <= 0

    for kind, error in (("killed", Killed()), ("full", OSError(28, "No space left on device"))):
        steps = 1
        while attempt(tmp_path / f"{kind}{steps}", steps, error):
            steps += 1
        assert steps > 4 * 5  # two of fsync, a rename, and two files that are removed, of each segment


def test_notes_that_were_damaged(tmp_path):
    everybody = six(tmp_path)
    with Log(tmp_path) as log:
        log.retain(before=2, named=everybody)
    (tmp_path / f"{1:020d}.gone").write_bytes((tmp_path / f"{1:020d}.gone").read_bytes()[:-80])
    with LogRows(tmp_path) as reader:
        assert reader.publications([0])[0]["id"] == "p0"
        with pytest.raises(StoreError, match=f"{1:020d}.gone"):
            reader.publications([1])
        (tmp_path / f"{1:020d}.gone").unlink()
        assert reader.publications([1]) == [{"gone": True}]


def test_a_damaged_frame_is_not_noted(tmp_path):
    everybody = six(tmp_path)
    file = tmp_path / f"{1:020d}.log"
    file.write_bytes(file.read_bytes()[:-80] + bytes(80))
    with Log(tmp_path) as log:
        assert log.retain(before=3, named=everybody) == 3
    assert ids_of(tmp_path) == ["p0", None, "p2", "p3", "p4", "p5"]


def test_integers_of_tables_and_nulls(tmp_path):
    with Log(tmp_path) as log, LogRows(tmp_path) as reader:
        log.append(
            rows(
                ["a", "b"],
                n=pa.array([2**63 - 1, None]),
                m=pa.array([7, 8], pa.int8()),
                big=pa.array([None, 2**64 - 1], pa.uint64()),
                series=pa.array([[1, 2], None], pa.list_(pa.int32())),
                gaps=pa.array([None, [1.0, float("inf")]]),
            )
        )
        found = [row["attributes"] for row in reader.publications([0, 1])]
        assert found == [
            {"n": 2**63 - 1, "m": 7, "series": [1, 2]},
            {"m": 8, "big": 2**64 - 1, "gaps": [1.0, float("inf")]},
        ]
        assert {type(value) for value in (*found[0].values(), *found[1].values())} == {int, list}


def test_threads_share_a_reader(tmp_path):
    given = [f"p{i}" for i in range(200)]
    with Log(tmp_path, segment_bytes=5000) as log:
        for name in given:
            log.append(rows([name], at=pa.array([NOON], pa.timestamp("us", "UTC"))))
    wrong = []
    with LogRows(tmp_path, frames=20) as reader:

        def run(step):
            asked = list(range(0, 200, step))
            for _ in range(5):
                found = [row["id"] for row in reader.publications(asked)]
                wrong.extend(set(found) ^ {given[i] for i in asked})

        running = [threading.Thread(target=run, args=(step,)) for step in (1, 3, 7, 11)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    assert not wrong


def test_integers_make_no_other_frames_and_match_as_before(tmp_path):
    values = [5, 5.0, 5.5, 5, -0.0, 0, 5.0, [5, 5.5], [5, 5.0], [5.0]]
    given = [Publication(f"p{i}", "z7", NOON, {"bag" if isinstance(v, list) else "n": v}) for i, v in enumerate(values)]
    with Log(tmp_path) as log, LogRows(tmp_path) as reader:
        log.append(given)
        assert len(frames(log)) == 1
        for one in given[:7]:
            log.append(one)
        found = [row["attributes"] for row in reader.publications(range(17))]
        assert strict(found) == strict([dict(p.attributes) for p in [*given, *given[:7]]])
        alone = [frame.batch for frame in frames(log)[1:]]
        assert {batch.schema.field("n").type for batch in alone} == {pa.float64()}
        together = pa.Table.from_batches(alone)  # as those who match put them together
    where = ("n = 5", "n >= 5 AND n < 5.5", "n IN (0, 5)", "A_CONTAINS(bag, (5))", "NOT n = 5")
    with tg.Engine([tg.Subscription(f"s{i}", "ann", text) for i, text in enumerate(where)]) as engine:
        told = [(n.subscription, n.publications) for n in engine.publish(given[:7] * 9)]
        for table in (pa.concat_tables([together] * 9), as_table(given[:7] * 9, marked=True)):
            ids = [(row["subscription_id"], tuple(row["publication_ids"])) for row in engine.publish(table).to_pylist()]
            assert sorted(ids) == sorted(told)


def test_appends_that_share_a_batch_keep_their_integers():
    tables = [as_table([Publication("p", "z7", NOON, {"n": value})], marked=True) for value in (5, 5.0, 6, 6.5)]
    found = [batch for bundle in bundles([PendingAppend(table) for table in tables]) for batch in bundle.batches]
    assert sorted(value for batch in found for value in map(repr, row_values(batch))) == ["5", "5.0", "6", "6.5"]


def row_values(batch):
    return [row["attributes"]["n"] for row in row_objects(pa.Table.from_batches([batch]))]


def test_sizes_of_rows_that_came_one_by_one_are_about_those_of_json(tmp_path):
    contents = [
        {"text": "x" * size, "n": 1.5, "place": (8.0, 46.0), "kept": True} for size in (0, 30_000, 3, 500, 100_000)
    ] + [{"bits": [True] * size} for size in (1, 50_000, 10)]
    with Log(tmp_path / "log") as log:
        for i, attributes in enumerate(contents):
            log.append([tg.Publication(f"p{i}", "z7", NOON, attributes)])
        with LogRows(log.directory) as reader:
            every = range(len(contents))
            actual = np.array([len(orjson.dumps(one)) for one in reader.publications(every)])
            found = reader.sizes(every)
    assert (actual / 3 <= found).all()
    assert (found <= 4 * actual + 300).all()
