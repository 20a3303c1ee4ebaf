"""The paper's method (its §5.2 and §5.3): two tables, and a scan in code for every operator and publication.

SQL selects the events that satisfy an operator's temporal conditions or, for FILTER, the newest ``limit`` of all; then
the inner filter and the comparison are applied to one after the other, until one matches. Attributes are fetched *row
by row*, one query per event, as the paper's times suggest, or *in pages*, joined with the events. Beyond the paper, to
be fair: indexes on the event's own id, its start and its end; statements that the drivers prepare where they can; the
ontology's operator is a look into a set; equal filters of several subscribers are applied once, as in Siena's poset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from time import perf_counter
from typing import Any

from sqlalchemy import create_engine, event

from bench.papers.temporal_kbn.events import WINES, Events, Inner, Operator, Part, Wanted

__all__ = ["Scanning"]

_KEYS = {
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "postgresql": "BIGSERIAL PRIMARY KEY",
    "mariadb": "BIGINT AUTO_INCREMENT PRIMARY KEY",
}
_TABLES = (
    "CREATE TABLE publications (Id {key}, InsertedAt TIMESTAMP DEFAULT CURRENT_TIMESTAMP, StartTime BIGINT, "
    "EndTime BIGINT, NotificationId VARCHAR(64) NOT NULL)",
    "CREATE TABLE publication_attributes (Id {key}, PublicationId BIGINT NOT NULL REFERENCES publications (Id), "
    "Name VARCHAR(64) NOT NULL, Value VARCHAR(255), Type INT NOT NULL)",
)
_INDEXES = (
    "CREATE INDEX of_publication ON publication_attributes (PublicationId)",
    "CREATE INDEX by_notification ON publications (NotificationId)",
    "CREATE INDEX by_start ON publications (StartTime)",
    "CREATE INDEX by_end ON publications (EndTime)",
)
_CONDITIONS = {
    "DURING": "p.StartTime <= %s AND (p.EndTime >= %s OR p.EndTime IS NULL)",
    "AFTER": "p.EndTime < %s AND p.EndTime >= %s",
}
#: Type codes: 0 is null, 1 a string, as in the paper; the others it does not tell.
_TEXT, _LONG = 1, 2
#: Events of the first page, and by how much the next ones are larger.
_PAGE, _GROWTH = 50, 10

#: Id, the event's own id, and its attributes as they are stored.
_Row = tuple[int, str, dict[str, Any]]


class Scanning:
    """A data store and its operators on one database. Connections are pooled, as the paper's are."""

    def __init__(self, url: str, wanted: Iterable[Wanted] = (), row_by_row: bool = False) -> None:
        self._engine = create_engine(url, isolation_level="AUTOCOMMIT", pool_size=2)
        self._kind = self._engine.dialect.name
        if self._kind == "sqlite":
            event.listen(self._engine, "connect", _durable)
        self.wanted = {each.name: each for each in wanted}
        self.row_by_row = row_by_row
        #: (row of the table, seconds, whether it matched) of each operator that was applied.
        self.applied: list[tuple[str, float, bool]] = []

    def create(self) -> None:
        """The schema of §5.2.1."""
        with self._cursor() as cursor:
            for table in _TABLES:
                cursor.execute(table.format(key=_KEYS[self._kind]))
            for index in _INDEXES:
                cursor.execute(index)

    def load(self, events: Events, size: int = 50_000) -> None:
        """Whole events into empty tables. Not measured."""
        with self._cursor() as cursor:
            cursor.execute("BEGIN")
            for at in range(0, len(events), size):
                self._load(cursor, events, range(at, min(at + size, len(events))))
            if self._kind == "postgresql":  # rows came with their keys
                for table in ("publications", "publication_attributes"):
                    cursor.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(Id)) FROM {table}")
            cursor.execute("COMMIT")
            cursor.execute("ANALYZE TABLE publications" if self._kind == "mariadb" else "ANALYZE")

    def _load(self, cursor: Any, events: Events, some: range) -> None:
        times = [each[some.start : some.stop].tolist() for each in (events.start, events.end)]
        a, b = (each[some.start : some.stop].tolist() for each in (events.a, events.wine))
        rows = [(i + 1, begin, end, f"e{events.first + i}") for i, begin, end in zip(some, *times, strict=True)]
        of = [
            row
            for i, number, wine in zip(some, a, b, strict=True)
            for row in ((2 * i + 1, i + 1, "A", str(number), _LONG), (2 * i + 2, i + 1, "B", WINES[wine], _TEXT))
        ]
        for table, columns, found in (
            ("publications", "Id, StartTime, EndTime, NotificationId", rows),
            ("publication_attributes", "Id, PublicationId, Name, Value, Type", of),
        ):
            if self._kind == "postgresql":
                with cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
                    for row in found:
                        copy.write_row(row)
            elif self._kind == "mariadb":
                with NamedTemporaryFile("w", suffix=".tsv") as file:
                    file.writelines("\t".join(map(str, row)) + "\n" for row in found)
                    file.flush()
                    cursor.execute(f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE {table} ({columns})")
            else:
                places = ", ".join(["%s"] * len(found[0]))
                cursor.executemany(self._sql(f"INSERT INTO {table} ({columns}) VALUES ({places})"), found)

    # --- publications -----------------------------------------------------------------------------------------------

    def take(self, part: Part) -> set[str]:
        """The names of the rows of the table that match; then store."""
        found = set()
        for name, each in self.wanted.items():
            if isinstance(each.condition, Inner):
                matched = each.condition.passes(part.attributes)
            elif each.condition.phase not in (None, part.phase):
                matched = False
            else:
                begin = perf_counter()
                matched = self.applies(each.condition, part)
                self.applied.append((name, perf_counter() - begin, matched))
            if matched:
                found.add(name)
        self.store(part)
        return found

    def store(self, part: Part) -> None:
        """Insert an event that starts; update one that ends."""
        with self._cursor() as cursor:
            if part.phase == "END":
                cursor.execute(
                    self._sql("UPDATE publications SET EndTime = %s WHERE NotificationId = %s"), (part.time, part.id)
                )
                return
            cursor.execute("BEGIN")
            insert = "INSERT INTO publications (StartTime, NotificationId) VALUES (%s, %s) RETURNING Id"
            cursor.execute(self._sql(insert), (part.time, part.id))
            [(id,)] = cursor.fetchall()
            rows = [
                (id, name, str(value), _LONG if isinstance(value, int) else _TEXT)
                for name, value in part.attributes.items()
            ]
            insert = "INSERT INTO publication_attributes (PublicationId, Name, Value, Type) VALUES (%s, %s, %s, %s)"
            cursor.executemany(self._sql(insert), rows)
            cursor.execute("COMMIT")

    def applies(self, operator: Operator, part: Part) -> bool:
        """``hasMatchingPublication``: whether there is a stored event that the operator relates the publication to."""
        with self._cursor() as cursor:
            for _, id, attributes in self._rows(cursor, operator, part):
                if id == part.id or not operator.inner.passes(attributes):
                    continue
                if operator.kind != "FILTER" or part.attributes["A"] < attributes["A"]:
                    return True
        return False

    def _rows(self, cursor: Any, operator: Operator, part: Part) -> Iterator[_Row]:
        """The events to go through, the newest first."""
        if operator.kind != "FILTER":
            other = part.time if operator.kind == "DURING" else part.time - (operator.limit or 0)
            where = f"{_CONDITIONS[operator.kind]} AND p.NotificationId <> %s"
            return self._selected(cursor, where, (part.time, other, part.id), None)
        assert operator.limit is not None
        return self._selected(cursor, None, (), operator.limit) if self.row_by_row else self._paged(cursor, operator)

    def _selected(self, cursor: Any, where: str | None, given: tuple[Any, ...], limit: int | None) -> Iterator[_Row]:
        clauses = f"{f' WHERE {where}' if where else ''} ORDER BY p.Id DESC{f' LIMIT {limit}' if limit else ''}"
        if not self.row_by_row:
            yield from self._joined(cursor, f"SELECT p.Id, p.NotificationId FROM publications p{clauses}", given)
            return
        cursor.execute(self._sql(f"SELECT p.Id, p.NotificationId FROM publications p{clauses}"), given)
        of = self._sql("SELECT Name, Value, Type FROM publication_attributes WHERE PublicationId = %s")
        for id, name in cursor.fetchall():
            cursor.execute(of, (id,))
            yield id, name, dict(map(_attribute, cursor.fetchall()))

    def _paged(self, cursor: Any, operator: Operator) -> Iterator[_Row]:
        last, left, page = None, operator.limit or 0, _PAGE
        while left > 0:
            size = min(left, page)
            before = "" if last is None else " WHERE Id < %s"
            select = f"SELECT Id, NotificationId FROM publications{before} ORDER BY Id DESC LIMIT {size}"
            found = 0
            for row in self._joined(cursor, select, () if last is None else (last,)):
                last, found = row[0], found + 1
                yield row
            if found < size:
                return
            left, page = left - size, page * _GROWTH

    def _joined(self, cursor: Any, select: str, given: tuple[Any, ...]) -> Iterator[_Row]:
        """Events with their attributes, in one query. Every event has some."""
        joined = (
            f"SELECT e.Id, e.NotificationId, a.Name, a.Value, a.Type FROM ({select}) e "
            "JOIN publication_attributes a ON a.PublicationId = e.Id ORDER BY e.Id DESC"
        )
        cursor.execute(self._sql(joined), given)
        now, id = None, ""
        attributes: dict[str, Any] = {}
        for number, name, *attribute in cursor.fetchall():
            if number != now:
                if now is not None:
                    yield now, id, attributes
                now, id, attributes = number, name, {}
            key, value = _attribute(attribute)
            attributes[key] = value
        if now is not None:
            yield now, id, attributes

    # --- connections ------------------------------------------------------------------------------------------------

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        connection = self._engine.raw_connection()
        try:
            yield connection.cursor()
        finally:
            connection.close()  # back to the pool

    def _sql(self, text: str) -> str:
        return text.replace("%s", "?") if self._kind == "sqlite" else text

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _attribute(stored: Any) -> tuple[str, Any]:
    name, value, code = stored
    return name, int(value) if code == _LONG else value


def _durable(connection: Any, _: object) -> None:
    """As our own stores are: a write-ahead log that is on disk when a transaction ends."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -65536")
