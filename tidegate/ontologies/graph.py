"""A ``Graph`` of triples, indexed both ways: the objects of a subject, and the subjects of an object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from itertools import islice
from math import inf

from tidegate.ontologies.words import Rdf, Triple

__all__ = ["Graph", "TooMuch"]

_NONE: Mapping[str, Set[str]] = {}
_NOBODY: Set[str] = frozenset()
_AT_ONCE = 65_536


class _OutOfSteps(Exception):
    pass


class TooMuch(Exception):
    """A budget is used up; says how much it was."""


class Graph:
    """A set of triples, indexed by predicate and then by subject and by object."""

    def __init__(self, triples: Iterable[Triple] = ()) -> None:
        self._most = self._steps = inf
        self.triples: set[Triple] = set()
        self._objects: dict[str, dict[str, set[str]]] = {}
        self._subjects: dict[str, dict[str, set[str]]] = {}
        self.add(triples)

    @contextmanager
    def bounded(self, most: int, steps: int) -> Iterator[None]:
        """Raise ``TooMuch`` inside the ``with`` block where there are more triples, or more are read or proposed."""
        self._most, self._steps = most, steps
        try:
            yield
        except _OutOfSteps:
            raise TooMuch(f"{steps:,} steps to what follows") from None
        finally:
            self._most = self._steps = inf

    def spend(self, steps: int) -> None:
        """Count steps; without ``bounded``, any number may be made."""
        self._steps -= steps
        if self._steps < 0:
            raise _OutOfSteps

    def __len__(self) -> int:
        return len(self.triples)

    def __contains__(self, triple: Triple) -> bool:
        self.spend(1)
        return triple in self.triples

    def extend(self, proposed: Iterator[Triple]) -> None:
        """Add the triples of a generator that reads the graph, so none before it has ended."""
        found = []
        while some := list(islice(proposed, _AT_ONCE)):
            self.spend(len(some))
            found += [triple for triple in some if triple not in self.triples]
            if len(found) > self._most:  # some twice, perhaps, so that the memory that is used is bounded
                found = list(set(found))
                self._check(len(found))
        self.add(found)

    def _check(self, more: int) -> None:
        if len(self.triples) + more > self._most:
            raise TooMuch(f"{self._most:,} triples with what follows from them")

    def add(self, triples: Iterable[Triple]) -> bool:
        """Add triples, and return whether one of them was new."""
        before = len(self.triples)
        for triple in triples:
            if triple not in self.triples:
                self.triples.add(triple)
                subject, predicate, object = triple
                self._objects.setdefault(predicate, {}).setdefault(subject, set()).add(object)
                self._subjects.setdefault(predicate, {}).setdefault(object, set()).add(subject)
        self._check(0)
        return len(self.triples) > before

    @property
    def predicates(self) -> Iterable[str]:
        return self._objects

    def pairs(self, predicate: str) -> Iterator[tuple[str, str]]:
        """Subject and object of every triple with that predicate."""
        return ((s, o) for s, objects in self._objects.get(predicate, _NONE).items() for o in objects)

    def objects(self, subject: str, predicate: str) -> Set[str]:
        found = self._objects.get(predicate, _NONE).get(subject, _NOBODY)
        self.spend(1 + len(found))
        return found

    def subjects(self, predicate: str, object: str) -> Set[str]:
        found = self._subjects.get(predicate, _NONE).get(object, _NOBODY)
        self.spend(1 + len(found))
        return found

    def by_subject(self, predicate: str) -> Mapping[str, Set[str]]:
        """The objects of each subject."""
        return self._objects.get(predicate, _NONE)

    def of_type(self, kind: str) -> Set[str]:
        """The subjects of that type."""
        return self.subjects(Rdf.type, kind)

    def one(self, subject: str, predicate: str) -> str | None:
        """An object, where there is one; of several, which are then the same, the first in order."""
        return min(self.objects(subject, predicate), default=None)

    def members(self, head: str) -> list[str]:
        """The members of a list; what is no list, or goes in circles, ends where it stops making sense."""
        found, seen = [], set[str]()
        while head != Rdf.nil and head not in seen:
            seen.add(head)
            member, rest = self.one(head, Rdf.first), self.one(head, Rdf.rest)
            if member is None or rest is None:
                break
            found.append(member)
            head = rest
        return found
