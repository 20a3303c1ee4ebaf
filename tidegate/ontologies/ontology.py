"""An ontology, closed: each relation of a term is a set of terms. It never changes; a new ``Ontology`` replaces it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from difflib import get_close_matches
from functools import cached_property
from itertools import count

from tidegate.extras import require
from tidegate.ontologies.closure import closed
from tidegate.ontologies.prefixes import Prefixes
from tidegate.ontologies.words import Owl, Rdf, Rdfs, is_named

__all__ = ["RELATIONS", "Ontology"]

_versions = count(1)

#: The relations, each with the kinds of term that each of its arguments may be.
RELATIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "isA": (("class",),),
    "equivalent": (("term",),),
    "moreSpecific": (("class", "property"),),
    "lessSpecific": (("class", "property"),),
    "related": (("property",), ("term",)),
}
_EQUAL = (Owl.same, Owl.equivalent_class, Owl.equivalent_property)
_BELOW = (Rdfs.sub_class, Rdfs.sub_property)


class Ontology:
    """The closure of some files. ``version`` grows from one ontology of a process to the next."""

    def __init__(
        self,
        sources: Sequence[str | os.PathLike[str]],
        prefixes: Mapping[str, str] | None = None,
        format: str | None = None,
    ) -> None:
        require("ontology", "an ontology")
        from tidegate.ontologies.read import read

        self.prefixes = Prefixes(prefixes)
        reading = read(sources, format)
        self.sources = tuple(reading.sources)
        self.stated = len(reading.triples)
        """How many triples the files have."""
        self.missing = reading.missing
        """Ontologies that the files import and that were not given: nothing is fetched."""
        self.declared = reading.prefixes
        """Prefixes that the files declare. They are used for hints in errors only, not in expressions."""
        self._graph = closed(reading, self.prefixes)
        self.version = next(_versions)

    def __len__(self) -> int:
        """How many triples the closure has."""
        return len(self._graph)

    def __repr__(self) -> str:
        return f"<Ontology {', '.join(self.sources)}: {self.stated:,} triples, {len(self):,} with what follows>"

    # --- terms ------------------------------------------------------------------------------------------------------

    @cached_property
    def _properties(self) -> set[str]:
        kinds = {o for _, o in self._graph.pairs(Rdf.type) if o.endswith("Property")}
        found = {s for kind in kinds for s in self._graph.of_type(kind)} | set(self._graph.predicates)
        return found | {term for pair in self._graph.pairs(Rdfs.sub_property) for term in pair}

    @cached_property
    def _classes(self) -> set[str]:
        found = {o for _, o in self._graph.pairs(Rdf.type)} | set(self._graph.of_type(Owl.klass))
        return found | {term for pair in self._graph.pairs(Rdfs.sub_class) for term in pair}

    @cached_property
    def _terms(self) -> set[str]:
        return {term for triple in self._graph.triples for term in triple}

    def iri(self, text: str) -> str | None:
        """The IRI that a text means; None where it has a prefix that is not declared."""
        found = self.prefixes.iri(text)
        return text if found is None and text in self._terms else found

    def has(self, iri: str, kinds: Sequence[str] = ("term",)) -> bool:
        """Whether a term of one of these kinds is known."""
        places = {"class": self._classes, "property": self._properties, "term": self._terms}
        return any(iri in places[kind] for kind in kinds)

    def near(self, text: str) -> list[str]:
        """Terms that may have been meant, by their shortest names, the likeliest first, three at most."""
        text = min(self.prefixes.names(text.strip("<>")), key=len, default=text)
        named = [self.prefixes.shown(term) for term in sorted(self._terms) if is_named(term)]
        by_case = {name.lower(): name for name in named}
        # within one namespace the prefix says nothing, so the rest is compared by itself
        rests: dict[str, str] = {}
        for name in named:
            rests.setdefault(_local(name), name)
        close = [by_case[name] for name in get_close_matches(text.lower(), by_case, n=3, cutoff=0.75)]
        close += [rests[name] for name in get_close_matches(_local(text), rests, n=3, cutoff=0.6)]
        return list(dict.fromkeys(close))[:3]

    # --- relations --------------------------------------------------------------------------------------------------

    def terms(self, relation: str, *about: str) -> frozenset[str]:
        """The terms x with ``relation(x, …about)``, as IRIs; none where the ontology knows nothing of it."""
        graph = self._graph
        last = about[-1]
        if relation == "isA":
            found: Set[str] = graph.of_type(last)
        elif relation == "equivalent":
            found = {last}.union(*(graph.subjects(word, last) | graph.objects(last, word) for word in _EQUAL))
        elif relation == "moreSpecific":
            found = set().union(*(graph.subjects(word, last) - graph.objects(last, word) for word in _BELOW))
        elif relation == "lessSpecific":
            found = set().union(*(graph.objects(last, word) - graph.subjects(word, last) for word in _BELOW))
        else:
            found = graph.subjects(about[0], last)
        return frozenset(filter(is_named, found))

    def written(self, terms: Set[str]) -> tuple[str, ...]:
        """Terms as publications may write them, in full and with every prefix, in order."""
        return tuple(sorted({text for term in terms for text in (term, *self.prefixes.names(term))}))


def _local(text: str) -> str:
    return text.strip("<>").replace("#", ":").replace("/", ":").rpartition(":")[2].lower()
