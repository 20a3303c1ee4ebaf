"""Publications in a history: whatever is kept comes back as expressions saw it, as tables and as objects."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from enum import IntEnum
from math import inf, nan
from typing import NamedTuple

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tests.drawn_publications as some
from tidegate.index.batch import ArrowBatch, ObjectBatch
from tidegate.model import RESERVED, Publication, micros
from tidegate.predicates.column import READINGS, column
from tidegate.records import publication, stored_bodies, table
from tidegate.records.tables import kinds_of

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
FIELDS = [name for name in RESERVED if name != "event"]


class Told(NamedTuple):
    """What stands in a history beside the body."""

    id: str
    source: str
    phase: str | None
    time: int
    start: int | None
    end: int | None
    body: str


def told(p: Publication, body: str) -> Told:
    time = micros(p.time)
    start, end = (None if when is None else micros(when) for when in (p.start, p.end))
    if p.phase == "END":
        start, end = None, time if end is None else end
    elif p.phase == "START":
        start, end = time if start is None else start, None
    else:
        first = start if start is not None else end if end is not None else time
        start, end = first, end if end is not None else first
    return Told(p.id, p.source, p.phase, time, start, end, body)


def seen(value):
    """A value as expressions see it; what is different is different here."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return ("NaN",) if value != value else float(value).hex()
    if isinstance(value, datetime):
        return "instant", micros(value)
    if isinstance(value, date):
        return "date", value.isoformat()
    if isinstance(value, str):
        return "text", value
    if isinstance(value, tuple):
        return "point", *map(seen, value)
    return [seen(item) for item in value]


def fields(row, names):
    return {name: value for name in [*FIELDS, *names] if (value := seen(row.value(name))) is not None}


def restored(heard: list[Told], names) -> list[dict]:
    """The rows, by way of tables that an engine takes."""
    found = {}
    for rows, part in stored_bodies.tables(heard):
        batch = ArrowBatch(part) if isinstance(part, pa.Table) else ObjectBatch(part)
        assert batch.length == len(rows) > 0
        for i, row in enumerate(rows.tolist()):
            assert row not in found
            found[row] = fields(batch.row(i), names)
    assert sorted(found) == list(range(len(heard)))
    return [found[row] for row in range(len(heard))]


def names_of(publications) -> set[str]:
    return {name for p in publications for name in p.attributes}


def check(publications: list[Publication]) -> None:
    names = names_of(publications)
    expected = [fields(p, names) for p in publications]
    heard = [told(p, body) for p, body in zip(publications, stored_bodies.of_publications(publications), strict=True)]
    assert restored(heard, names) == expected
    assert [fields(p, names) for p in stored_bodies.publications(heard)] == expected


@given(some.publications(mixed=True))
def test_publications_come_back_as_they_were(publications):
    check(publications)


values = st.one_of(*some.KINDS.values(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False))
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5) | st.sampled_from(
    ["attributes", "gap", "timestamp", "date", "lon", "type", "a b", '"', "\0", "é"]
)
attributes = st.dictionaries(names.filter(lambda name: name not in RESERVED), values, max_size=5)


@given(st.lists(attributes, min_size=1, max_size=8))
@example([{"a": '{"gap":"NaN"}'}, {"a": [1.5, "NaN", nan]}, {"gap": [nan, -inf, 2]}])
@example([{"a": [NOON, date(2026, 1, 2)]}, {"a": [date(1, 1, 1)]}, {"a": [NOON]}, {"a": []}, {}])
@example([{"a": 2**64}, {"a": -(2**63) - 1}, {"a": [2**64 - 1, 10**300]}, {"a": True}, {"a": [True, False]}])
@example([{"a": -0.0, "b": 5e-324, "c": 1.7976931348623157e308}])
def test_any_attributes_come_back(found):
    check([Publication(f"p{i}", "z7", NOON, some) for i, some in enumerate(found)])


@given(some.publications(mixed=False))
def test_a_table_and_its_publications_have_the_same_bodies(publications):
    whole = table(publications)
    if whole is None:
        return
    names = names_of(publications)
    for given_table in (whole, pa.table(ArrowBatch(whole).arrays), pa.concat_tables([whole[:1], whole[1:]])):
        texts = stored_bodies.of_table(given_table)
        heard = [told(p, body) for p, body in zip(publications, texts, strict=True)]
        assert restored(heard, names) == [fields(p, names) for p in publications]


@given(some.publications(mixed=True))
def test_every_reading_reads_the_same(publications):
    publications = [p for p in publications if is_tabular(p)]
    heard = [told(p, body) for p, body in zip(publications, stored_bodies.of_publications(publications), strict=True)]
    parts = [(rows, ArrowBatch(part)) for rows, part in stored_bodies.tables(heard)]
    for name, reading in READINGS.items():
        for operand in some.ATTRIBUTES:
            try:
                expected = [reading.point(operand, p) for p in publications]
            except (AttributeError, TypeError):  # reads expressions
                continue
            for rows, batch in parts:
                one = column(name, operand)
                found = [one.point(batch.row(i)) for i in range(len(rows))]
                assert seen(found) == seen([expected[row] for row in rows.tolist()])


def is_tabular(p: Publication) -> bool:
    try:
        kinds_of(p, None)
    except ValueError:
        return False
    return True


