"""Histories whose tables were made when any source could end an event."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import pytest
from sqlalchemy import Column, Index, MetaData, Table, inspect, text

import tidegate as tg
from tidegate.model import NAME_LENGTH, moment
from tidegate.store import History
from tidegate.store.database import NUMBER, OPTIONS, Database, key, words
from tidegate.store.database_url import address
from tidegate.store.history_tables import COUNTS, ELDERS, ENDS, EVENTS, PARTS, REFUSALS, STATE
from tidegate.store.schema import SchemaPart

_SOURCED = Table(
    ENDS.name,
    MetaData(),
    Column("seq", NUMBER, primary_key=True, autoincrement=False),
    Column("first", NUMBER, nullable=False),
    Column("source", words(2 * NAME_LENGTH), nullable=False),
    Column("time", NUMBER, nullable=False),
    Column("end_at", NUMBER, nullable=False),
    Column("body", words(), nullable=False),
    Index("tidegate_ends_first", "first", unique=True),
    **OPTIONS,
)


def create(connection) -> None:
    """x began an event that y ended, and began another that is running."""
    for table in (STATE, EVENTS, REFUSALS, COUNTS, ELDERS, _SOURCED):
        table.create(connection)
    connection.execute(STATE.insert(), {"one": 1, "identity": 1, "mark": 1, "last": 3, "refused": 0, "elders": 0})
    for seq, id in ((1, "ended"), (2, "running")):
        named = {"id_part": key(id) % PARTS, "id_key": key(id), "id": id, "source": "x", "phase": "START"}
        times = {"time": seq * 1_000_000, "start_at": seq * 1_000_000, "end_at": None}
        connection.execute(
            EVENTS.insert(),
            {"seq": seq, "body": '{"start":false,"end":false,"attributes":{"kind":"storm"}}', **named, **times},
        )
    last = {
        "seq": 3,
        "first": 1,
        "source": "y",
        "time": 3_000_000,
        "end_at": 3_000_000,
        "body": '{"start":false,"end":false,"attributes":{}}',
    }
    connection.execute(_SOURCED.insert(), last)


@pytest.fixture
def old(url):
    """The address of a history that was made by the first version of the tables."""
    with closing(Database(address(url), SchemaPart("history", (create,)).prepare)) as database:
        database.open()
    return url


def part(id, source, phase, second):
    return tg.Publication(id, source, moment(second * 1_000_000), {"kind": "storm"}, phase=phase)


@pytest.mark.contract
def test_what_another_source_had_ended_stays_ended(old):
    asks = tg.Subscription("s", "ann", "kind = 'storm' AND T_AFTER(start, past(kind = 'storm'))")
    with History(old, keep=timedelta(days=1)) as history, tg.Engine([asks], history=history) as engine:
        assert [(one.source, one.end) for one in history.events()] == [("x", None), ("x", moment(3_000_000))]
        assert [n.publications for n in engine.publish([part("new", "z", "START", 4)])] == [("new",)]
        engine.publish([part("running", "y", "END", 5)])
        assert engine.refused == {"end without start": 1}
        engine.publish([part("running", "x", "END", 6)])
        assert history.event("running").end == moment(6_000_000)
        with history._database.read() as connection:
            assert "source" not in [column["name"] for column in inspect(connection).get_columns(ENDS.name)]


def test_a_step_that_was_cut_short_runs_again(old):
    History(old).close()
    with closing(Database(address(old), lambda database: None)) as database:
        database.write(lambda c: c.execute(text("UPDATE tidegate_schema_version SET version = 1")))
    with History(old) as history:
        assert len(history) == 2
