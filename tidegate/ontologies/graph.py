"""A ``Graph`` of triples, indexed both ways: the objects of a subject, and the subjects of an object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

from tidegate.ontologies.words import Rdf, Triple

__all__ = ["Graph"]

_NONE: Mapping[str, Set[str]] = {}
_NOBODY: Set[str] = frozenset()


class Graph:
    """A set of triples, indexed by predicate and then by subject and by object."""

    def __init__(self, triples: Iterable[Triple] = ()) -> None:
        self.triples: set[Triple] = set()
        self._objects: dict[str, dict[str, set[str]]] = {}
        self._subjects: dict[str, dict[str, set[str]]] = {}
        self.add(triples)

    def __len__(self) -> int:
        return len(self.triples)

    def __contains__(self, triple: Triple) -> bool:
        return triple in self.triples

    def add(self, triples: Iterable[Triple]) -> bool:
        """Add triples, and return whether one of them was new."""
        before = len(self.triples)
        for triple in triples:
            if triple not in self.triples:
                self.triples.add(triple)
                subject, predicate, object = triple
                self._objects.setdefault(predicate, {}).setdefault(subject, set()).add(object)
                self._subjects.setdefault(predicate, {}).setdefault(object, set()).add(subject)
        return len(self.triples) > before

    @property
    def predicates(self) -> Iterable[str]:
        return self._objects

    def pairs(self, predicate: str) -> Iterator[tuple[str, str]]:
        """Subject and object of every triple with that predicate."""
        return ((s, o) for s, objects in self._objects.get(predicate, _NONE).items() for o in objects)

    def objects(self, subject: str, predicate: str) -> Set[str]:
        return self._objects.get(predicate, _NONE).get(subject, _NOBODY)

    def subjects(self, predicate: str, object: str) -> Set[str]:
        return self._subjects.get(predicate, _NONE).get(object, _NOBODY)

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
