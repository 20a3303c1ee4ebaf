"""What an expression does, once it is read: it is subscribed to, and answers as the predicates and the oracle do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import nan

import tidegate as tg
from tests import drawn_publications as _loads_the_ontology
from tests import oracle
from tests.fuzz.entry_point import ACCEPTED, Clock, WrongAnswer
from tidegate.language import DEFAULT_LIMITS, from_json, parse, to_json, to_text
from tidegate.language.tree import Array, Call, Numbers, walk
from tidegate.predicates import Filter
from tidegate.subscriptions import compile_where

__all__ = ["MOST_TEXT", "PUBLICATIONS", "checked"]

#: Seconds that reading and subscribing may take, and publishing one publication.
MOST_TEXT, MOST_PUBLICATION = 0.1, 0.01
_LOADED = _loads_the_ontology.ONTOLOGY
_EIGHT = datetime(2026, 11, 15, 8, tzinfo=UTC)


def _publication(number: int, attributes: dict, **fields) -> tg.Publication:
    return tg.Publication(f"p{number}", "rain", _EIGHT + timedelta(seconds=number), attributes, **fields)


_NUMBERS = {"n": 1, "o3": 40.0, "no2": 0.1, "x": -1, "a b": 2}
PUBLICATIONS = [
    _publication(0, {}),
    _publication(1, _NUMBERS | {"kind": "rain", "word": "ab", "flag": True, "wine": "vin:Chianti"}),
    _publication(2, {"n": 2.5, "kind": "Abc", "tags": ["a", "ab", "rain"], "levels": [1, 2, 2.5]}, location=(7, 46)),
    _publication(3, {"mixed": [1, "a", True], "tags": [], "flag": False, "spot": (6.0, 45.0), "wine": "vin:Red"}),
    _publication(4, {"wave": [1.0, 2.0, 3.0, 2.0, 1.0], "levels": [0, nan], "seen": _EIGHT}, start=_EIGHT, end=_EIGHT),
    _publication(5, {"wave": [1, 2], "word": "it's é", "n": 0, "o3": 0}, phase="START", start=_EIGHT),
    _publication(6, _NUMBERS | {"n": "text", "kind": 5, "tags": "rain", "wave": [3.0] * 9}, location=(-180, 90)),
    _publication(7, {"n": 1e308, "o3": -1e308, "x": 5e-324, "wine": "http://example.org/wine#OldRed"}),
    _publication(8, {"levels": [40, 1, 1, 0, -1], "tags": ["vin:Red", "vin:Chianti"], "mixed": ["10", 10]}),
    _publication(9, {"n": 40, "kind": "", "word": "\0", "seen": _EIGHT + timedelta(days=9)}, phase="END"),
]


def checked(tree, where, clock: Clock, thorough: bool) -> str:
    """Round trips of the tree; then the subscription, whose errors are the caller's, and what it answers."""
    _round_trips(tree)
    subscription = tg.Subscription("s", "ann", where)
    with clock.within(MOST_TEXT, "compiling"):
        found = compile_where(tree, where)
    if isinstance(found, Filter):
        _check_filter(tree, found, subscription, clock, thorough)
    else:
        _check_pattern(subscription, clock)
    return ACCEPTED


def _round_trips(tree) -> None:
    text = to_text(tree)
    if len(text) <= DEFAULT_LIMITS.text_length and parse(text) != tree:
        raise WrongAnswer(f"read again from text it is another tree: {text[:200]!r}")
    if from_json(to_json(tree)) != tree:
        raise WrongAnswer(f"read again from JSON it is another tree: {text[:200]!r}")


def _check_filter(tree, filter: Filter, subscription, clock: Clock, thorough: bool) -> None:
    """The index, of clauses in turn or of a segment, answers as the predicates and as the oracle do."""
    expected = {p.id for p in PUBLICATIONS if filter.holds(p)}
    if _has_oracle(tree):
        wanted = {p.id for p in PUBLICATIONS if oracle.holds(tree, p)}
        if wanted != expected:
            raise WrongAnswer(f"the predicates match {sorted(expected)}, the oracle {sorted(wanted)}")
    with tg.Engine([subscription] if thorough else []) as engine:
        if thorough:
            told = {n.publications[0] for n in engine.publish(PUBLICATIONS)}
        else:
            engine.subscribe(subscription)
            told = set()
            for publication in PUBLICATIONS:
                with clock.within(MOST_PUBLICATION, f"publishing {publication.id}"):
                    told |= {n.publications[0] for n in engine.publish([publication])}
    if told != expected:
        raise WrongAnswer(f"the index matches {sorted(told)}, the predicates {sorted(expected)}")


#: Bags up to which the oracle, which tries every assignment, ends soon.
_FEW = 7


def _has_oracle(tree) -> bool:
    for node in walk(tree):
        if isinstance(node, Call):
            if node.op in ("s_crosses", "s_overlaps", "s_dwithin") or (
                node.op.startswith("t_") and not _is_plain(node)
            ):
                return False
            if node.op.startswith("a_") and len(node.args) > 1:
                items = node.args[1]
                if isinstance(items, Numbers) or (isinstance(items, Array) and len(items.items) > _FEW):
                    return False
        if isinstance(node, Array) and any(isinstance(item, Numbers) for item in node.items):
            return False
    return all(type(node).__name__ != "Geometry" or node.kind in _GEOMETRIES for node in walk(tree))


_GEOMETRIES = ("Polygon", "Point", "LineString", "MultiPoint")


def _is_plain(node: Call) -> bool:
    """Whether a relation in time has an attribute on its left and constants on its right."""
    bounds = [getattr(node.args[1], name, None) for name in ("start", "end")]
    return all(bound is None or type(bound).__name__ == "Instant" for bound in bounds) and hasattr(node.args[0], "name")


def _check_pattern(subscription, clock: Clock) -> None:
    """One publication after the other and all at once tell the same."""
    with tg.Engine() as one, tg.Engine() as all_at_once:
        for engine in (one, all_at_once):
            engine.subscribe(subscription)
        told = []
        for publication in PUBLICATIONS:
            with clock.within(MOST_PUBLICATION, f"publishing {publication.id}"):
                told += one.publish([publication])
        if sorted(n.id for n in told) != sorted(n.id for n in all_at_once.publish(PUBLICATIONS)):
            raise WrongAnswer("publications tell another story one by one")
