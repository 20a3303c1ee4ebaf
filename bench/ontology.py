"""Ontology: operators on the meaning of terms, beside plain IN with the same sets, and beside asking while matching."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyoxigraph as ox

import tidegate as tg
from bench.harness import Report, median, say, timed
from bench.notification_arrays import Told
from bench.papers.timeseries.interleaved import interleaved
from bench.topk import BEGIN, SPACING
from tidegate.predicates.ontology import Question, answer

__all__ = ["Meaning", "main"]

SEED = 2026
ROUNDS = 7
#: Classes form a tree in which each has so many below it; things are in classes, and in regions that form a tree too.
CLASSES, BELOW, THINGS, REGIONS, WITHIN = 1_000, 6, 2_000, 400, 4
#: No set of more things than this is asked for, so that the plain expressions stay short.
LARGEST = 100
#: Pairs of a publication and a subscription that are asked while matching; its time per publication is scaled up.
ASKED = 1_000
#: Publications whose notifications are compared with sets in Python.
CHECKED = 50
NAMESPACE = "http://example.org/things#"
PREFIXES = {"ex": NAMESPACE}

COLUMNS = {
    "what": "what",
    "subscriptions": "subscriptions",
    "sets": "sets",
    "terms": "terms/set",
    "ontology_us": "ontology µs/pub",
    "plain_us": "plain IN µs/pub",
    "ratio": "ontology ÷ plain IN",
    "per_publication": "notifications/pub",
    "ontology_load_s": "load s",
    "plain_load_s": "plain load s",
    "asking_us": "asking while matching µs/pub",
    "asking_ratio": "asking ÷ ontology",
    "closing_s": "closing s",
}


def main(quick: bool = False) -> None:
    """With the operators alone, and with a range beside them."""
    report = Report("ontology", SEED, COLUMNS)
    meaning = Meaning.drawn()
    with TemporaryDirectory() as directory:
        path = Path(directory) / "things.ttl"
        path.write_text(meaning.turtle(), "utf-8")
        closing, _ = timed(partial(tg.load_ontology, path, prefixes=PREFIXES))
        few = [_Wanted(asked, None) for asked in list(meaning.sets)[:10]]
        tg.Engine(_subscribed(few, lambda each: each.meant)).close()  # reads compiled code, which is no part of load
        for what, ranged in (("operators alone", False), ("operators and a range", True)):
            n, publications = (2_000, 200) if quick else (100_000, 2_000)
            measure(report, meaning, path, what, ranged, n, publications, closing)
    report.finish()


#: An operator, its property if it has one, and a number: of a class or of a region.
Asked = tuple[str, int]


@dataclass(frozen=True)
class Meaning:
    """Classes above classes, things in classes and in regions, and regions in regions. 0 is the top of each tree."""

    class_of: list[int]
    region_of: list[int]

    @classmethod
    def drawn(cls) -> Meaning:
        """Every thing in some class and some region."""
        rng = np.random.default_rng(SEED)
        return cls(rng.integers(CLASSES, size=THINGS).tolist(), rng.integers(REGIONS, size=THINGS).tolist())

    @staticmethod
    def above(number: int, below: int) -> list[int]:
        """A node of a tree, and all above it."""
        found = [number]
        while number:
            number = (number - 1) // below
            found.append(number)
        return found

    def turtle(self) -> str:
        """As it is written, nothing of it closed."""
        lines = [
            f"@prefix ex: <{NAMESPACE}> .",
            "@prefix owl: <http://www.w3.org/2002/07/owl#> .",
            "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .",
            "ex:in a owl:ObjectProperty , owl:TransitiveProperty .",
        ]
        lines += [f"ex:c{i} a owl:Class ." for i in range(CLASSES)]
        lines += [f"ex:c{i} rdfs:subClassOf ex:c{(i - 1) // BELOW} ." for i in range(1, CLASSES)]
        lines += [f"ex:r{i} ex:in ex:r{(i - 1) // WITHIN} ." for i in range(1, REGIONS)]
        lines += [f"ex:x{i} a ex:c{c} ; ex:in ex:r{r} ." for i, (c, r) in enumerate(self._things)]
        return "\n".join(lines) + "\n"

    @property
    def _things(self) -> list[tuple[int, int]]:
        return list(zip(self.class_of, self.region_of, strict=True))

    @cached_property
    def sets(self) -> dict[Asked, tuple[str, ...]]:
        """Which things each operator is true of, worked out by hand; those that nobody asks for are left out."""
        found: dict[Asked, set[str]] = {}
        for i, (c, r) in enumerate(self._things):
            for each in self.above(c, BELOW):
                found.setdefault(("isA", each), set()).add(f"ex:x{i}")
            for each in self.above(r, WITHIN):
                found.setdefault(("related", each), set()).add(f"ex:x{i}")
        return {asked: tuple(sorted(each)) for asked, each in sorted(found.items()) if len(each) <= LARGEST}


@dataclass(frozen=True)
class _Wanted:
    asked: Asked
    low: float | None

    def conditions(self, first: dict[str, Any]) -> dict[str, Any]:
        """With the range, if there is one."""
        if self.low is None:
            return first
        between = {"op": "between", "args": [{"property": "level"}, self.low, self.low + 10]}
        return {"op": "and", "args": [first, between]}

    @property
    def question(self) -> Question:
        """As the ontology is asked."""
        op, number = self.asked
        return Question(op, ("ex:in", f"ex:r{number}") if op == "related" else (f"ex:c{number}",))

    @property
    def meant(self) -> dict[str, Any]:
        """With the ontology's operator."""
        question = self.question
        return self.conditions({"op": question.relation, "args": [{"property": "thing"}, *question.about]})

    def plain(self, terms: Sequence[str]) -> dict[str, Any]:
        """With the terms written out."""
        return self.conditions({"op": "in", "args": [{"property": "thing"}, list(terms)]})


