"""The laws: what must hold for every predicate family and every engine, for any subscriptions and publications.

Each law is a plain function that takes drawn instances and asserts. Tests call them with the expressions of each
family; nothing here knows a family by name, nor the library that draws the instances.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from tidegate.engine import Engine
from tidegate.index import ArrowBatch, Index
from tidegate.language import Call, Node, from_json, parse, to_json, to_text
from tidegate.model import RESERVED, Notification, Publication, Subscription
from tidegate.predicates.column import Column, PointLists, Points, Table
from tidegate.predicates.family import FUNCTIONS, MEASURES, Function, Measure
from tidegate.predicates.filter import Filter, compile_filter
from tidegate.predicates.predicate import Predicate
from tidegate.predicates.ranges import contains
from tidegate.records.number_columns import common_kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Matcher",
    "Oracle",
    "as_table",
    "candidates_contain_matches",
    "changes_leave_no_trace",
    "covering_is_sound",
    "cutting_changes_nothing",
    "engine_equals_oracle",
    "families",
    "index_names_what_is_asked",
    "missing_never_matches",
    "objects_and_tables_agree",
    "patterns_agree_on_spark",
    "points_agree",
    "restart_changes_nothing",
    "round_trips",
    "spark_agrees",
    "subscriptions",
]

#: Whether a publication satisfies an expression, decided by other means than the engine's.
Oracle = Callable[[Node, Publication], bool]


class Matcher(Protocol):
    """The methods that the laws call: those of ``Engine``, or of a wrapper around another matcher."""

    def subscribe(self, subscription: Subscription) -> None: ...
    def unsubscribe(self, id: str) -> None: ...
    def publish(self, publications: Sequence[Publication]) -> list[Notification]: ...


#: Makes an engine of some subscriptions.
Factory = Callable[[Iterable[Subscription]], Matcher]


def families() -> dict[str, list[str]]:
    """Every registered family with the operators and functions it brings."""
    found: dict[str, list[str]] = {}
    known: list[Function | Measure] = [*FUNCTIONS.values(), *MEASURES.values()]
    for function in known:
        found.setdefault(function.family, []).append(function.op)
    return found


def subscriptions(conditions: Iterable[Node]) -> list[Subscription]:
    """A subscription per condition: "s0", "s1", …, some written as text and some as JSON."""
    forms = (to_text, to_json)
    return [Subscription(f"s{i}", f"u{i % 3}", forms[i % 2](node)) for i, node in enumerate(conditions)]


# --- the language -------------------------------------------------------------------------------------------------


def round_trips(node: Node) -> None:
    """Text and JSON say the same as the tree they were written from, and are written the same again."""
    text, json = to_text(node), to_json(node)
    assert parse(text) == node, f"text says something else: {text}"
    assert from_json(json) == node, f"JSON says something else: {json}"
    assert to_text(parse(text)) == text, f"text is not stable: {text}"
    assert to_json(from_json(json)) == json, f"JSON is not stable: {json}"


# --- one predicate ------------------------------------------------------------------------------------------------


def candidates_contain_matches(node: Node, publications: Sequence[Publication]) -> None:
    """What satisfies a predicate lies in its hull; if the predicate is exact, what lies in its hull satisfies it."""
    for predicate in _predicates(node):
        assert predicate.hull, f"{predicate} has no hull"
        for publication in publications:
            held, candidate = predicate.holds(publication), _in_hull(predicate, publication)
            assert candidate or not held, f"{predicate} holds for {publication} but its hull leaves it out"
            assert held or not (candidate and predicate.exact), f"{predicate} is not exact: {publication}"
        together = type(predicate).settle([predicate] * len(publications), publications)
        assert together.tolist() == [predicate.holds(p) for p in publications], f"{predicate} settles otherwise"


def covering_is_sound(nodes: Sequence[Node], publications: Sequence[Publication]) -> None:
    """Where one predicate covers another, every match of the other is a match of the one."""
    predicates = [predicate for node in nodes for predicate in _predicates(node)]
    for a in predicates:
        assert a.covers(a), f"{a} does not cover itself"
        for b in predicates:
            if a.covers(b):
                for publication in publications:
                    if b.holds(publication):
                        assert a.holds(publication), f"{a} claims to cover {b}, but not on {publication}"


def missing_never_matches(node: Node, publications: Sequence[Publication]) -> None:
    """Where an attribute that one condition looks at is missing, neither it nor its negation holds; none crashes.

    Conditions on presence itself are exempt, and so are the fields that no publication lacks.
    """
    positive, negative = compile_filter(node), compile_filter(Call("not", (node,)))
    columns = {at for f in (positive, negative) for clause in f.clauses for p in clause for at, _ in p.hull}
    names = {name for at in columns for name in at.attributes if at.reading != "presence"} - {"id", "source", "time"}
    engine = Engine(subscriptions([node, Call("not", (node,))]))
    for name in sorted(names):
        bare = [_without(publication, name) for publication in publications]
        for publication in bare:
            assert not positive.holds(publication), f"{to_text(node)} holds without {name}: {publication}"
            assert not negative.holds(publication), f"NOT {to_text(node)} holds without {name}: {publication}"
        assert engine.publish(bare) == [], f"the engine matches {to_text(node)} or its negation without {name}"


def points_agree(node: Node, publications: Sequence[Publication]) -> None:
    """The columns of a condition give the same points for publications as objects and for the table of them."""
    seen = ArrowBatch(as_table(publications)).table
    for predicate in _predicates(node):
        for at, _ in predicate.hull:
            single = [at.point(publication) for publication in publications]
            assert _listed(at, seen) == [[] if p is None and at.how.is_many else p for p in single], f"{at} disagrees"


# --- the engine ---------------------------------------------------------------------------------------------------


def engine_equals_oracle(
    nodes: Sequence[Node], publications: Sequence[Publication], oracle: Oracle, make: Factory = Engine
) -> None:
    """The engine, the filters it was made from and an independent oracle say the same of every pair."""
    found = _pairs(make(subscriptions(nodes)).publish(list(publications)))
    for i, node in enumerate(nodes):
        filter = compile_filter(node)
        for publication in publications:
            wanted = oracle(node, publication)
            assert filter.holds(publication) is wanted, f"holds is {not wanted}: {to_text(node)} on {publication}"
            pair = (f"s{i}", publication.id)
            assert (pair in found) is wanted, f"the engine says {not wanted}: {to_text(node)} on {publication}"


def index_names_what_is_asked(node: Node) -> None:
    """An index names every attribute that a predicate reads, if anything can satisfy it: no other would reach it."""
    for predicate in _predicates(node):
        index = Index()
        index.add(0, Filter(((predicate,),)))
        asked = {name for at, _ in predicate.hull for name in at.attributes}
        assert index.names == asked or not len(index.compact().clauses), f"{sorted(asked)} of {to_text(node)}"


def objects_and_tables_agree(nodes: Sequence[Node], publications: Sequence[Publication]) -> None:
    """The same notifications for publications as objects, as a table, and as a table grouped by publication."""
    engine = Engine(subscriptions(nodes))
    expected = engine.publish(list(publications))
    table = as_table(publications)
    flat = engine.publish(table)
    assert flat.column("notification_id").to_pylist() == [n.id for n in expected]
    assert flat.column("subscription_id").to_pylist() == [n.subscription for n in expected]
    assert flat.column("subscriber").to_pylist() == [n.subscriber for n in expected]
    assert flat.column("publication_ids").to_pylist() == [list(n.publications) for n in expected]
    wanted = sorted((n.publications[0], n.subscription) for n in expected)
    for given in (table, list(publications)):
        for as_dictionary in (False, True):
            assert _pairs_of(engine.publish(given, grouped=True, as_dictionary=as_dictionary)) == wanted


def cutting_changes_nothing(
    nodes: Sequence[Node], publications: Sequence[Publication], cuts: Iterable[int], make: Factory = Engine
) -> None:
    """The stream in one piece and the stream cut at ``cuts`` give the same notifications."""
    engine = make(subscriptions(nodes))
    ends = sorted({0, *(min(max(cut, 0), len(publications)) for cut in cuts), len(publications)})
    pieces = [n for a, b in pairwise(ends) for n in engine.publish(list(publications[a:b]))]
    assert _in_order(pieces) == _in_order(engine.publish(list(publications)))


def restart_changes_nothing(
    nodes: Sequence[Node], publications: Sequence[Publication], directory: str | os.PathLike[str]
) -> None:
    """An engine saved after half of the subscriptions and loaded gives the same as one that was never saved."""
    wanted = subscriptions(nodes)
    half = len(wanted) // 2
    expected = Engine(wanted).publish(list(publications))
    engine = Engine(wanted[:half])
    before = engine.publish(list(publications))
    engine.save(Path(directory))
    again = Engine.load(Path(directory))
    assert list(again) == list(engine)
    assert again.publish(list(publications)) == before == engine.publish(list(publications))
    for subscription in wanted[half:]:
        again.subscribe(subscription)
    assert again.publish(list(publications)) == expected


def spark_agrees(spark: SparkSession, nodes: Sequence[Node], publications: Sequence[Publication]) -> None:
    """``tidegate.match`` on Spark gives what an engine in process gives, in one partition and in several."""
    from tidegate.pipeline.match import match

    engine, table = Engine(subscriptions(nodes)), as_table(publications)
    expected = sorted(engine.publish(table).to_pylist(), key=str)
    frame = spark.createDataFrame(table)
    for cut in (frame.coalesce(1), frame.repartition(3)):
        found = match(cut, list(engine)).toArrow().to_pylist()
        assert sorted(found, key=str) == expected
        by_publication = match(cut, list(engine), grouped=True).toArrow()
        assert _pairs_of(by_publication) == _pairs_of(engine.publish(table, grouped=True))


def patterns_agree_on_spark(
    spark: SparkSession, subscriptions: Sequence[Subscription], publications: Sequence[Publication]
) -> None:
    """What ``spark_agrees`` checks, for subscriptions with patterns, to which all publications appear together."""
    from tidegate.pipeline.match import match

    table = as_table(publications)
    flat = sorted(Engine(subscriptions).publish(table).to_pylist(), key=str)
    grouped = _told_of(Engine(subscriptions).publish(table, grouped=True))  # patterns have state: an engine for each
    frame = spark.createDataFrame(table)
    for cut in (frame.coalesce(1), frame.repartition(3)):
        assert sorted(match(cut, subscriptions).toArrow().to_pylist(), key=str) == flat
        assert _told_of(match(cut, subscriptions, grouped=True).toArrow()) == grouped


def _told_of(grouped: pa.Table) -> list[str]:
    rows = grouped.to_pylist()
    return sorted(f"{row['publication_id']} {row['time']} {id}" for row in rows for id in row["subscription_ids"])


def _pairs_of(grouped: pa.Table) -> list[tuple[str, str]]:
    return sorted((row["publication_id"], id) for row in grouped.to_pylist() for id in row["subscription_ids"])


def changes_leave_no_trace(
    nodes: Sequence[Node],
    publications: Sequence[Publication],
    changes: Iterable[tuple[str, int]],
    make: Factory = Engine,
) -> None:
    """After any sequence of added and removed subscriptions an engine equals one made with those that are left.

    A change is ("add", i), ("remove", i) or ("publish", anything); those that are impossible at their turn are skipped.
    """
    wanted = subscriptions(nodes)
    engine, alive = make(()), dict[str, Subscription]()
    for kind, i in changes:
        subscription = wanted[i % len(wanted)]
        if kind == "add" and subscription.id not in alive:
            engine.subscribe(subscription)
            alive[subscription.id] = subscription
        elif kind == "remove" and subscription.id in alive:
            engine.unsubscribe(subscription.id)
            del alive[subscription.id]
        elif kind == "publish":
            assert {n.subscription for n in engine.publish(list(publications))} <= alive.keys()
    assert engine.publish(list(publications)) == make(alive.values()).publish(list(publications))


# --- publications -------------------------------------------------------------------------------------------------

_KINDS = {"text": pa.string(), "time": pa.timestamp("us", "UTC")}
_POINT = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])


def as_table(publications: Sequence[Publication]) -> pa.Table:
    """Publications as an Arrow table. An attribute must hold values of one type (integers and floats are, except that
    a column with integers beyond 2^53 has no floats).
    """
    columns: dict[str, pa.Array] = {}
    for name, kind in RESERVED.items():
        if name != "event":
            columns[name] = _column([p.value(name) for p in publications], _KINDS.get(kind, _POINT))
    for name in sorted({name for p in publications for name in p.attributes}):
        columns[name] = _column([p.value(name) for p in publications], None)
    return pa.table(columns)


def _column(values: list[Any], kind: pa.DataType | None) -> pa.Array:
    if any(isinstance(value, tuple) for value in values):
        kind = _POINT
    if kind == _POINT:
        return pa.array([v and {"lon": float(v[0]), "lat": float(v[1])} for v in values], _POINT)
    if kind is None:
        are_lists = any(isinstance(v, list) for v in values)
        kind = _scalar_kind([m for v in values if v is not None for m in (v if are_lists else (v,))])
        if kind == pa.float64() and not are_lists:
            kind = common_kind([value for value in values if value is not None])
            assert kind is not None, f"numbers that no column can hold together: {values}"
        if kind == pa.float64():
            values = [v if v is None else [float(m) for m in v] if are_lists else float(v) for v in values]
        kind = pa.list_(kind) if are_lists else kind
    return pa.array(values, kind)


def _scalar_kind(values: list[Any]) -> pa.DataType:
    if values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return pa.int64() if all(isinstance(v, int) and abs(v) < 2**63 for v in values) else pa.float64()
    return pa.infer_type(values) if values else pa.null()


# --- within the laws ----------------------------------------------------------------------------------------------


def _predicates(node: Node) -> list[Predicate]:
    filters: list[Filter] = [compile_filter(node), compile_filter(Call("not", (node,)))]
    return [predicate for f in filters for clause in f.clauses for predicate in clause]


def _in_hull(predicate: Predicate, publication: Publication) -> bool:
    for at, ranges in predicate.hull:
        found = at.point(publication)
        points = found if isinstance(found, list) else [] if found is None else [found]
        if not any(contains(ranges, point) for point in points):
            return False
    return True


def _without(publication: Publication, name: str) -> Publication:
    if name in RESERVED:
        bare: dict[str, Any] = {name: None}
        return replace(publication, **bare)
    return replace(publication, attributes={k: v for k, v in publication.attributes.items() if k != name})


def _listed(at: Column, table: Table) -> list[Any]:
    points = at.how.points(at.operand, table)
    if points is None:
        return [[] if at.how.is_many else None] * table.length
    if isinstance(points, PointLists):
        flat = _plain(points.points)
        return [flat[a:b] for a, b in zip(points.offsets[:-1], points.offsets[1:], strict=True)]
    return _plain(points)


def _plain(points: Points) -> list[Any]:
    if isinstance(points, np.ndarray):
        return [None if np.isnan(point) else point for point in points.tolist()]
    return list(points.to_pylist())


def _pairs(notifications: Iterable[Notification]) -> set[tuple[str, str]]:
    return {(n.subscription, n.publications[0]) for n in notifications}


def _in_order(notifications: list[Notification]) -> list[Notification]:
    return sorted(notifications, key=lambda n: (n.time, n.subscription, n.publications))
