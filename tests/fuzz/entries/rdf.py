"""Files of RDF: read, and now and then closed."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from random import Random
from zlib import crc32

import pyoxigraph as ox

from tests.fuzz.entry_point import ACCEPTED, Clock, EntryPoint, WrongAnswer
from tests.fuzz.mutations import mutated_bytes, mutated_tokens
from tidegate.ontologies.ontology import Ontology
from tidegate.ontologies.read import read

_WINE = Path(__file__).parents[2] / "ontologies" / "wine.ttl"
_TOKEN = re.compile(r'<[^>\s]*>?|"[^"\n]*"?|@?[\w:-]+|\s+|.', re.S)
_TOKENS = [
    *(".", ";", ",", "[", "]", "(", ")", "a", ":Wine", ":Red"),
    *(":hasColor", "owl:sameAs", "owl:Class", "rdfs:subClassOf"),
    *("owl:TransitiveProperty", "owl:FunctionalProperty"),
    *("owl:disjointWith", "owl:inverseOf", "_:x", '"x"@en', "1.5", "<>"),
    *("owl:equivalentClass", "rdf:type", "owl:hasKey"),
    *("owl:propertyChainAxiom", "owl:Nothing", "owl:differentFrom", "é"),
]
#: One in so many is closed, which takes a hundred times as long as reading.
_CLOSED = 8


class Rdf(EntryPoint):
    name = "rdf"
    suffix = ".ttl"

    @cached_property
    def _statements(self) -> tuple[str, list[str]]:
        text = _WINE.read_text("utf-8")
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        head = "\n".join(line for line in lines if line.startswith("@prefix")) + "\n"
        head += "@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .\n"
        return head, [line for line in lines if not line.startswith("@prefix")]

    def seeds(self) -> list[bytes]:
        return [self._with(self._statements[1]), *(self._with([line]) for line in self._statements[1])]

    def _with(self, lines: list[str]) -> bytes:
        return (self._statements[0] + "\n".join(lines) + "\n").encode()

    def draw(self, random: Random) -> bytes:
        lines = random.sample(self._statements[1], random.randint(1, 5))
        chance = random.random()
        if 0.2 < chance < 0.8:
            at = random.randrange(len(lines))
            lines[at] = "".join(mutated_tokens(_TOKEN.findall(lines[at]), random, _TOKENS))
        data = self._with(lines)
        return mutated_bytes(data, random, self.seeds()[:5]) if chance > 0.8 else data

    def check(self, data: bytes, clock: Clock, scratch: Path) -> str:
        path, again = scratch / "input.ttl", scratch / "again.nt"
        path.write_bytes(data)
        with clock.within(0.1, "reading"):
            found = read([path])
        triples = [quad.triple for quad in ox.parse(data, ox.RdfFormat.TURTLE, base_iri=path.absolute().as_uri())]
        again.write_bytes(ox.serialize(triples, format=ox.RdfFormat.N_TRIPLES))
        if len(read([again]).triples) != len(found.triples):
            raise WrongAnswer("another number of triples when written and read again")
        if crc32(data) % _CLOSED == 0:
            ontology = Ontology([path])
            if len(ontology) < ontology.stated:
                raise WrongAnswer("the closure has less than is stated")
        return ACCEPTED
