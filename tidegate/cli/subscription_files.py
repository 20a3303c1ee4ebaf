"""Files of subscriptions: JSON Lines, a JSON array, CSV, or plain text with one expression per line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tidegate.cli.text_records import JSON, FilePosition, cells, extension, lines, objects, timestamp
from tidegate.errors import SubscriptionError, TidegateError, shown
from tidegate.model import Subscription

if TYPE_CHECKING:
    from tidegate.client.answers import StoredSubscription
    from tidegate.engine import Engine

__all__ = ["FIELDS", "load", "read", "record_of", "subscription", "subscriptions"]

#: The fields of a record, and what is left out where it is this.
_NEEDED = ("id", "subscriber", "where")
_DEFAULTS = {
    "active_from": None, "active_until": None, "initial": False, "fields": "all", "expired": False, "deliver": "stream"
}  # fmt: skip
FIELDS = (*_NEEDED, *_DEFAULTS)
_PLAIN = (".cql2", ".txt")
#: What a cell of CSV begins with if it is JSON, and what it is then.
_JSON_CELLS = {"where": ("{", "CQL2-JSON"), "fields": ("[", "a JSON array"), "deliver": ("{", "a JSON object")}
_TRUTH = {"true": True, "false": False}


def subscriptions(
    path: Path, subscriber: str | None = None
) -> Iterator[tuple[FilePosition, Subscription | TidegateError]]:
    """Each subscription of a file, or the error if it cannot be read, with its place.

    One that names no subscriber is of ``subscriber``, if that is given.
    """
    kind = extension(path, (*JSON, ".csv", *_PLAIN))
    found = _plain(path) if kind in _PLAIN else _rows(path) if kind == ".csv" else _objects(path)
    for place, record in found:
        if isinstance(record, TidegateError):
            yield place, record
            continue
        try:
            yield place, subscription(record if subscriber is None else {"subscriber": subscriber, **record})
        except TidegateError as error:
            yield place, error


def load(path: Path) -> Engine:
    """An engine with all subscriptions of a file; the first that cannot be taken is an error that names its place."""
    from tidegate.engine import Engine

    taken: list[FilePosition] = []  # the last is the place of the subscription that is being taken
    with _placed(taken):
        return Engine(_good(path, taken))


def read(path: Path, subscriber: str | None = None) -> list[Subscription]:
    """All subscriptions of a file; the first that cannot be read is an error that names its place.

    Those that name no subscriber are of ``subscriber``, if that is given.
    """
    taken: list[FilePosition] = []
    with _placed(taken):
        return list(_good(path, taken, subscriber))


def _good(path: Path, taken: list[FilePosition], subscriber: str | None = None) -> Iterator[Subscription]:
    for place, entry in subscriptions(path, subscriber):
        taken[:] = [place]
        if isinstance(entry, TidegateError):
            raise entry
        yield entry


@contextmanager
def _placed(taken: list[FilePosition]) -> Iterator[None]:
    try:
        yield
    except TidegateError as error:
        if taken and str(taken[0]) not in error.at:
            error.at = f"{error.at}, {taken[0]}" if error.at else str(taken[0])
        raise


def _objects(path: Path) -> Iterator[tuple[FilePosition, dict[str, Any] | TidegateError]]:
    return ((place, record) for place, record, _ in objects(path, SubscriptionError))


def _rows(path: Path) -> Iterator[tuple[FilePosition, dict[str, Any] | TidegateError]]:
    rows = cells(path, SubscriptionError)
    header: list[str] = next((row for _, row, _ in rows), [])
    for place, row, _ in rows:
        record: dict[str, Any] = {name: cell for name, cell in zip(header, row, strict=True) if cell}
        try:
            yield place, {name: _value(name, cell) for name, cell in record.items()}
        except SubscriptionError as wrong:
            wrong.at = str(place)
            yield place, wrong


def _value(name: str, cell: str) -> Any:
    """What a cell of CSV stands for."""
    if name in ("initial", "expired"):
        return _TRUTH.get(cell, cell)
    first, what = _JSON_CELLS.get(name, ("", ""))
    if not first or not cell.startswith(first):
        return cell
    try:
        return orjson.loads(cell)
    except orjson.JSONDecodeError as wrong:
        raise SubscriptionError(f"{what} as {name}", f"{shown(cell)}, where {wrong.msg}") from None


def _plain(path: Path) -> Iterator[tuple[FilePosition, dict[str, Any] | TidegateError]]:
    """One expression per line; a line that starts with # is a comment, and the line's number is the id."""
    for place, text, _ in lines(path, SubscriptionError):
        if not text.lstrip().startswith("#"):
            yield place, {"id": str(place.number), "subscriber": path.stem, "where": text}


def subscription(record: dict[str, Any]) -> Subscription:
    """The subscription that a record's fields describe."""
    for name in record:
        if name not in FIELDS:
            raise SubscriptionError(f"the fields {', '.join(FIELDS)}", shown(name))
    for name in _NEEDED:
        if name not in record:
            raise SubscriptionError(f"a field {name}", f"{', '.join(record) or 'none'}")
    given = {name: record[name] for name in _DEFAULTS if record.get(name) is not None}
    for name in ("active_from", "active_until"):
        if name in given:
            given[name] = timestamp(given[name], name, SubscriptionError)
    return Subscription(record["id"], record["subscriber"], record["where"], **given)


def record_of(subscription: Subscription | StoredSubscription) -> bytes:
    """The line of JSON Lines from which the same is made again. A broker's say nothing of their subscriber."""
    names = FIELDS if isinstance(subscription, Subscription) else [name for name in FIELDS if name != "subscriber"]
    fields = {name: getattr(subscription, name) for name in names}
    record = {name: value for name, value in fields.items() if name in _NEEDED or value != _DEFAULTS[name]}
    return orjson.dumps(record, option=orjson.OPT_UTC_Z)
