"""The closure under OWL 2 RL: the package ``reasonable`` and the rules it lacks (``rules.py``) run in turns.

``closed`` ends when neither derives more, and raises ``OntologyError`` for an ontology that contradicts itself or from
which more follows than the budget allows.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tidegate.errors import OntologyError
from tidegate.ontologies import reasoner_process
from tidegate.ontologies.contradictions import contradictions
from tidegate.ontologies.graph import Graph, TooMuch
from tidegate.ontologies.prefixes import Prefixes
from tidegate.ontologies.rules import extend
from tidegate.ontologies.words import Owl, Rdf, Triple

if TYPE_CHECKING:
    from tidegate.ontologies.read import ParsedTriples

__all__ = ["MOST_CLOSED", "SECONDS", "STEPS", "TRIPLES_PER_SECOND", "closed"]

#: Triples that an ontology may have with all that follows from it.
MOST_CLOSED = 5_000_000
#: Steps of our own rules: triples that they read and propose.
STEPS = 30_000_000
#: Seconds of processor time for the reasoner, and triples for which it has one second more.
SECONDS, TRIPLES_PER_SECOND = 5, 2_500
#: Terms up to which everything that can follow is little.
_FEW = 64

#: Triples that always hold; added at the start, because each triple that is derived costs another turn.
_ALWAYS: tuple[Triple, ...] = ((Owl.thing, Rdf.type, Owl.klass), (Owl.nothing, Rdf.type, Owl.klass))


def closed(reading: ParsedTriples, prefixes: Prefixes) -> Graph:
    """All that follows from what files state. A contradiction is an error that says which, and in which files."""
    graph, counts = Graph(reading.triples), reading.counts
    try:
        with graph.bounded(MOST_CLOSED, STEPS):
            graph.add(_ALWAYS)
            extend(graph, counts)
            while graph.add(_derived(graph)) and extend(graph, counts):
                pass
            wrong = next(contradictions(graph, counts), None)
    except TooMuch as beyond:
        said = " and ".join(reading.sources)
        raise OntologyError("an ontology from which less follows", f"more than {beyond}", said) from None
    if wrong is not None:
        rule, sentence, terms = wrong
        told = sentence.format(*map(prefixes.shown, terms))
        raise OntologyError("an ontology without contradictions", f"{told} ({rule})", _where(reading, terms))
    return graph


def _derived(graph: Graph) -> list[Triple]:
    """What ``reasonable`` makes of the triples: in a process of its own unless there can be few in any case."""
    # Rule prp-ifp of reasonable 0.4.4 makes all subjects of an inverse functional property the same: give it none.
    told = [triple for triple in graph.triples if triple[2] != Owl.inverse_functional]
    terms = {term for triple in told for term in triple}
    with TemporaryDirectory(prefix="tidegate-") as directory:  # a file is read many times faster than objects are
        path = Path(directory) / "stated.n3"
        path.write_text("".join(f"<{s}> <{p}> <{o}> .\n" for s, p, o in told), "utf-8")
        if len(terms) <= _FEW:
            return reasoner_process.derived(path)
        return _derived_aside(path, Path(directory) / "derived.txt", SECONDS + len(told) // TRIPLES_PER_SECOND)


def _derived_aside(stated: Path, result: Path, seconds: int) -> list[Triple]:
    program = reasoner_process.__file__
    command = [sys.executable, "-P", program, str(stated), str(result), str(MOST_CLOSED), str(seconds)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode == reasoner_process.TOO_MANY:
        raise TooMuch(f"{MOST_CLOSED:,} triples with what follows from them")
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise TooMuch(f"{seconds} seconds of processor time for what follows")
    if done.returncode < 0:
        raise TooMuch(f"{reasoner_process.MEMORY >> 30} GiB of memory for what follows")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise OntologyError("a reasoner that answers", *(said or ["nothing"]))
    once: dict[str, str] = {}

    def triple(line: str) -> Triple:
        s, p, o = (once.setdefault(term, term) for term in line[:-1].split(" "))
        return s, p, o

    with result.open(encoding="utf-8", newline="\n") as lines:
        return list(map(triple, lines))


def _where(reading: ParsedTriples, terms: tuple[str, ...]) -> str:
    """The files that mention the first of the terms, for an error message."""
    about = {source for triple, source in reading.triples.items() if terms[0] in triple}
    return " and ".join(reading.sources[source] for source in sorted(about)) or reading.sources[0]