def measure(
    report: Report, meaning: Meaning, path: Path, what: str, ranged: bool, n: int, publications: int, closing: float
) -> None:
    """One row: two engines take turns."""
    say(f"{n:,} subscriptions, {what}")
    rng = np.random.default_rng(SEED)
    asked = list(meaning.sets)
    picks = rng.integers(len(asked), size=n).tolist()
    lows = (90 * rng.random(n)).tolist() if ranged else [None] * n
    wanted = [_Wanted(asked[pick], low) for pick, low in zip(picks, lows, strict=True)]
    terms = {one.asked: answer(one.question) for one in wanted}
    load, engine = timed(lambda: tg.Engine(_subscribed(wanted, lambda each: each.meant)))
    plain_load, plain = timed(lambda: tg.Engine(_subscribed(wanted, lambda each: each.plain(terms[each.asked]))))
    table = _table(rng, publications)
    seconds, found = interleaved(
        {
            "ontology": partial(engine.publish, table, grouped=True),
            "plain": partial(plain.publish, table, grouped=True),
        },
        ROUNDS,
    )
    say("  asking while matching")
    asking, is_right = _asking(meaning, path, wanted, table)
    told, plain_told = Told.of(found["ontology"]), Told.of(found["plain"])
    each = {name: median(times) / publications * 1e6 for name, times in seconds.items()}
    report.add(
        what=what,
        subscriptions=n,
        sets=len(terms),
        terms=sum(len(terms[one.asked]) for one in wanted) / n,
        ontology_us=each["ontology"],
        plain_us=each["plain"],
        ratio=each["ontology"] / each["plain"],
        per_publication=len(told) / publications,
        ontology_load_s=load,
        plain_load_s=plain_load,
        asking_us=asking * n * 1e6,
        asking_ratio=asking * n * 1e6 / each["ontology"],
        closing_s=closing,
        exact=told.equals(plain_told) and _first(told) == _expected(meaning, wanted, table) and is_right,
        seconds=seconds,
    )
    engine.close()
    plain.close()


def _subscribed(wanted: list[_Wanted], where: Callable[[_Wanted], dict[str, Any]]) -> Iterator[tg.Subscription]:
    return (tg.Subscription(f"s{i}", "bench", where(each)) for i, each in enumerate(wanted))


def _table(rng: np.random.Generator, publications: int) -> pa.Table:
    numbers = np.arange(publications)
    return pa.table(
        {
            "id": pa.array([f"p{i}" for i in numbers.tolist()]),
            "source": pa.repeat("bench", publications),
            "time": pa.array(BEGIN + SPACING * numbers, pa.timestamp("us", "UTC")),
            "thing": pa.array([f"ex:x{i}" for i in rng.integers(THINGS, size=publications).tolist()]),
            "level": pa.array(100 * rng.random(publications)),
        }
    )


def _first(told: Told) -> set[tuple[int, int]]:
    """Publication and subscription, of the publications that are checked."""
    some = told.publication < CHECKED
    return set(zip(told.publication[some].tolist(), told.subscription[some].tolist(), strict=True))


def _expected(meaning: Meaning, wanted: list[_Wanted], table: pa.Table) -> set[tuple[int, int]]:
    rows = table.slice(0, CHECKED).to_pylist()
    sets = {asked: frozenset(things) for asked, things in meaning.sets.items()}
    return {
        (p, s)
        for s, each in enumerate(wanted)
        for p, row in enumerate(rows)
        if row["thing"] in sets[each.asked] and (each.low is None or each.low <= row["level"] <= each.low + 10)
    }


def _asking(meaning: Meaning, path: Path, wanted: list[_Wanted], table: pa.Table) -> tuple[float, bool]:
    """Seconds of one pair when the ontology as it is written is asked with SPARQL; and whether it answers the same."""
    store = ox.Store()
    store.load(path=str(path), format=ox.RdfFormat.TURTLE)
    things = table.column("thing").to_pylist()
    pairs = [(things[i % len(things)], wanted[i % len(wanted)].asked) for i in range(ASKED)]
    prefixes = f"PREFIX ex: <{NAMESPACE}> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "

    def ask(thing: str, asked: Asked) -> bool:
        op, number = asked
        path = f"ex:in+ ex:r{number}" if op == "related" else f"a/rdfs:subClassOf* ex:c{number}"
        return bool(store.query(f"{prefixes}ASK {{ {thing} {path} }}"))

    seconds, found = timed(lambda: [ask(*pair) for pair in pairs])
    return seconds / len(pairs), found == [thing in meaning.sets[asked] for thing, asked in pairs]
