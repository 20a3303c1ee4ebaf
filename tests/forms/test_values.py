"""Values of other libraries, times and places in their several forms: the same as objects and as tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.parts.refusal import assert_refused
from tidegate.index.batch import ArrowBatch, sift
from tidegate.records import publication

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)


class Level(IntEnum):
    HIGH = 3


class Kind(StrEnum):
    RAIN = "rain"


class Place:
    def __init__(self, found):
        self.__geo_interface__ = found


class Unable:
    @property
    def __geo_interface__(self):
        raise RuntimeError("no coordinates")


# --- values -------------------------------------------------------------------------------------------------------

VALUES = {
    "float64": (np.float64(1.5), 1.5),
    "float32": (np.float32(0.1), 0.10000000149011612),
    "float16": (np.float16(1.5), 1.5),
    "longdouble": (np.longdouble(1.5), 1.5),
    "int8": (np.int8(-3), -3),
    "uint64": (np.uint64(2**64 - 1), 2**64 - 1),
    "bool": (np.bool_(True), True),
    "text": (np.str_("a"), "a"),
    "decimal": (Decimal("0.1"), 0.1),
    "decimal of many digits": (Decimal("0.1000000000000000055511151231257827021181583404541015625"), 0.1),
    "enumerated number": (Level.HIGH, 3),
    "enumerated text": (Kind.RAIN, "rain"),
    "array": (np.arange(3), [0, 1, 2]),
    "array of floats": (np.array([1.5, np.inf], np.float32), [1.5, float("inf")]),
    "array of texts": (np.array(["a", "b"]), ["a", "b"]),
    "array of truths": (np.array([True, False]), [True, False]),
    "array of objects": (np.array([Decimal("1.5"), 2], object), [1.5, 2]),
    "array without a dimension": (np.array(4), 4),
    "list of others": ([np.float64(1), Decimal("2"), np.int32(3)], [1.0, 2.0, 3]),
    "timestamp": (pd.Timestamp("2026-11-15T08:00Z"), NOW),
    "point of shapely": (shapely.Point(1, 2), (1.0, 2.0)),
    "geojson": ({"type": "Point", "coordinates": [1, 2, 3]}, (1.0, 2.0)),
    "lon and lat": ({"lon": np.float32(1), "lat": Decimal(2)}, (1.0, 2.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_of_other_libraries_are_plain_values(name):
    value, kept = VALUES[name]
    found = tg.Publication("p", "z", NOW, {"x": value}).attributes["x"]
    assert found == kept
    assert type(found) is type(kept)
    if isinstance(kept, list):
        assert [type(item) for item in found] == [type(item) for item in kept]


REFUSED = {
    "nan": Decimal("NaN"),
    "signalling nan": Decimal("sNaN"),
    "infinite": Decimal("Infinity"),
    "too large": Decimal("1e400"),
    "complex": np.complex64(1),
    "two dimensions": np.ones((2, 2)),
    "array of times": np.array(["2026-11-15"], "datetime64[s]"),
    "duration": np.timedelta64(5, "s"),
    "bytes": np.bytes_(b"a"),
    "missing": pd.NA,
    "not a time": pd.NaT,
    "time without zone": np.datetime64("2026-11-15T08:00"),
    "masked": np.ma.array([1, 2], mask=[True, False]),
    "line": shapely.LineString([(0, 0), (1, 1)]),
    "empty point": shapely.Point(),
    "no coordinates": Unable(),
    "far": shapely.Point(200, 0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_value_is_refused(name):
    assert_refused(lambda: tg.Publication("p", "z", NOW, {"x": REFUSED[name]}), tg.PublicationError, "attribute 'x'")


# --- times --------------------------------------------------------------------------------------------------------


class Moment(datetime):
    pass


TIMES = [
    "2026-11-15T08:00:00Z", "2026-11-15 09:00:00+01:00", "2026-11-15T08:00Z", "2026-11-15t08:00:00.000000999z",
    "2026-11-15 13:30+0530", "2026-11-15T09:00+01", pd.Timestamp("2026-11-15T08:00Z"),
    Moment(2026, 11, 15, 8, tzinfo=UTC), datetime(2026, 11, 15, 9, tzinfo=timezone(timedelta(hours=1))),
]  # fmt: skip


@pytest.mark.parametrize("when", TIMES, ids=str)
def test_times_may_be_texts_and_of_other_types(when):
    found = tg.Publication("p", "z", when, start=when, end=when, valid_until=when)
    for name in ("time", "start", "end", "valid_until"):
        assert type(getattr(found, name)) is datetime
        assert getattr(found, name) == NOW
    assert tg.Subscription("s", "ann", "a = 1", active_from=when).active_from == NOW
    assert publication({"id": "p", "source": "z", "time": when}, "").time == NOW


@pytest.mark.parametrize("when", ["2026-11-15", "08:00:00Z", "2026-02-30T08:00:00Z", "soon", NOW.date(), 5, pd.NaT])
def test_what_is_no_time_is_refused(when):
    assert_refused(lambda: tg.Publication("p", "z", when), tg.PublicationError, "as the time")


# --- places -------------------------------------------------------------------------------------------------------

PLACES = {
    "tuple": (1, 2),
    "list": [np.int64(1), Decimal(2)],
    "array": np.array([1.0, 2.0]),
    "shapely": shapely.Point(1, 2),
    "shapely with a height": shapely.Point(1, 2, 3),
    "geojson": {"type": "Point", "coordinates": (1, 2)},
    "object": Place({"type": "Point", "coordinates": [1, 2]}),
    "lon and lat": {"lon": 1, "lat": 2},
}


@pytest.mark.parametrize("name", PLACES)
def test_places_of_objects_and_dicts(name):
    assert tg.Publication("p", "z", NOW, location=PLACES[name]).location == (1.0, 2.0)
    record = {"id": "p", "source": "z", "time": NOW, "location": PLACES[name]}
    assert publication(record, "").location == (1.0, 2.0)


def _column(values, kind=None):
    return pa.table({"id": ["p"], "source": ["z"], "time": [NOW], "location": pa.array(values, kind)})


COLUMNS = {
    "floats": _column([{"lon": 1.0, "lat": 2.0}]),
    "integers": _column([{"lon": 1, "lat": 2}]),
    "geojson": _column([{"type": "Point", "coordinates": [1.0, 2.0, 9.0]}]),
    "geoarrow": _column([{"x": 1.0, "y": 2.0}]),
    "lists": _column([[1.0, 2.0]]),
    "fixed lists": _column([[1.0, 2.0]], pa.list_(pa.float64(), 2)),
    "wkb": _column([shapely.to_wkb(shapely.Point(1, 2))]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_places_of_tables(name):
    assert ArrowBatch(COLUMNS[name]).row(0).value("location") == (1.0, 2.0)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([{"type": "Polygon", "coordinates": [1.0, 2.0]}], "lon in [-180, 180]"),
        ([{"type": "Point", "coordinates": [1.0]}], "lon in [-180, 180]"),
        ([{"type": "Point", "coordinates": ["a", "b"]}], "points (struct lon, lat"),
        ([[1.0, 2.0, 3.0, 4.0]], "lon in [-180, 180]"),
        ([b"nonsense"], "lon in [-180, 180]"),
        ([shapely.to_wkb(shapely.box(0, 0, 1, 1))], "lon in [-180, 180]"),
        (["POINT (1 2)"], "points (struct lon, lat) as location"),
    ],
)
def test_columns_that_are_no_places_are_refused(values, said):
    assert_refused(lambda: ArrowBatch(_column(values)), tg.PublicationError, said)


_degrees = st.none() | st.floats(-200, 200) | st.integers(-200, 200)
_points = st.none() | st.tuples(st.floats(-180, 180), st.floats(-90, 90))


@examples(150)
@given(rows=st.lists(st.tuples(_points, _degrees, _degrees), min_size=1, max_size=6))
def test_longitude_and_latitude_are_the_location_of_objects_and_tables_alike(rows):
    """And of what is no place both say so."""
    wanted = {}
    for i, (point, lon, lat) in enumerate(rows):
        given = {"longitude": lon, "latitude": lat}
        try:
            wanted[i] = tg.Publication(f"p{i}", "z", NOW, given, location=point).location
        except tg.PublicationError:
            assert point is None
        else:
            pair = None if lon is None or lat is None else (lon, lat)
            assert wanted[i] == (pair if point is None else point)
    table = pa.table(
        {
            "id": [f"p{i}" for i in range(len(rows))],
            "source": ["z"] * len(rows),
            "time": [NOW] * len(rows),
            "longitude": pa.array([None if lon is None else float(lon) for _, lon, _ in rows], pa.float64()),
            "latitude": pa.array([None if lat is None else float(lat) for _, _, lat in rows], pa.float64()),
            "location": pa.array(
                [None if point is None else dict(zip(("lon", "lat"), point, strict=True)) for point, _, _ in rows],
                pa.struct([("lon", pa.float64()), ("lat", pa.float64())]),
            ),
        }
    )
    batch, faults = sift(table)
    kept = range(len(rows)) if batch.kept is None else batch.kept.tolist()
    assert {row: batch.row(at).value("location") for at, row in enumerate(kept)} == wanted
    assert len(faults) == len(rows) - len(wanted)


PARTS = {"location.lon": [1.0], "location.lat": [2.0]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"location.lat": None}, "location, or both location.lon and location.lat"),
        ({"location": [{"lon": 1.0, "lat": 2.0}]}, "location, or both location.lon and location.lat"),
        ({"location.lon": ["east"]}, "numbers as location.lon"),
        ({"location.lon": [None]}, "lon in [-180, 180]"),
    ],
)
def test_half_a_location_is_refused(change, said):
    columns = {"id": ["p"], "source": ["z"], "time": [NOW], **PARTS, **change}
    table = pa.table({name: values for name, values in columns.items() if values is not None})
    assert_refused(lambda: ArrowBatch(table), tg.PublicationError, said)


def test_parts_of_a_location_are_no_attributes():
    table = pa.table({"id": ["p"], "source": ["z"], "time": [NOW], **PARTS})
    assert ArrowBatch(table).attributes(0) == {}
    record = {"id": "p", "source": "z", "time": NOW, "location.lon": 1, "location.lat": 2}
    assert publication(record, "") == tg.Publication("p", "z", NOW, location=(1, 2))
    for wrong in ({"location.lon": 1}, {"location.lon": 1, "location.lat": 2, "location": (3, 4)}):
        assert_refused(
            lambda wrong=wrong: publication({"id": "p", "source": "z", "time": NOW, **wrong}, ""),
            tg.PublicationError,
            "location, or both location.lon and location.lat",
        )
    assert_refused(lambda: tg.Publication("p", "z", NOW, {"location.lon": 1}), tg.PublicationError, "not reserved")


# --- tables -------------------------------------------------------------------------------------------------------

ENGINE = [tg.Subscription("s", "ann", "x > 1")]


def test_one_publication_and_one_dict_give_a_list():
    engine = tg.Engine(ENGINE)
    record = {"id": "p", "source": "z", "time": NOW, "x": 2}
    for one in (record, [record], (record,), iter([record]), tg.Publication("p", "z", NOW, {"x": 2})):
        (found,) = engine.publish(one)
        assert found.publications == ("p",)
    assert engine.publish(record, grouped=True).num_rows == 1


class Stream:
    """A table of nobody's, with Arrow's protocol alone."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_anything_with_the_protocol_is_a_table():
    table = pa.table({"id": ["p"], "source": ["z"], "time": [NOW], "x": [2]})
    for same in (Stream(table), table.to_reader(), table.to_batches()[0], table.to_pandas()):
        found = tg.Engine(ENGINE).publish(same)
        assert isinstance(found, pa.Table)
        assert found.num_rows == 1


def test_frames_that_are_no_publications_say_why():
    engine = tg.Engine(ENGINE)
    mixed = pd.DataFrame({"id": ["p", "q"], "source": ["z", "z"], "time": [NOW, NOW], "x": [1, "a"]})
    assert_refused(lambda: engine.publish(mixed), tg.PublicationError, "values of one kind")
    assert_refused(lambda: engine.publish(pd.DataFrame({"No": [1]})), tg.PublicationError, "a column id", "columns No")
    assert_refused(lambda: engine.publish(pa.array([1, 2])), tg.PublicationError, "a publication, a dict")


def test_an_index_without_a_name_is_no_attribute():
    frame = pd.DataFrame({"id": ["p", "q"], "source": "z", "time": NOW, "x": [1, 2]})
    assert tg.Engine([tg.Subscription("s", "ann", "__index_level_0__ >= 0")]).publish(frame[frame.x > 1]).num_rows == 0
