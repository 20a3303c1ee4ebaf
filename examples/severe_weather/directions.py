"""Turns outlines into an ontology: which county is north, north-east, east … of which of its neighbours.

The direction is that of one centroid seen from the other, on the plane that touches the earth half-way between them, in
eight sectors of 45 degrees. The shared border would say less: Hamilton and Polk meet along a line that runs from north
to south, yet Polk is to the north-east, and counties that meet in a corner share no line at all. Each pair is written
once; the other half follows from the inverse properties.
"""

from __future__ import annotations

from math import atan2, cos, degrees, radians

from examples.severe_weather.counties import PREFIX, County, State

__all__ = ["DIRECTIONS", "INVERSE", "IRI", "NEXT_TO", "bearing", "relation", "relations", "turtle"]

IRI = "http://example.org/us/nebraska#"

#: Clockwise from the north, 45 degrees each.
DIRECTIONS = tuple(
    f"is{way}Of" for way in ("North", "NorthEast", "East", "SouthEast", "South", "SouthWest", "West", "NorthWest")
)
INVERSE = {direction: DIRECTIONS[(i + 4) % 8] for i, direction in enumerate(DIRECTIONS)}
NEXT_TO = "isNextTo"


def bearing(a: County, b: County) -> float:
    """Where a is, seen from b: degrees clockwise from the north, below 360."""
    (east, north), (lon, lat) = a.centre, b.centre
    return degrees(atan2((east - lon) * cos(radians((north + lat) / 2)), north - lat)) % 360


def relation(a: County, b: County) -> str:
    """The property that a has to b, such as isWestOf."""
    return DIRECTIONS[int((bearing(a, b) + 22.5) % 360 // 45)]


def relations(state: State) -> list[tuple[str, str, str]]:
    """(term, property, term) of all neighbours, each pair once."""
    return [(a, relation(state.counties[a], state.counties[b]), b) for a, b in state.neighbours]


def turtle(state: State) -> str:
    """The ontology as it is loaded."""
    lines = [
        f"@prefix {PREFIX}: <{IRI}> .",
        "@prefix owl: <http://www.w3.org/2002/07/owl#> .",
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .",
        "",
        f"<{IRI.rstrip('#')}> a owl:Ontology .",
        "ne:County a owl:Class .",
        "ne:State a owl:Class .",
        "ne:Nebraska a ne:State .",
        "ne:isLocatedIn a owl:ObjectProperty .",
        f"ne:{NEXT_TO} a owl:ObjectProperty, owl:SymmetricProperty .",
    ]
    lines += [f"ne:{direction} a owl:ObjectProperty ; rdfs:subPropertyOf ne:{NEXT_TO} ." for direction in DIRECTIONS]
    lines += [f"ne:{direction} owl:inverseOf ne:{INVERSE[direction]} ." for direction in DIRECTIONS[:4]]
    told: dict[str, list[str]] = {}
    for a, direction, b in relations(state):
        told.setdefault(a, []).append(f"ne:{direction} {b}")
    for term, county in state.counties.items():
        label = f'rdfs:label "{county.name} County"'
        properties = " ;\n    ".join([label, "ne:isLocatedIn ne:Nebraska", *told.get(term, [])])
        lines += ["", f"{term} a ne:County ;\n    {properties} ."]
    return "\n".join(lines) + "\n"
