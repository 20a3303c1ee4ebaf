"""Which remembered event decides a condition on the past, or why none does: ``Past.reason`` in obvious steps.

``PastReading`` reads the lists of ``PastStorage`` point by point, as ``kernels/past.py`` finds them through boxes. It
changes nothing. Points have no names: the id of an event is known while its publication is still in memory, or from a
history.
"""

from __future__ import annotations

from math import inf, isnan, nan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.boxes import COUNT, FIRST, LOW, NUMBER, ONE, TWO
from tidegate.kernels.boxes import VERSION as SEEN_AT
from tidegate.kernels.hash_table import spot_of
from tidegate.kernels.identity import event_hashes
from tidegate.kernels.past_atoms import (
    TEXT,
    THE_END,
    THE_EVENT,
    THE_START,
    THE_TIME,
    TIME,
    VALUES,
    rectangles_of,
    value_rectangles,
)  # fmt: skip
from tidegate.kernels.past_records import (
    END_BEFORE_START,
    END_WITHOUT_START,
    ENDED,
    ENDS,
    FILTER,
    FIRST_OF,
    FLOOR,
    GONE,
    HEAD,
    HOLD_AT,
    HOLD_NEXT,
    HOLD_OF,
    HOLD_ORDINAL,
    INSTANT,
    INSTANT_THAT_LASTS,
    IS_OVER,
    KNOWN,
    LAST,
    LAST_OF,
    LEFT,
    LIMIT,
    LIST_ORDINAL,
    OF,
    OP,
    OTHER_START,
    REFUSALS,
    RUNNING,
    SECOND_START,
    START,
    START_WITH_AN_END,
    STARTS,
    TOLERANCE,
    VALUE_LIST,
    VERSION,
)  # fmt: skip
from tidegate.patterns.reason import Coming, Reason, lasting, number, when

if TYPE_CHECKING:
    from tidegate.patterns.past import Past

__all__ = ["PastReading"]


class PublishedEvent(NamedTuple):
    """What a publication tells of its event: start and end as it brings them, those of the event, which of the shard's
    events it is (−1: none), and why it is refused, if it is.
    """

    start: float
    end: float
    own_start: float
    own_end: float
    event: int
    refusal: int


