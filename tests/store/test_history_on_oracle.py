"""A history on Oracle, as far as it can be said without one: what would be sent there."""

from __future__ import annotations

from sqlalchemy.dialects import oracle
from sqlalchemy.schema import CreateIndex, CreateTable

from tests.store.remembered_events import KEY, end, first, refusal
from tidegate.store import history_reads, history_tables, history_writes


class Spoken:
    """A connection to nowhere, which words statements for a dialect."""

    def __init__(self, dialect):
        self.dialect, self.connection, self.said = dialect, self, []
        self.dbapi_connection = None

    def execute(self, statement, values=None):
        self.said.append(str(statement.compile(dialect=self.dialect)))
        return self

    def exec_driver_sql(self, statement, values):
        self.said.append(statement)
        return self

    def all(self):
        return []

    def first(self):
        return None

    def __iter__(self):
        return iter([])

    rowcount = 0


def test_oracle_has_a_word_for_everything():
    """No server is at hand: tables and statements are worded for its dialect, and not run."""
    spoken = Spoken(oracle.dialect())
    for made in history_tables.TABLES.sorted_tables:
        spoken.execute(CreateTable(made))
        for index in made.indexes:
            spoken.execute(CreateIndex(index))
    made = " ".join(spoken.said)
    assert "reason VARCHAR2(64 CHAR) NOT NULL" in made
    assert "id CLOB NOT NULL" in made
    assert "body CLOB NOT NULL" in made
    assert " TEXT" not in made
    assert history_reads.state(spoken) is None
    assert not history_writes.replaced(spoken, 7, history_tables.HistoryState(1, 2, 3, 4, 5))
    assert spoken.said[-1] == (
        "UPDATE tidegate_history SET identity = :1, mark = :2, last = :3, refused = :4, elders = :5 "
        "WHERE one = 1 AND mark = :6"
    )
    history_writes.write_events(spoken, [first(1), first(2)])
    history_writes.write_ends(spoken, [end(3, 1)])
    history_writes.write_refused(spoken, [refusal(1)], 1)
    history_writes.write_elders(spoken, [(KEY, 1, 2, 3)], 0)
    assert spoken.said[-1] == (
        'INSERT INTO tidegate_elders (key1, key2, end_at, serial, start_at, "number") VALUES (:1, :2, :3, :4, :5, :6)'
    )
    assert history_writes.forget(spoken, 1) == 0
    assert history_reads.ids(spoken, 1, 2) == {}
    assert (
        history_reads.firsts(spoken, 0, 10)
        == history_reads.ends(spoken, 0, 10)
        == history_reads.refused(spoken, 10)
        == []
    )
    assert history_reads.events(spoken, 10, 5, running=True) == []
    assert history_reads.event(spoken, "a", None) is None
    assert not history_reads.has_elder(spoken, KEY, (1, 2), (3, 4), 0)
    for statement in (history_writes.NO_ELDERS, history_reads.HOW_MANY, history_reads.HOW_MANY_REFUSED):
        spoken.execute(statement)
    assert not any("LIMIT" in statement for statement in spoken.said)
