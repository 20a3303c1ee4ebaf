"""One publication as points: what the columns of an index read of it, in arrays that a thread uses again and again.

A ``Layout`` gives each column of an index a place and knows which columns read an attribute, so that a publication
costs what it has and not what subscriptions ask for. ``PublicationPoints`` is the arrays; ``Index.match`` fills them
for one publication and passes them to the kernels of ``kernels/select_one.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.select_one import NUMBER, NUMBERS, TEXT, TEXTS
from tidegate.model import RESERVED
from tidegate.predicates.column import Column, Row

__all__ = ["Layout", "PublicationPoints"]

#: Bytes of texts beyond which arrays are made anew for one publication and then dropped.
_LONG = 1 << 16


class Layout:
    """Columns and their places, which they keep: ``extended`` only adds more."""

    def __init__(self, columns: Iterable[Column] = ()) -> None:
        self.places: dict[Column, int] = {}
        self.kind = np.empty(0, np.uint8)
        self.blank = np.empty(0)
        """The points of a publication that has none of the attributes."""
        self.readers: dict[str, int | tuple[tuple[int, int, Column], ...]] = {}
        """By attribute: the place of the one column that reads it as a number; or places, kinds and columns."""
        self.fields: tuple[str, ...] = ()
        """The fields of a publication, not among its attributes, that some column reads."""
        self.compared: tuple[Column, ...] = ()
        """The columns that leave out bags that are too large."""
        self._add(columns)

    def extended(self, columns: Iterable[Column]) -> Layout:
        """A layout with these columns, too; itself if it has them all."""
        new = [column for column in dict.fromkeys(columns) if column not in self.places]
        if not new:
            return self
        layout = Layout()
        layout.places, layout.readers, layout.fields = dict(self.places), dict(self.readers), self.fields
        layout.kind, layout.blank, layout.compared = self.kind, self.blank, self.compared
        layout._add(new)
        return layout

    def places_of(self, columns: Iterable[Column]) -> NDArray[np.int64]:
        """Where the columns are."""
        return np.array([self.places[column] for column in columns], np.int64)

    def _add(self, columns: Iterable[Column]) -> None:
        kinds, blanks, fields = [], [], dict.fromkeys(self.fields)
        for column in columns:
            how, place = column.how, len(self.places)
            self.places[column] = place
            kind = (TEXTS if how.is_text else NUMBERS) if how.is_many else TEXT if how.is_text else NUMBER
            kinds.append(kind)
            blanks.append(how.of_missing)
            name = column.attributes[0]  # a column of several has no point where one of them is missing
            before = self.readers.get(name, ())
            if before == () and column.reading == "number" and column.operand == name:
                self.readers[name] = place
            else:
                several = _listed(name, before) if isinstance(before, int) else before
                self.readers[name] = (*several, (place, kind, column))
            if name in RESERVED:
                fields[name] = None
            if column.reading == "compared":
                self.compared += (column,)
        self.kind = np.append(self.kind, np.array(kinds, np.uint8))
        self.blank = np.append(self.blank, np.array(blanks, np.float64))
        self.fields = tuple(fields)


def _listed(name: str, place: int) -> tuple[tuple[int, int, Column], ...]:
    return ((place, NUMBER, Column("number", name)),)


class PublicationPoints:
    """The points of one publication on a layout, as the kernels read them.

    ``value`` has a point per column, NaN for missing; for a text the number of the text, and for a list the number of
    the list. Text t ends at ``text_end[t]`` among the letters and list l at ``list_end[l]`` among the items, where the
    next one begins.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._value = np.empty(len(layout.blank))
        self._view = self._value.data
        self._text_end, self._letters = np.zeros(64, np.int64), np.zeros(4096, np.uint8)
        self._list_end, self._list_item = np.zeros(16, np.int64), np.zeros(256)
        self.arrays = self._arrays()

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return self._value, self.layout.kind, self._text_end, self._letters, self._list_end, self._list_item

    def read(self, attributes: Mapping[str, Any], row: Row) -> None:
        """Take the points of a publication."""
        layout, value = self.layout, self._view
        self._value[:] = layout.blank
        readers = layout.readers.get
        others: list[tuple[tuple[int, int, Column], ...]] = []
        for name, given in attributes.items():
            found = readers(name)
            if isinstance(found, int):
                kind = type(given)
                if kind is float or kind is int or (isinstance(given, int | float) and kind is not bool):
                    value[found] = given
            elif found is not None:
                others.append(found)
        for name in layout.fields:
            found = layout.readers[name]
            if row.value(name) is not None:
                others.append(_listed(name, found) if isinstance(found, int) else found)
        if others:
            self._read_others(others, row)

    def _read_others(self, others: list[tuple[tuple[int, int, Column], ...]], row: Row) -> None:
        value, texts, items, ends = self._view, list[bytes](), list[float](), list[int]()
        point: Any
        for several in others:
            for place, kind, column in several:
                point = column.point(row)
                if point is None:
                    continue
                if kind == NUMBER:
                    value[place] = point
                elif kind == TEXT:
                    value[place] = len(texts)
                    texts.append(point.encode())
                else:
                    if kind == TEXTS:
                        items.extend(range(len(texts), len(texts) + len(point)))
                        texts.extend(text.encode() for text in point)
                    else:
                        items.extend(point)
                    value[place] = len(ends)
                    ends.append(len(items))
        if texts:
            self._take_texts(texts)
        if ends:
            self._take_lists(items, ends)

    def _take_texts(self, texts: list[bytes]) -> None:
        letters = b"".join(texts)
        if len(letters) > len(self._letters) or len(texts) > len(self._text_end) or len(self._letters) > _LONG:
            self._letters = np.zeros(max(4096, 2 * len(letters)), np.uint8)
            self._text_end = np.zeros(max(64, 2 * len(texts)), np.int64)
            self.arrays = self._arrays()
        self._letters[: len(letters)] = np.frombuffer(letters, np.uint8)
        end, ends = 0, self._text_end.data
        for i, text in enumerate(texts):
            end += len(text)
            ends[i] = end

    def _take_lists(self, items: list[float], ends: list[int]) -> None:
        if len(items) > len(self._list_item) or len(ends) > len(self._list_end) or len(self._list_item) > _LONG:
            self._list_item = np.zeros(max(256, 2 * len(items)))
            self._list_end = np.zeros(max(16, 2 * len(ends)), np.int64)
            self.arrays = self._arrays()
        self._list_item[: len(items)] = items
        self._list_end[: len(ends)] = ends