class PastReading:
    """The past as one subscription sees it when a publication comes."""

    def __init__(self, past: Past, slot: int, coming: Coming) -> None:
        self._past, self._slot, self._coming = past, slot, coming
        self._asked, self._stored, self._memory = past.asked, past.storage, past.memory
        self._marks = past.storage.marks.used
        since = int(past.since.used[slot])
        self._since = -inf if since <= self._marks[FLOOR] else float(since)
        self._gone = self._forgotten()
        self._published = self._read()
        self._hidden = self._own_points()

    # --- the publication --------------------------------------------------------------------------------------------

    def _forgotten(self) -> int:
        """The number up to which publications are forgotten when the publication comes."""
        gone, last, known = (int(self._marks[mark]) for mark in (GONE, LAST, KNOWN))
        times = self._stored.when.used[gone + 1 - known : last + 1 - known]
        kept = np.flatnonzero(times >= self._coming.time - self._coming.keep)
        gone = gone + int(kept[0]) if len(kept) else last
        return max(gone, last - self._coming.most)

    def _read(self) -> PublishedEvent:
        """What the publication tells of its event, by the table of phases in the language page."""
        arrival, stored = self._coming.arrival, self._stored
        start, end = (float(arrival.values[0, column]) for column in self._past.times())
        ids = event_hashes(arrival.offsets, arrival.letters, arrival.source)
        event = int(stored.table.used[spot_of(stored.table.used, 0, *ids[0], stored.zeros, stored.ids.data)])
        row = stored.events.used[event] if event >= 0 else None
        is_known = row is not None and (row[IS_OVER] == 0 or row[LAST_OF] > self._gone)
        time, phase = float(self._coming.time), int(arrival.phase[0])
        if phase == STARTS:
            refusal = SECOND_START if is_known else 0 if isnan(end) else START_WITH_AN_END
            return PublishedEvent(time if isnan(start) else start, end, nan, nan, event, refusal)
        if phase == ENDS:
            end = time if isnan(end) else end
            if row is None or not is_known or row[IS_OVER]:
                return PublishedEvent(start, end, nan, end, -1, END_WITHOUT_START)
            own = float(row[START])
            refusal = END_BEFORE_START if end < own else OTHER_START if not isnan(start) and start != own else 0
            return PublishedEvent(start, end, own, end, event, refusal)
        start = end if isnan(start) else start
        start = time if isnan(start) else start
        end = start if isnan(end) else end
        refusal = 0
        if phase == INSTANT:
            refusal = SECOND_START if is_known else INSTANT_THAT_LASTS if start != end else 0
        return PublishedEvent(start, end, start, end, -1, refusal)

    @property
    def refusal(self) -> str | None:
        """Why no condition with ``past`` of the subscription sees the publication; None if they do."""
        if self._published.refusal:
            return f"it is refused: {REFUSALS[self._published.refusal]}"
        is_end, events = self._coming.arrival.phase[0] == ENDS, self._stored.events.used
        if is_end and events[self._published.event, VERSION] < self._past.since.used[self._slot]:
            return "its event began before the subscription was made"
        return None

    def _own_points(self) -> set[int]:
        """The points of the running event that the publication ends: no event matches itself."""
        found: set[int] = set()
        if self._published.event < 0 or self._published.refusal or self._coming.arrival.phase[0] != ENDS:
            return found
        asked, lists = self._asked, self._asked.lists.used
        hold = int(self._stored.events.used[self._published.event, HEAD])
        while hold >= 0:
            row = self._stored.holds.used[hold]
            if row[HOLD_AT] >= 0:
                found.add(int(lists[asked.recollections.used[row[HOLD_OF], RUNNING], FIRST] + row[HOLD_AT]))
            for at in asked.value_list.used[slice(*asked.value_start.used[row[HOLD_OF] : row[HOLD_OF] + 2])]:
                found.add(int(lists[at, FIRST] + row[HOLD_ORDINAL] - lists[at, LIST_ORDINAL]))
            hold = int(row[HOLD_NEXT])
        return found

    # --- the atom ---------------------------------------------------------------------------------------------------

    def reason(self, atom: int) -> Reason:
        """Whether an atom holds, and which event decides."""
        row = self._asked.atoms.used[atom]
        if self.refusal is not None:
            return Reason(self.refusal, {"event": None}, False)
        return self._compared(row) if row[OP] >= VALUES else self._related(atom, row)

    def _related(self, atom: int, row: NDArray[np.int64]) -> Reason:
        start, end = self._left(row)
        if isnan(start) or isnan(end):
            name = _LEFT.get(int(row[LEFT]))
            return Reason(f"{name} is missing; {_NEITHER}" if name else _NEITHER, {"event": None}, False)
        ended, running = (int(self._asked.recollections.used[row[OF], which]) for which in (ENDED, RUNNING))
        points = np.concatenate((self._points(ended, self._gone), self._points(running, -1)))
        points = points[~np.isin(points, list(self._hidden))]
        facts: dict[str, Any] = {"left": [when(start), when(end)], "remembered": len(points)}
        rectangles = self._rectangles(row, start, end, int(row[LIMIT]))
        if (place := self._newest(points, rectangles)) >= 0:
            event = self._event(place, row)
            found = Reason(f"{_named(event)} decides", {**facts, "event": event}, True)
        elif self._is_elder(atom, row, rectangles):
            found = Reason("an event that only the history has decides", {**facts, "event": {}}, True)
        else:
            found = self._unrelated(points, row, start, end, {**facts, "event": None})
        return found._replace(text=f"{_left_named(int(row[LEFT]), start, end)}{found.text}")

    def _unrelated(
        self, points: NDArray[np.int64], row: NDArray[np.int64], start: float, end: float, facts: dict[str, Any]
    ) -> Reason:
        """Why no event is so related."""
        if not len(points):
            return Reason("no event is remembered", facts, False, is_false=True)
        if row[LIMIT] >= 0 and (place := self._newest(points, self._rectangles(row, start, end, -1))) >= 0:
            event = self._event(place, row)
            text = f"no event within the limit of {lasting(int(row[LIMIT]))}; {_named(event)} ended before"
            return Reason(text, {**facts, "beyond_limit": event}, False, is_false=True)
        last = self._event(int(points[np.argmax(self._stored.pool.used[points, NUMBER])]), row)
        text = f"{len(points)} remembered, none so related; the last is {_named(last)}"
        return Reason(text, {**facts, "last": last}, False, is_false=True)

    def _compared(self, row: NDArray[np.int64]) -> Reason:
        values = self._coming.arrival.values[0]
        for kind in range(3):
            at = int(row[VALUE_LIST + kind])
            if at < 0 or isnan(values[row[LEFT + kind]]):
                continue
            other = values[row[LEFT + 3]] if kind == TEXT else nan
            rectangles = np.empty((4, 4))
            count = value_rectangles(int(row[OP]) - VALUES, values[row[LEFT + kind]], other, rectangles)
            points = self._points(at, self._gone, int(row[LIMIT]))
            facts: dict[str, Any] = {"remembered": len(points)}
            if (place := self._newest(points, rectangles[:count])) >= 0:
                event = self._event(place, row, kind)
                return Reason(f"{_named(event)} decides", {**facts, "event": event}, True)
            none = (
                f"none of the last {len(points)} events has such a value" if len(points) else "no event is remembered"
            )
            return Reason(none, {**facts, "event": None}, False, is_false=True)
        return Reason(_NEITHER, {"event": None}, False)

    def _left(self, row: NDArray[np.int64]) -> tuple[float, float]:
        """Start and end of what is on the left of a relation; NaN where it is missing."""
        own, left = self._published, int(row[LEFT])
        if left == THE_EVENT:
            return own.own_start, own.own_end
        instants = {THE_START: own.start, THE_END: own.end, THE_TIME: float(self._coming.time)}
        found = instants[left] if left in instants else float(self._coming.arrival.values[0, left])
        return found, found

    def _rectangles(self, row: NDArray[np.int64], start: float, end: float, limit: int) -> NDArray[np.float64]:
        found = np.empty((4, 4))
        count = rectangles_of(int(row[OP]), start, end, limit, int(row[TOLERANCE]), found)
        return found[:count]

    # --- events -----------------------------------------------------------------------------------------------------

    def _points(self, at: int, gone: int, most: int | None = None) -> NDArray[np.int64]:
        """The places of the points of a list that are not forgotten and are the subscription's own, the last ones."""
        first, count, low = (int(self._asked.lists.used[at, i]) for i in (FIRST, COUNT, LOW))
        places = np.arange(first + low, first + count)
        pool = self._stored.pool.used[places]
        places = places[(pool[:, NUMBER] > gone) & (pool[:, SEEN_AT] >= self._since)]
        if most is not None:
            return places[max(0, len(places) - most) :]
        is_erased: NDArray[np.bool_] = np.isnan(self._stored.pool.used[places, ONE])  # running ones that have ended
        return places[~is_erased]

    def _newest(self, places: NDArray[np.int64], rectangles: NDArray[np.float64]) -> int:
        """The place of the newest point in one of the rectangles; −1 if there is none."""
        pool = self._stored.pool.used[places]
        one, two = pool[:, ONE, None], pool[:, TWO, None]
        a, b, c, d = rectangles.T
        fits = ((a <= one) & (one <= b) & (c <= two) & (two <= d)).any(axis=1)
        for i in np.flatnonzero(fits)[np.argsort(-pool[fits, NUMBER], kind="stable")].tolist():
            if int(places[i]) not in self._hidden:
                return int(places[i])
        return -1

    def _is_elder(self, atom: int, row: NDArray[np.int64], rectangles: NDArray[np.float64]) -> bool:
        """Whether an event that has left memory fulfils the atom; asks the history."""
        least_start, most_start, least_end, most_end = self._asked.elders.used[row[OF]]
        a, b, c, d = rectangles.T
        may_be = (least_start <= b) & (most_start >= a) & (least_end <= d) & (most_end >= c)
        return bool(may_be.any()) and self._past.is_elder(atom, rectangles)

    def _event(self, place: int, row: NDArray[np.int64], kind: int | None = None) -> dict[str, Any]:
        """What is known of the event of a point; of a compared value, the value too."""
        one, two, _, _, given = self._stored.pool.used[place].tolist()
        since_known = int(given) - int(self._marks[KNOWN])
        time = int(self._stored.when.used[since_known]) if since_known >= 0 else None  # of a running event, too old
        id, source = self._names(int(given), place, int(row[OF]), time)
        facts: dict[str, Any] = {"id": id, "source": source, "time": None if time is None else when(time)}
        if kind is None:
            return {**facts, "start": when(one), "end": None if two == inf else when(two)}
        if kind == TEXT:
            return facts
        return {**facts, "value": when(one) if kind == TIME else one}

    def _names(self, given: int, place: int, of: int, time: int | None) -> tuple[str | None, str | None]:
        """The id and the source of a remembered publication, as far as they are known."""
        if self._past.named is not None and (found := self._past.named(given)) is not None:
            return found
        if time is None:
            return None, None
        memory = self._memory
        events = self._stored.events.used
        own = np.flatnonzero((events[:, LAST_OF] == given) | (events[:, FIRST_OF] == given))
        items = np.flatnonzero(memory.time.used == time)
        if len(own):
            hashes = event_hashes(*memory.texts(items), memory.source.data[items])
            items = items[(hashes == self._stored.ids.used[own[0]]).all(axis=1)]
        else:
            items = items[memory.version.data[items] == self._stored.pool.used[place, SEEN_AT]]
            filter = int(self._asked.recollections.used[of, FILTER])
            if filter >= 0:
                items = np.intersect1d(items, memory.pair_item.used[memory.pair_filter.used == filter])
        ids = set(memory.texts(items).listed())
        return (ids.pop() if len(ids) == 1 else None), None


#: What stands on the left of a relation and is no attribute, by its number.
_LEFT = {THE_START: "start", THE_END: "end", THE_EVENT: "event", THE_TIME: "time"}
_NEITHER = "so neither this nor its negation holds"


def _left_named(left: int, start: float, end: float) -> str:
    """What is on the left of a relation, unless it is an attribute, whose value is shown anyway."""
    if left == THE_EVENT:
        return f"event is {when(start)} to {when(end)}; "
    return f"{_LEFT[left]} is {when(start)}; " if left in _LEFT else ""


def _named(event: dict[str, Any]) -> str:
    """An event as a sentence names it."""
    name = event["id"] or "an event"
    if event["source"] is not None:
        name = f"{name} of {event['source']}"
    if "start" in event:
        start, end = event["start"], event["end"]
        until = " and running" if end is None else "" if end == start else f" to {end}"
        return f"{name} ({start}{until})"
    value = event.get("value")
    with_value = "" if value is None else f"{value if isinstance(value, str) else number(value)}, "
    return f"{name} ({with_value}remembered at {event['time']})"
