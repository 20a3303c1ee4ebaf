"""The closure under OWL 2 RL: the package ``reasonable`` and the rules it lacks (``rules.py``) run in turns.

``closed`` ends when neither derives more, and raises ``OntologyError`` for an ontology that contradicts itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tidegate.errors import OntologyError
from tidegate.ontologies.contradictions import contradictions
from tidegate.ontologies.graph import Graph
from tidegate.ontologies.prefixes import Prefixes
from tidegate.ontologies.rules import extend
from tidegate.ontologies.words import Owl, Rdf, Triple

if TYPE_CHECKING:
    from tidegate.ontologies.read import ParsedTriples

__all__ = ["closed"]


#: Triples that always hold; added at the start, because each triple that is derived costs another turn.
_ALWAYS: tuple[Triple, ...] = ((Owl.thing, Rdf.type, Owl.klass), (Owl.nothing, Rdf.type, Owl.klass))


def closed(reading: ParsedTriples, prefixes: Prefixes) -> Graph:
    """All that follows from what files state. A contradiction is an error that says which, and in which files."""
    graph, counts = Graph(reading.triples), reading.counts
    graph.add(_ALWAYS)
    extend(graph, counts)
    while graph.add(_derived(graph.triples)) and extend(graph, counts):
        pass
    for rule, sentence, terms in contradictions(graph, counts):
        told = sentence.format(*map(prefixes.shown, terms))
        raise OntologyError("an ontology without contradictions", f"{told} ({rule})", _where(reading, terms))
    return graph


def _derived(triples: Iterable[Triple]) -> list[Triple]:
    from reasonable import PyReasoner  # imports rdflib, which takes long and only ontologies need

    reasoner = PyReasoner()
    # Rule prp-ifp of reasonable 0.4.4 makes all subjects of an inverse functional property the same: give it none.
    told = (triple for triple in triples if triple[2] != Owl.inverse_functional)
    with TemporaryDirectory(prefix="tidegate-") as directory:  # a file is read many times faster than objects are
        path = Path(directory) / "stated.n3"
        path.write_text("".join(f"<{s}> <{p}> <{o}> .\n" for s, p, o in told), "utf-8")
        reasoner.load_file(str(path))
    once: dict[str, str] = {}

    def text(term: object) -> str:
        """Each term is kept once, not once per triple."""
        found = str(term)
        return once.setdefault(found, found)

    return [(text(s), text(p), text(o)) for s, p, o in reasoner.reason()]


def _where(reading: ParsedTriples, terms: tuple[str, ...]) -> str:
    """The files that mention the first of the terms, for an error message."""
    about = {source for triple, source in reading.triples.items() if terms[0] in triple}
    return " and ".join(reading.sources[source] for source in sorted(about)) or reading.sources[0]
