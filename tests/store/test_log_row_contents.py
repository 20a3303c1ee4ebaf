"""Publications of the log by row number, against the list of what was appended."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, timedelta, timezone
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.writing import NOON, rows
from tidegate.errors import StoreError
from tidegate.model import Publication
from tidegate.store import log_check
from tidegate.store.log import Log
from tidegate.store.log_rows import LogRows


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


TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)) | st.just(
    datetime(2026, 3, 29, 1, 30, tzinfo=timezone(timedelta(hours=-7)))
)
POINTS = st.tuples(st.floats(-180, 180), st.floats(-90, 90))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=4)
SINGLE = [st.booleans(), FLOATS, TEXTS, TIMES, st.dates()]
VALUES = st.one_of(*SINGLE, POINTS, *(st.lists(kind, max_size=3) for kind in SINGLE))
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


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(publications(), min_size=1, max_size=6)),
        st.tuples(st.just("append"), st.lists(publications(), min_size=1, max_size=6)),
        st.tuples(st.just("retain"), st.floats(0, 1)),
        st.tuples(st.just("read"), st.tuples(st.lists(st.floats(0, 0.999), max_size=9), st.none() | st.just({"a"}))),
    ),
    max_size=12,
)


@given(STEPS, st.sampled_from([1, 2000, 1 << 20]), st.integers(1, 4))
def test_rows_are_what_was_appended(steps, segment_bytes, frames):
    with TemporaryDirectory() as directory, Log(directory, segment_bytes=segment_bytes) as log:
        given = []
        with LogRows(directory, frames=frames) as reader:
            for step, what in [*steps, ("read", ([i / 20 for i in range(20)], None))]:
                if step == "append":
                    given += what
                    log.append(what)
                elif step == "retain":
                    log.retain(before=round(what * len(given)))
                elif given:
                    asked, fields = [int(part * len(given)) for part in what[0]], what[1]
                    expected = [content(given[i], fields) if i >= log.begin else {"gone": True} for i in asked]
                    assert reader.publications(asked, fields) == expected


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
