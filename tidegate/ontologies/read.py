"""Files of RDF to triples: RDF/XML, Turtle, N-Triples and JSON-LD, several files as one graph. Nothing is fetched."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyoxigraph as ox

from tidegate.errors import OntologyError, SettingError, shown
from tidegate.ontologies.words import OWN, Owl, Rdf, Triple

__all__ = ["FORMATS", "MOST", "ParsedTriples", "read"]

#: The formats by name, with the endings of their files.
FORMATS = {
    "rdfxml": (ox.RdfFormat.RDF_XML, (".rdf", ".owl", ".xml")),
    "turtle": (ox.RdfFormat.TURTLE, (".ttl",)),
    "ntriples": (ox.RdfFormat.N_TRIPLES, (".nt",)),
    "jsonld": (ox.RdfFormat.JSON_LD, (".jsonld", ".json")),
}
#: Triples that an ontology may state.
MOST = 200_000

_BLANK, _LITERAL = OWN + "blank:", OWN + "literal:"


@dataclass
class ParsedTriples:
    """The triples that all files together state."""

    sources: list[str] = field(default_factory=list)
    triples: dict[Triple, int] = field(default_factory=dict)
    """Each triple with the number of the file that states it first."""
    literals: dict[ox.Literal, str] = field(default_factory=dict)
    """The term of ours that stands for each literal."""
    prefixes: dict[str, str] = field(default_factory=dict)
    """Prefixes that the files declare, for hints only."""

    @property
    def counts(self) -> dict[str, int]:
        """The whole numbers among the literals."""
        return {
            term: int(found.value)
            for found, term in self.literals.items()
            if found.value.isdecimal() and len(found.value) < 20
        }

    @property
    def missing(self) -> tuple[str, ...]:
        """Ontologies that one of the files imports and that none of the files is."""
        there: dict[str, set[int]] = {}
        for (s, p, o), source in self.triples.items():
            if (p == Rdf.type and o == Owl.ontology) or p == Owl.version:
                there.setdefault(_bare(s if p == Rdf.type else o), set()).add(source)
        wanted = {o: source for (_, p, o), source in self.triples.items() if p == Owl.imports}
        return tuple(sorted(iri for iri, source in wanted.items() if not there.get(_bare(iri), set()) - {source}))


def _bare(iri: str) -> str:
    """The IRI without # or / at its end: an ontology may call itself …/wine# and be imported as …/wine."""
    return iri.removesuffix("#").removesuffix("/")


def read(sources: Sequence[str | os.PathLike[str]], format: str | None = None) -> ParsedTriples:
    """The triples of files, each in the format of its ending unless one is given for all."""
    if format is not None and (not isinstance(format, str) or format not in FORMATS):
        raise SettingError(f"one of {', '.join(FORMATS)} as format", shown(format))
    if not sources:
        raise SettingError("the path of an ontology at least", "none")
    reading = ParsedTriples()
    for number, source in enumerate(sources):
        if not isinstance(source, str | os.PathLike):
            raise SettingError("the path of an ontology", shown(source))
        path = Path(source)
        reading.sources.append(str(path))
        for triple in _triples(path, _format(path, format), reading, number):
            reading.triples.setdefault(triple, number)
            if len(reading.triples) > MOST:
                raise OntologyError(f"an ontology of at most {MOST:,} triples", "more", str(path))
    return reading


def _format(path: Path, given: str | None) -> ox.RdfFormat:
    for name, (format, endings) in FORMATS.items():
        if name == given or (given is None and path.suffix.lower() in endings):
            return format
    known = ", ".join(ending for _, endings in FORMATS.values() for ending in endings)
    raise OntologyError(f"a file that ends in one of {known}, or its format", shown(path.name))


def _triples(path: Path, format: ox.RdfFormat, reading: ParsedTriples, number: int) -> Iterator[Triple]:
    try:
        content = path.read_bytes()
        parser = ox.parse(content, format, base_iri=path.absolute().as_uri())
        for i, quad in enumerate(parser):
            if i == 0:  # the parser drops the prefixes of RDF/XML when the root element ends
                reading.prefixes = {**parser.prefixes, **reading.prefixes}
            s, p, o = (_term(term, reading, number) for term in (quad.subject, quad.predicate, quad.object))
            yield s, p, o
    except OSError as wrong:
        raise OntologyError("a file of RDF", f"{wrong.strerror or wrong}", str(path)) from None
    except (SyntaxError, ValueError) as wrong:
        line = f", line {wrong.lineno}" if isinstance(wrong, SyntaxError) and wrong.lineno else ""
        said = wrong.msg if isinstance(wrong, SyntaxError) else str(wrong)
        raise OntologyError(f"RDF in {format.name}", said, f"{path}{line}") from None
    reading.prefixes = {**parser.prefixes, **reading.prefixes}


def _term(term: object, reading: ParsedTriples, number: int) -> str:
    if isinstance(term, ox.NamedNode):
        if term.value.startswith(OWN):
            raise ValueError(f"an IRI that begins with {OWN}, which is ours")
        return term.value
    if isinstance(term, ox.BlankNode):
        return f"{_BLANK}{number}:{term.value}"  # names of blank nodes count within their file only
    if isinstance(term, ox.Literal):
        return reading.literals.setdefault(term, f"{_LITERAL}{len(reading.literals)}")
    raise ValueError("a triple about a triple")
