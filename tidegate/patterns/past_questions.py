"""What the subscriptions of a shard ask about the past: their clauses, atoms and recollections, each stored once.

``Past`` gives its admissions to ``PastQuestions``, which turns their plans (``patterns/past_compile.py``) into rows of
flat arrays that ``kernels/past.py`` walks through. Knows no events, only the lists that they will stand in;
``PastStorage`` holds the events.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.kernels.past_atoms import (
    COMPARISONS,
    POINTS,
    RELATIONS,
    TEXT,
    THE_END,
    THE_EVENT,
    THE_START,
    THE_TIME,
    VALUES,
)
from tidegate.kernels.past_records import (
    ATOM,
    ENDED,
    EVENT_LIST,
    FILTER,
    LIST_OF,
    LIST_ONE,
    LIST_TWO,
    NO_ELDERS,
    OF,
    RECOLLECTION,
    RUNNING,
    TOTAL,
)
from tidegate.patterns.arrays import Arrays, Growing
from tidegate.patterns.memory import LONG_AGO, Memory
from tidegate.patterns.past_compile import Clause, Plan, planned
from tidegate.patterns.pattern import Admission
from tidegate.predicates.column import Column, column

__all__ = ["LEFT", "PastQuestions"]

#: What stands on the left of a relation and is no column, as the kernel knows it.
LEFT = {"start": THE_START, "end": THE_END, "event": THE_EVENT, "time": THE_TIME}


class PastQuestions:
    """Clauses, atoms, recollections and their lists, as flat arrays of a shard."""

    def __init__(self, arrays: Arrays, memory: Memory) -> None:
        self.memory = memory

        def rows(name: str, width: int | None = None, dtype: Any = np.int64) -> Growing:
            return arrays.get(f"past-{name}", dtype, width)

        self.rule, self.filter, self.literal_start, self.literal = map(rows, ("rule", "filter", "start", "literal"))
        self.atoms, self.atom_key = rows("atoms", ATOM), rows("atom_key", 16, np.uint8)
        self.recollections, self.key = rows("recollections", RECOLLECTION), rows("key", 16, np.uint8)
        self.elders, self.lists = rows("elders", 4, np.float64), rows("lists", EVENT_LIST)
        self.of_filter, self.clauses, self.recollection_of = map(rows, ("of_filter", "clauses", "recollection_of"))
        self.value_start, self.value_list = map(rows, ("value_start", "value_list"))

    def clear(self) -> None:
        """Remove all questions."""
        for array in (
            self.rule, self.filter, self.literal, self.atoms, self.atom_key, self.recollections, self.key, self.elders,
            self.lists,
        ):  # fmt: skip
            array.replace(array.used[:0])
        self.literal_start.replace(np.zeros(1, np.int64))
        self._arrange()

    def add(self, slots: Sequence[int], admissions: Sequence[Admission]) -> None:
        """Take the questions of new subscriptions."""
        adding = _Adding(self)
        for slot, admission in zip(slots, admissions, strict=True):
            adding.take(slot, admission)
        adding.close()
        self._arrange()

    def keep(self, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Remove what no kept subscription asks; return the new number of each recollection, −1 if it was removed."""
        live = _Live(self, kept)
        sizes = np.diff(self.literal_start.used)
        self.literal.replace(live.atom_place[self.literal.used[np.repeat(live.clauses, sizes)] >> 1] * 2
                              + (self.literal.used[np.repeat(live.clauses, sizes)] & 1))  # fmt: skip
        self.literal_start.replace(np.concatenate(([0], np.cumsum(sizes[live.clauses]))))
        rules = self.rule.used[live.clauses]
        place = np.cumsum(kept) - 1
        self.rule.replace(np.where(rules >= 0, place[np.maximum(rules, 0)], ~live.place[np.maximum(~rules, 0)]))
        self.filter.replace(self.filter.used[live.clauses])
        lists = live.recollections[self.lists.used[:, LIST_OF]]
        list_place = np.append(np.where(lists, np.cumsum(lists) - 1, -1), -1)
        recollections = self.recollections.used[live.recollections]
        for which in (ENDED, RUNNING):
            recollections[:, which] = list_place[recollections[:, which]]
        self.recollections.replace(recollections)
        self.key.replace(self.key.used[live.recollections])
        self.elders.replace(self.elders.used[live.recollections])
        rows = self.lists.used[lists]
        rows[:, LIST_OF] = live.place[rows[:, LIST_OF]]
        self.lists.replace(rows)
        atoms = self.atoms.used[live.atoms]
        atoms[:, OF] = live.place[atoms[:, OF]]
        atoms[:, ATOM - 3 :] = list_place[atoms[:, ATOM - 3 :]]
        self.atoms.replace(atoms)
        self.atom_key.replace(self.atom_key.used[live.atoms])
        self._arrange()
        return live.place

    def atom(self, plan: Plan, filters: Sequence[int], since: int) -> int:
        """The number of the atom that a plan was compiled from last, for a subscription with these filters."""
        key = np.frombuffer(_digest(_Names(plan, filters, since).atom(len(plan.atoms) - 1)), np.uint8)
        return int(np.flatnonzero((self.atom_key.used == key).all(axis=1))[0])

    def _arrange(self) -> None:
        """Lay out anew the clauses and recollection of each filter, and the lists of values of each recollection."""
        filters = self.filter.used
        self.of_filter.replace(_starts(filters, int(filters.max(initial=-1)) + 1))
        self.clauses.replace(np.argsort(filters, kind="stable"))
        plain = self.recollections.used[:, FILTER]
        of = np.full(int(plain.max(initial=-1)) + 1, -1)
        of[plain[plain >= 0]] = np.flatnonzero(plain >= 0)
        self.recollection_of.replace(of)
        lists = self.lists.used
        values = np.flatnonzero(lists[:, LIST_ONE] >= 0)
        values = values[np.argsort(lists[values, LIST_OF], kind="stable")]
        self.value_start.replace(_starts(lists[values, LIST_OF], self.recollections.length))
        self.value_list.replace(values)


