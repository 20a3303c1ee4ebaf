"""JSON texts of publications, some of them spoilt, and how they are read the slow way."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone

from hypothesis import strategies as st

from tests.drawn_publications import ATTRIBUTES, publications
from tidegate.errors import TidegateError
from tidegate.model import RESERVED
from tidegate.records import publication

NOW = "2026-11-15T08:00:00Z"
FIELDS = {"source": "z", "time": NOW}


# --- records that say what publications do --------------------------------------------------------------------------


def stamp(when, form):
    if form == 0:
        return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if form == 1:
        return when.isoformat()
    return when.astimezone(timezone(timedelta(hours=-3, minutes=-30))).strftime("%Y-%m-%dt%H:%M:%S.%f999-03:30")


def plain(value, form):
    """The JSON that stands for a value, in one of its forms."""
    if isinstance(value, datetime):
        return {"timestamp": stamp(value, form)}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if isinstance(value, tuple):
        lon, lat = value
        return {"type": "Point", "coordinates": [lon, lat, 7][: 2 + form % 2]} if form else {"lon": lon, "lat": lat}
    return [plain(item, form) for item in value] if isinstance(value, list) else value


def as_record(p, form, nested):
    record = {"id": p.id, "source": p.source, "time": stamp(p.time, form)}
    for name in ("start", "end", "valid_until"):
        if (when := p.value(name)) is not None:
            record[name] = stamp(when, form)
    if p.phase is not None or form == 2:
        record["phase"] = p.phase
    if p.location is not None:
        record["location"] = list(p.location) if form == 2 else plain(p.location, form)
    attributes = {name: plain(value, form) for name, value in p.attributes.items()}
    return record | ({"attributes": attributes} if nested else attributes)


@st.composite
def records(draw, mixed=True):
    """Records of publications, among them some that are spoilt."""
    batch = draw(publications(mixed=mixed, most=6, whole=True))
    found = [as_record(p, draw(st.integers(0, 2)), draw(st.booleans())) for p in batch]
    for _ in range(draw(st.integers(0, 2))):
        record = draw(st.sampled_from(found))
        name = draw(st.sampled_from([*RESERVED, *ATTRIBUTES, "attributes", ""]))
        record[name] = draw(any_json)
    return found


_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(
        [NOW, "2026-02-30T00:00:00Z", "2026-11-15", "0000-01-01T00:00:00Z", "START", "x" * 1025, "é" * 1024]
    ),
)
_names = st.sampled_from([*RESERVED, "lon", "lat", "type", "coordinates", "timestamp", "date", "attributes", "n", ""])
any_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names | st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


def no_json(word):
    raise ValueError(f"{word} is no JSON")


def slowly(texts):
    """Publications by row, the slow way; errors for what is none."""
    found = {}
    for row, text in enumerate(texts):
        try:
            found[row] = publication(json.loads(text, parse_constant=no_json), f"row {row}")
        except (TidegateError, ValueError) as error:
            found[row] = error
    return found


def is_mixed(p):
    """Whether some list has members of several kinds, which no column can hold."""
    lists = [value for value in p.attributes.values() if isinstance(value, list)]
    return any(len({float if type(m) is int else type(m) for m in value}) > 1 for value in lists)


def matches(engine, publications):
    return sorted((n.id, n.subscription, n.publications[0]) for n in engine.publish(publications))


def table_matches(engine, parts):
    found = []
    for _, table in parts:
        rows = engine.publish(table)
        ids = [some[0] for some in rows.column("publication_ids").to_pylist()]
        names = (rows.column(name).to_pylist() for name in ("notification_id", "subscription_id"))
        found += zip(*names, ids, strict=True)
    return sorted(found)


def all_rows(parts, faults):
    return sorted([*(row for rows, _ in parts for row in rows.tolist()), *(fault.row for fault in faults)])