def test_tables_of_other_types():
    """What engines take and nobody's publications have."""
    day = date(2026, 11, 15)
    given_table = pa.table(
        {
            "id": pa.array(["a", "b", "c"]),
            "source": pa.array(["z7"] * 3).dictionary_encode(),
            "time": pa.array([NOON] * 3, pa.timestamp("ms", "Europe/Berlin")),
            "start": pa.array([NOON, None, NOON], pa.timestamp("s", "UTC")),
            "phase": pa.array(["START", None, "END"]).dictionary_encode(),
            "location": pa.array(
                [{"lat": 1, "lon": 2}, None, None], pa.struct([("lat", pa.int8()), ("lon", pa.int8())])
            ),
            "small": pa.array([1, None, 3], pa.int8()),
            "large": pa.array([2**64 - 1, None, 0], pa.uint64()),
            "half": pa.array([0.1, None, 2.5], pa.float32()),
            "words": pa.array(["x", None, "é"], pa.large_string()),
            "day": pa.array([day, None, day], pa.date64()),
            "bag": pa.array([[0.5, nan, inf], None, []], pa.list_(pa.float32())),
            "pair": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int16(), 2)),
            "days": pa.array([[day], None, []], pa.list_(pa.date32())),
            "moments": pa.array([[NOON], None, []], pa.list_(pa.timestamp("us", "UTC"))),
            "exact": pa.array([-1, None, 1_999], pa.timestamp("ns", "America/Lima")),
            "nothing": pa.nulls(3),
        }
    )
    batch = ArrowBatch(given_table)
    publications = [
        Publication("a", "z7", NOON, start=NOON, phase="START", location=(2.0, 1.0)),
        Publication("b", "z7", NOON),
        Publication("c", "z7", NOON, start=NOON, phase="END"),
    ]
    names = set(given_table.column_names) - set(RESERVED)
    expected = [fields(batch.row(i), names) for i in range(3)]
    for some_table in (given_table, pa.table(batch.arrays)):
        heard = [told(p, body) for p, body in zip(publications, stored_bodies.of_table(some_table), strict=True)]
        assert restored(heard, names) == expected


def test_early_and_late_times():
    when = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), NOON]
    publications = [Publication(f"p{i}", "z7", t, {"t": t}, valid_until=t) for i, t in enumerate(when)]
    check(publications)
    texts = stored_bodies.of_table(table(publications))
    heard = [told(p, body) for p, body in zip(publications, texts, strict=True)]
    assert restored(heard, {"t"}) == [fields(p, {"t"}) for p in publications]


def test_values_of_derived_types():
    class Level(IntEnum):
        HIGH = 3

    class Name(str):
        pass

    values = {"n": Level.HIGH, "x": np.float64(0.1), "t": Name("abc"), "w": pd.Timestamp(NOON)}
    check([Publication("p", "z7", NOON, {**values, "bag": [Level.HIGH, np.float64(2.5)]})])


def test_what_a_body_looks_like():
    """It is stored: it may never change so that old ones cannot be read."""
    p = Publication(
        "p",
        "z7",
        NOON,
        {"no2": 41.5, "tags": ["a"], "wave": [1.0, nan], "spot": (8.5, 47.0), "when": NOON, "day": date(2026, 1, 2)},
        location=(8.5, 47.25),
        valid_until=NOON + timedelta(hours=1),
    )
    [text] = stored_bodies.of_publications([p])
    assert text == (
        '{"start":false,"end":false,"location":[8.5,47.25],"valid_until":"2026-11-15T13:00:00.000000Z","attributes":'
        '{"no2":41.5,"tags":["a"],"wave":[1.0,{"gap":"NaN"}],"spot":{"lon":8.5,"lat":47.0},'
        '"when":{"timestamp":"2026-11-15T12:00:00.000000Z"},"day":{"date":"2026-01-02"}}}'
    )
    assert stored_bodies.of_publications([Publication("p", "z7", NOON, start=NOON, end=NOON)]) == ["{}"]
    assert stored_bodies.of_publications([Publication("p", "z7", NOON, start=NOON, phase="START")]) == ["{}"]
    assert stored_bodies.of_publications([Publication("p", "z7", NOON, end=NOON, phase="END")]) == ["{}"]


@given(some.publications(mixed=True, whole=True))
def test_a_whole_body_is_the_publication(publications):
    names = names_of(publications)
    for p, text in zip(publications, stored_bodies.of_publications(publications, whole=True), strict=True):
        assert fields(publication(orjson.loads(text), ""), names) == fields(p, names)
    whole = table(publications)
    for p, text in zip(publications, [] if whole is None else stored_bodies.of_table(whole, whole=True), strict=False):
        assert fields(publication(orjson.loads(text), ""), names) == fields(p, names)


def test_no_rows():
    assert stored_bodies.tables([]) == stored_bodies.publications([]) == stored_bodies.of_publications([]) == []
    assert stored_bodies.of_table(pa.table({"id": pa.array([], pa.string())})) == []


@pytest.mark.parametrize("count", [4095, 4096, 4097, 10_000])
def test_many_rows_keep_their_place(count):
    publications = [Publication(f"p{i}", "z7", NOON, {"n": i if i % 3 else f"{i}"}) for i in range(count)]
    heard = [told(p, body) for p, body in zip(publications, stored_bodies.of_publications(publications), strict=True)]
    parts = stored_bodies.tables(heard)
    assert len(parts) == 2
    for rows, part in parts:
        assert part.column("id").to_pylist() == [f"p{row}" for row in rows.tolist()]


def test_a_table_says_nothing_of_what_is_missing():
    publications = [Publication("p", "z7", NOON, {"a": 1.5, "b": "x"}), Publication("q", "z7", NOON, {"c": -0.0})]
    publications.append(Publication("r", "z7", NOON))
    assert stored_bodies.of_table(table(publications)) == stored_bodies.of_publications(publications)