def _starts(sorted_or_not: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Where each of so many numbers begins, once they are in order."""
    return np.concatenate(([0], np.cumsum(np.bincount(sorted_or_not, minlength=count))))


class _Adding:
    """Puts admissions into the arrays; atoms and recollections that several subscriptions ask for are stored once."""

    def __init__(self, asked: PastQuestions) -> None:
        self._asked = asked
        self._columns: dict[Column, int] = {}
        self._own: dict[int, int] = {}
        """The atoms of the subscription that is taken, by their numbers in its plan."""
        self._recollections = {row.tobytes(): i for i, row in enumerate(asked.key.used)}
        self._atoms = {row.tobytes(): i for i, row in enumerate(asked.atom_key.used)}
        pairs = asked.lists.used[:, [LIST_OF, LIST_ONE, LIST_TWO]].tolist()
        self._lists = {tuple(pair): i for i, pair in enumerate(pairs) if pair[1] >= 0}
        self._new_clauses: list[tuple[int, int, list[int]]] = []

    def take(self, slot: int, admission: Admission) -> None:
        """Take one subscription."""
        plan = planned(admission.form, admission.numbers)
        self._asked.memory.want(plan.columns())
        self._columns = {known: i for i, known in enumerate(self._asked.memory.columns)}
        self._own.clear()
        self._clauses(slot, plan.clauses, _Names(plan, admission.filters, admission.since))

    def close(self) -> None:
        """Write the clauses of all that were taken."""
        asked = self._asked
        asked.rule.extend(np.array([rule for rule, _, _ in self._new_clauses], np.int64))
        asked.filter.extend(np.array([f for _, f, _ in self._new_clauses], np.int64))
        asked.literal.extend(np.array([i for _, _, literals in self._new_clauses for i in literals], np.int64))
        sizes = np.array([len(literals) for _, _, literals in self._new_clauses], np.int64)
        asked.literal_start.extend(asked.literal_start.used[-1] + np.cumsum(sizes))

    def _clauses(self, rule: int, clauses: Sequence[Clause], names: _Names) -> None:
        for filter, literals in clauses:
            atoms = [2 * self._atom(i >> 1, names) + (i & 1) for i in literals]
            self._new_clauses.append((rule, names.filters[filter], atoms))

    def _recollection(self, of: int, names: _Names) -> int:
        key = _digest(names.recollection(of))
        number = self._recollections.get(key)
        if number is None:
            asked = self._asked
            number = self._recollections[key] = asked.recollections.length
            asked.key.extend(np.frombuffer(key, np.uint8)[None])
            row = [names.filters[of], LONG_AGO, -1, -1, 0] if of >= 0 else [-1, names.since, -1, -1, 0]
            asked.recollections.extend(np.array([row], np.int64))
            asked.elders.extend(np.array([NO_ELDERS]))
            if of < 0:
                self._clauses(~number, names.plan.rules[-1 - of], names)
        return number

    def _atom(self, place: int, names: _Names) -> int:
        """The number of an atom by its number in the plan."""
        if (known := self._own.get(place)) is not None:
            return known
        key, atom = _digest(names.atom(place)), names.plan.atoms[place]
        number = self._atoms.get(key)
        if number is None:
            of = self._recollection(atom.of, names)
            left_columns = atom.lefts
            lefts = [-1 if c is None else self._columns[c] for c in left_columns]
            lists = [-1, -1, -1]
            if atom.attribute is None:
                op = RELATIONS.index(atom.op) + (0 if atom.left == "event" else POINTS)
                lefts[0] = LEFT.get(atom.left, self._columns.get(column("time", atom.left), -1))
                self._remember_times(of)
            else:
                op = VALUES + COMPARISONS.index(atom.op)
                lists = self._remember_values(of, left_columns, atom.rights)
            number = self._atoms[key] = self._asked.atoms.length
            self._asked.atom_key.extend(np.frombuffer(key, np.uint8)[None])
            row = [op, *lefts, of, atom.limit, atom.tolerance, *lists]
            self._asked.atoms.extend(np.array([row], np.int64))
        self._own[place] = number
        return number

    def _remember_times(self, of: int) -> None:
        row = self._asked.recollections.used[of]
        if row[ENDED] < 0:
            row[ENDED], row[RUNNING] = self._list(of, -1, -1), self._list(of, -1, -1)

    def _remember_values(self, of: int, lefts: Sequence[Column | None], rights: Sequence[Column | None]) -> list[int]:
        """The lists of values that an atom compares with: as numbers, as instants, as texts."""
        found = []
        for kind in range(3):
            left, right = lefts[kind], rights[kind]
            if left is None or right is None:
                found.append(-1)
                continue
            other = rights[3] if kind == TEXT else None
            one, two = self._columns[right], -1 if other is None else self._columns[other]
            key = (of, one, two)
            if key not in self._lists:
                self._lists[key] = self._list(*key)
            found.append(self._lists[key])
        return found

    def _list(self, of: int, one: int, two: int) -> int:
        lists = self._asked.lists
        total = self._asked.recollections.used[of, TOTAL]
        lists.extend(np.array([[0, 0, 0, 0, of, one, two, total]], np.int64))
        return lists.length - 1


class _Names:
    """What tells the recollections and the atoms of one subscription apart, each worked out once."""

    def __init__(self, plan: Plan, filters: Sequence[int], since: int) -> None:
        self.plan, self.filters, self.since = plan, filters, since
        self._rules: dict[int, list[Any]] = {}
        self._atoms: dict[int, tuple[list[Any], str]] = {}

    def recollection(self, of: int) -> list[Any]:
        """A filter, or a rule and the version since which it sees."""
        if of >= 0:
            return [self.filters[of]]
        if of not in self._rules:
            clauses = self.plan.rules[-1 - of]
            names = [[self.filters[f], [[i & 1, self.atom(i >> 1)] for i in literals]] for f, literals in clauses]
            order = sorted(range(len(clauses)), key=[self._text(clause) for clause in clauses].__getitem__)
            self._rules[of] = [self.since, [names[i] for i in order]]
        return self._rules[of]

    def atom(self, place: int) -> list[Any]:
        """An atom by its number in the plan."""
        return self._named(place)[0]

    def _named(self, place: int) -> tuple[list[Any], str]:
        if place not in self._atoms:
            atom = self.plan.atoms[place]
            name = [*atom[:2], *atom[3:], self.recollection(atom.of)]
            self._atoms[place] = name, repr(name)
        return self._atoms[place]

    def _text(self, clause: Clause) -> str:
        """The ``repr`` of the name of a clause, by which clauses are in order."""
        literals = ", ".join(f"[{i & 1}, {self._named(i >> 1)[1]}]" for i in clause[1])
        return f"[{self.filters[clause[0]]}, [{literals}]]"


def _digest(name: list[Any]) -> bytes:
    return blake2b(orjson.dumps(name), digest_size=16).digest()


class _Live:
    """The clauses, atoms and recollections that are still asked for once some subscriptions have been removed."""

    def __init__(self, asked: PastQuestions, slots: NDArray[np.bool_]) -> None:
        rules, start, literals = asked.rule.used, asked.literal_start.used, asked.literal.used
        self.clauses = np.zeros(len(rules), np.bool_)
        self.atoms = np.zeros(asked.atoms.length, np.bool_)
        self.recollections = np.zeros(asked.recollections.length, np.bool_)
        fresh = np.flatnonzero((rules >= 0) & slots[np.maximum(rules, 0)])
        while len(fresh):
            self.clauses[fresh] = True
            for clause in fresh:
                self.atoms[literals[start[clause] : start[clause + 1]] >> 1] = True
            self.recollections[asked.atoms.used[self.atoms, OF]] = True
            wanted = (rules < 0) & self.recollections[np.where(rules < 0, ~rules, 0)]
            fresh = np.flatnonzero(wanted & ~self.clauses)
        self.atom_place = np.where(self.atoms, np.cumsum(self.atoms) - 1, -1)
        self.place = np.where(self.recollections, np.cumsum(self.recollections) - 1, -1)
