"""The rows in which ``kernels/past.py`` keeps what it remembers, and the codes that stand in them.

Each name here is a column of a row (``HOLD_AT``), the width of one (``HELD``), or a code. ``patterns/past_storage.py``
makes room for the rows; nothing here knows how they are used.
"""

from __future__ import annotations

from math import inf

from tidegate.kernels.boxes import LIST

#: The phases of publications, as ``Batch.phases`` numbers them; a publication without one is a whole event.
WHOLE, STARTS, INSTANT, ENDS = 0, 1, 2, 3

#: What becomes of a publication: it is not remembered, an event begins with it, or one ends with it. Below 0 it is
#: refused.
NOT_REMEMBERED, BEGINS_EVENT, ENDS_EVENT = 0, 1, 2
#: Why a publication is refused.
END_WITHOUT_START, SECOND_START, END_BEFORE_START, START_WITH_AN_END, INSTANT_THAT_LASTS, OTHER_START = (
    -1, -2, -3, -4, -5, -6,
)  # fmt: skip
#: These reasons as users read them.
REFUSALS = {
    END_WITHOUT_START: "end without start",
    SECOND_START: "second start",
    END_BEFORE_START: "end before start",
    START_WITH_AN_END: "start with an end",
    INSTANT_THAT_LASTS: "instant that lasts",
    OTHER_START: "other start",
}

#: An atom: its relation or comparison; the columns on its left, as a number, as an instant and as the two halves of a
#: text; the recollection it asks; its limit (−1: none) and tolerance, or how many events; lists of values by kind.
OP, LEFT, OF, LIMIT, TOLERANCE, VALUE_LIST = 0, 1, 5, 6, 7, 8
ATOM = 11
#: A recollection: of which filter it is (−1: of a rule), since which version, its lists (−1: none), how many events.
FILTER, SINCE, ENDED, RUNNING, TOTAL = 0, 1, 2, 3, 4
RECOLLECTION = 5
#: A list, beyond the columns of ``kernels/boxes.py``: its recollection, its columns of values (−1: start and end), and
#: which event of the recollection its first point is.
LIST_OF, LIST_ONE, LIST_TWO, LIST_ORDINAL = LIST, LIST + 1, LIST + 2, LIST + 3
EVENT_LIST = LIST + 4
#: An event: its start, the version it appeared at, the number of its last and its first publication, its first hold
#: (−1: none), and whether it has ended.
START, VERSION, LAST_OF, FIRST_OF, HEAD, IS_OVER = 0, 1, 2, 3, 4, 5
EVENT = 6
#: Least and greatest start and end of the events of a recollection that have left memory, where there are none.
NO_ELDERS = (inf, -inf, inf, -inf)
#: A hold: the recollection, the place in its list of running events, which of its events, and the event's next hold.
HOLD_OF, HOLD_AT, HOLD_ORDINAL, HOLD_NEXT = 0, 1, 2, 3
HELD = 4
#: Marks: the last number that was given, the last that is forgotten, events and holds in use, the first free hold (−1),
#: the oldest version of all points, points that were erased, and from which number on times are known.
LAST, GONE, USED, HOLDS, FREE, FLOOR, WASTE, KNOWN = 0, 1, 2, 3, 4, 5, 6, 7
MARKS = 8
