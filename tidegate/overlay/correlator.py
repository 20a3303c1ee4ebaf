"""``Correlator``: the readings that a node holds, and which of them its operators want.

It keeps the arrays that the kernels of ``kernels.correlate`` work on; ``CorrelationRouting`` has one per node. It knows
operators by key, and those who want them, their *owners*, by number, but not whether an owner is a neighbour or the
users at this node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.correlate import HeldReadings, NewReading, OperatorTables, ask, expire, take
from tidegate.overlay.announcements import Announcements
from tidegate.overlay.messages import Reading
from tidegate.overlay.operators import Operator

__all__ = ["NOBODY", "Correlator", "Key"]

#: The origin of readings that go to all owners.
NOBODY = -1

Array = NDArray[Any]
#: The owner's name, the operator's id, and which of the joins that stand for the operator.
Key = tuple[str, str, int]


class Correlator:
    """Readings by sensor in order of time, and operators by key.

    A reading never goes to an owner in whose direction its sensor lies, unless ``returns``. Methods that change
    owners, operators or sensors mark the arrays as stale, and the next reading has ``_arrange`` make them anew.
    """

    def __init__(self, announced: Announcements, validity: int, returns: bool = False) -> None:
        self._announced, self._validity, self._returns = announced, validity, returns
        self._once: list[bool] = []
        self._holds: list[bool] = []
        self._free: list[int] = []
        self._operators: dict[Key, tuple[int, Operator]] = {}
        self._decided: dict[Key, frozenset[str]] = {}
        self._keys: list[Key] = []
        self._row: dict[str, int] = {}
        self._readings: dict[int, Reading] = {}
        self._held: set[tuple[str, str]] = set()
        self._number = 0
        self._swept = 0
        self._room = 4
        self._stored = HeldReadings(
            time=np.empty((0, self._room), np.int64),
            value=np.empty((0, self._room), np.float64),
            serial=np.empty((0, self._room), np.int64),
            size=np.empty(0, np.int64),
            lon=np.empty(0),
            lat=np.empty(0),
            unsent=np.empty((0, 0), np.int64),
            sent=np.empty((0, self._room, 0), np.bool_),
            told=np.empty((0, self._room), np.bool_),
        )
        self._members: dict[tuple[Key, int, int], int] = {}
        self._stale = True
        self._out = np.empty(64, np.int64), np.empty(64, np.int64)
        self.compared = 0

    @property
    def _size(self) -> NDArray[np.int64]:
        """How many readings of each sensor are held."""
        return self._stored.size

    def __len__(self) -> int:
        """Readings held."""
        return int(self._size.sum())

    # --- owners, sensors and operators ------------------------------------------------------------------------------

    def add_owner(self, once: bool, holds: bool) -> int:
        """Add an owner; its number.

        ``once``: it gets a reading once, whichever of its operators wants it, not once for each of them. ``holds``: it
        keeps readings itself, and for a new operator needs only those that it did not get for another.
        """
        self._stale = True
        if self._free:
            number = self._free.pop()
            self._once[number], self._holds[number] = once, holds
            return number
        self._once.append(once)
        self._holds.append(holds)
        return len(self._once) - 1

    def remove_owner(self, number: int) -> None:
        """Remove an owner whose operators are removed too. The next owner gets its number, and has no readings yet."""
        self._free.append(number)
        if number < self._stored.unsent.shape[1]:
            self._stored.sent[:, :, number] = False
            self._stored.unsent[:, number] = self._size

    def add(self, key: Key, owner: int, operator: Operator) -> None:
        """Add an operator of an owner."""
        self._operators[key] = owner, operator
        self._stale = True

    def remove(self, key: Key) -> None:
        """Remove an operator that is no longer wanted."""
        del self._operators[key]
        self._decided.pop(key, None)
        self._stale = True

    def decide_elsewhere(self, key: Key, neighbours: frozenset[str]) -> bool:
        """From now on an operator of two parts does not match readings from one of these neighbours with each other:
        the neighbour does. Whether it matches any that it did not match before.
        """
        before = self._decided.get(key, frozenset())
        if neighbours == before:
            return False
        self._decided[key] = neighbours
        self._stale = True
        return not before <= neighbours

    def changed(self) -> None:
        """Note that sensors came or went: which operators a reading is matched with must be found anew."""
        self._stale = True

    # --- readings ---------------------------------------------------------------------------------------------------

    def __contains__(self, reading: Reading) -> bool:
        """Whether a reading is held. Its id is unique only among the readings of its sensor."""
        return (reading.source, reading.id) in self._held

    def take(self, reading: Reading, origin: int, now: int) -> list[tuple[Key, Reading]]:
        """Hold a reading; the readings that are wanted because of it, each with the key of the operator that wants it.

        For an owner that gets each reading once the key is that of any one of its operators.
        """
        if reading.time < now - self._validity:
            return []
        if reading.source not in self._row:
            self._row[reading.source] = len(self._row)
            self._stale = True
        if self._stale:
            self._arrange()
        row = self._row[reading.source]
        if abs(now - self._swept) > self._validity // 2:
            self._swept = now
            self._forget(range(len(self._size)), now - self._validity)
        if self._size[row] == self._room:
            self._widen()
        number = self._number
        self._number += 1
        self._readings[number] = reading
        self._held.add((reading.source, reading.id))
        new = NewReading(row, origin, reading.time, reading.value, number)
        ops, serials, n, compared = take(
            new, now - self._validity, self._stored, self._tables, self._is_once, *self._out
        )
        self.compared += compared
        return self._found(ops, serials, n)

    def ask(self, key: Key, now: int, again: bool = False) -> list[tuple[Key, Reading]]:
        """The readings among those held that a new operator wants; with ``again`` also those that its owner has."""
        if not self._readings:
            return []
        if self._stale:
            self._arrange()
        limit = now - self._validity
        has_own = self._is_nobody if again else self._is_holding
        return self._found(*ask(self._position[key], limit, self._stored, self._tables, has_own, *self._out))

    def forget(self, source: str) -> None:
        """Drop all readings of a sensor that has gone."""
        self._stale = True
        row = self._row.get(source)
        if row is not None and self._size[row]:
            self._forget([row], int(self._stored.time[row, self._size[row] - 1]) + 1)

    def _found(self, ops: Array, serials: Array, n: int) -> list[tuple[Key, Reading]]:
        self._out = ops, serials
        if not n:
            return []
        keys, readings = self._keys, self._readings
        return [(keys[o], readings[s]) for o, s in zip(ops[:n].tolist(), serials[:n].tolist(), strict=True)]

    def _forget(self, rows: Iterable[int], limit: int) -> None:
        """Drop the readings of some sensors that are older than the limit."""
        gone = sum(expire(row, limit, self._stored, self._tables) for row in rows)
        if gone:
            held = {int(n) for row, size in enumerate(self._size) for n in self._stored.serial[row, :size]}
            self._readings = {number: reading for number, reading in self._readings.items() if number in held}
            self._held = {(reading.source, reading.id) for reading in self._readings.values()}

    def _widen(self) -> None:
        """Double the room for readings of each sensor."""
        more = ((0, 0), (0, self._room))
        stored = self._stored
        longer = {name: np.pad(getattr(stored, name), more) for name in ("time", "value", "serial", "told")}
        self._stored = stored._replace(sent=np.pad(stored.sent, (*more, (0, 0))), **longer)
        self._room *= 2

    # --- arrangement ------------------------------------------------------------------------------------------------

    def _arrange(self) -> None:
        """Make the tables of the kernels anew for the operators, owners and sensors that there are now."""
        self._drop_rows()
        rows = self._row
        before, told = self._members, self._stored.told
        self._keys, self._members = list(self._operators), {}
        self._position = {key: o for o, key in enumerate(self._keys)}
        member_row: list[int] = []
        part_member, part_op, op_part = [0], [], [0]
        sides, emits, groups = [], [], list[int]()
        for o, (key, (_, operator)) in enumerate(self._operators.items()):
            decided = {name: number for number, name in enumerate(sorted(self._decided.get(key, ())))}
            for i, part in enumerate(operator.parts):
                for found in self._announced.addressed(part):
                    if not self._returns and key[0] and self._announced.direction(found.source) == key[0]:
                        continue
                    row = rows.setdefault(found.source, len(rows))
                    self._members[key, i, row] = len(member_row)
                    member_row.append(row)
                    groups.append(decided.get(self._announced.direction(found.source) or "", -1) if decided else -1)
                part_member.append(len(member_row))
                part_op.append(o)
                sides.append((part.low, part.high))
                emits.append(operator.main is None or operator.main == i)
            op_part.append(len(part_op))
        self._add_rows()
        wanted = self._operators.values()
        self._stored = self._stored._replace(told=np.zeros((len(member_row), self._room), np.bool_))
        for member, m in self._members.items():
            if (old := before.get(member)) is not None:
                self._stored.told[m] = told[old]
        of_member, first_member = np.array(member_row, np.int64), np.array(part_member, np.int64)
        counts = np.bincount(of_member, minlength=len(self._row))
        self._tables = OperatorTables(
            row_start=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            row_member=np.argsort(of_member, kind="stable"),
            member_row=of_member,
            member_part=np.repeat(np.arange(len(part_op)), np.diff(first_member)),
            part_member=first_member,
            part_op=np.array(part_op, np.int64),
            low=np.array([low for low, _ in sides], np.float64),
            high=np.array([high for _, high in sides], np.float64),
            emits=np.array(emits, np.bool_),
            op_part=np.array(op_part, np.int64),
            owner=np.array([owner for owner, _ in wanted], np.int64),
            window=np.array([operator.window for _, operator in wanted], np.int64),
            near=np.array([inf if operator.near is None else operator.near for _, operator in wanted], np.float64),
            member_group=np.array(groups, np.int64),
            parted=np.array([bool(self._decided.get(key)) for key in self._keys], np.bool_),
        )
        self._is_once, self._is_holding = np.array(self._once, np.bool_), np.array(self._holds, np.bool_)
        self._is_nobody = np.zeros(len(self._holds), np.bool_)
        self._stale = False

    def _drop_rows(self) -> None:
        """Give up the rows of sensors that have gone, once they are many."""
        made = len(self._size)
        kept = {
            source: row
            for source, row in self._row.items()
            if row >= made or self._size[row] or self._announced.get(source) is not None
        }
        if len(self._row) < 2 * len(kept) + 64:
            return
        new = {row: i for i, row in enumerate(sorted(kept.values()))}
        rows = [row for row in new if row < made]
        by_row = ("time", "value", "serial", "size", "sent", "unsent")
        self._stored = self._stored._replace(**{name: getattr(self._stored, name)[rows] for name in by_row})
        self._members = {(key, i, new[row]): m for (key, i, row), m in self._members.items() if row in new}
        self._row = {source: new[row] for source, row in kept.items()}

    def _add_rows(self) -> None:
        """Add rows for new sensors and columns for new owners; take the locations of sensors, which may have moved."""
        time, value, serial, size, _, _, unsent, sent, told = self._stored
        rows, owners = len(self._row) - len(size), len(self._once) - unsent.shape[1]
        if rows:
            more = ((0, rows), (0, 0))
            time, value, serial = np.pad(time, more), np.pad(value, more), np.pad(serial, more)
            size = np.pad(size, (0, rows))
        if rows or owners:
            unsent = np.pad(unsent, ((0, rows), (0, owners)))
            sent = np.pad(sent, ((0, rows), (0, 0), (0, owners)))
            if owners:
                unsent[:, -owners:] = size[:, None]
        places = [self._place(source) for source in self._row]
        lon, lat = (np.array([place[i] for place in places], np.float64) for i in (0, 1))
        self._stored = HeldReadings(time, value, serial, size, lon, lat, unsent, sent, told)

    def _place(self, source: str) -> Sequence[float]:
        known = self._announced.get(source)
        return (nan, nan) if known is None or known.location is None else known.location
