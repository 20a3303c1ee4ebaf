"""The content of publications as JSON, encoded once for all queues that deliver it with the same attributes.

``ContentCache`` has what rows of the log say and its encodings, most recently used, up to a number of bytes. What is
shown of a delivery beside its content, and to whom, is for ``encoded_items``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from tidegate.kept_json import kept_json
from tidegate.model import micros
from tidegate.store.delivery_records import MatchedSubscription

__all__ = ["ALL", "ContentCache", "EncodedContent", "Fields", "Matched"]

#: Which attributes of a publication are shown: their names, or None for all.
Fields = frozenset[str] | None
ALL: Fields = None


class EncodedContent:
    """What one publication says, kept as JSON. ``until`` is when its validity ends, in µs since 1970."""

    __slots__ = ("_encoded", "is_lost", "nbytes", "until")

    def __init__(self, publication: dict[str, Any]) -> None:
        until = publication.get("valid_until")
        self.until = None if until is None else micros(datetime.fromisoformat(until))
        self.is_lost = bool(publication.get("lost"))
        self._encoded: dict[Fields, _Encoding] = {}
        self.nbytes = _BESIDE
        """About how many bytes it takes in memory now: more with each set of attributes that is kept."""
        self._keep(ALL, _encoding(publication))

    def _keep(self, fields: Fields, encoding: _Encoding) -> None:
        self._encoded[fields] = encoding
        self.nbytes += len(encoding.ending) + _BESIDE

    @property
    def publication(self) -> dict[str, Any]:
        """All that it says."""
        found: dict[str, Any] = orjson.loads(self.encoded(ALL))
        return found

    def encoded(self, fields: Fields) -> bytes:
        """The publication with these attributes."""
        ending, begin = self._both(fields)
        return ending[begin:-1]

    def ending(self, fields: Fields) -> bytes:
        """How an item ends that shows it: its time, the publication, and the brace."""
        return self._both(fields)[0]

    def _both(self, fields: Fields) -> _Encoding:
        found = self._encoded.get(fields)
        if found is None:
            shown = self.publication
            if fields is not None and "attributes" in shown:
                kept = {name: value for name, value in shown["attributes"].items() if name in fields}
                shown = {**shown, "attributes": kept}
            found = _encoding(shown)
            if len(self._encoded) < _MOST_FIELDS:
                self._keep(fields, found)
        return found


class _Encoding(NamedTuple):
    """How an item ends that shows a publication, and where the publication begins there."""

    ending: bytes
    begin: int


def _encoding(publication: dict[str, Any]) -> _Encoding:
    head = b',"time":%b,"publication":' % orjson.dumps(publication.get("time"))
    return _Encoding(b"%b%b}" % (head, orjson.dumps(publication)), len(head))


#: Encodings of one publication that are kept; which attributes are asked for differs between few of its subscriptions.
_MOST_FIELDS = 64
#: Bytes of objects beside the text, of a publication and of each of its encodings.
_BESIDE = 250


class ContentCache:
    """The content of rows by row, at most so many bytes of it, about."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._first = 0
        self._contents: OrderedDict[int, tuple[EncodedContent, int]] = OrderedDict()

    def get(self, row: int) -> EncodedContent | None:
        """What a row says, if it is known."""
        found = self._contents.get(row)
        if found is None:
            return None
        content, size = found
        self._contents.move_to_end(row)
        if content.nbytes != size:  # more of it was encoded since
            self._note(row, content, size)
        return content

    def put(self, row: int, content: EncodedContent) -> None:
        """Keep what a row says, unless the log has dropped it, and forget what was not used for longest."""
        if row < self._first:
            return
        self._note(row, content, 0)

    def _note(self, row: int, content: EncodedContent, before: int) -> None:
        """Note how large the content of the row used last is, which was so large before."""
        self._contents[row] = content, content.nbytes
        self._size += content.nbytes - before
        while self._size > self._most:
            _, (_, gone) = self._contents.popitem(last=False)
            self._size -= gone

    def drop_before(self, row: int) -> None:
        """Forget the rows before one: the log has dropped them."""
        if row == self._first:  # nearly always
            return
        self._first = row
        for old in [one for one in self._contents if one < row]:
            self._size -= self._contents.pop(old)[1]


class Matched(NamedTuple):
    """The subscriptions of a delivery, as all deliveries show them that name the same ones."""

    ids: bytes
    """A JSON array."""
    fields: Fields
    expired: Matched | None
    """Those of them that want what is valid no longer."""

    @staticmethod
    @lru_cache(maxsize=16_384)
    def of(meanings: tuple[bytes, ...]) -> Matched:
        """What these bytes mean."""
        every = [MatchedSubscription.unpacked(meaning) for meaning in meanings]
        some = [one for one in every if one.expired]
        expired = Matched._made(some, None) if some else None
        return Matched._made(every, expired)

    @staticmethod
    def _made(matched: Sequence[MatchedSubscription], expired: Matched | None) -> Matched:
        fields = ALL
        if not any(one.fields == "all" for one in matched):
            fields = frozenset(name for one in matched if one.fields != "none" for name in one.fields)
        return Matched(kept_json([one.id for one in matched]), fields, expired)
