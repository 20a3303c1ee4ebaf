"""Predicates on the meaning of terms: isA, equivalent, moreSpecific, lessSpecific and related.

The loaded ontology has all that follows from its statements, so each relation to a term is a set of terms (Keeney et
al. 2008; Stevens 2009, table 3.1). A predicate compiles to what ``x IN (…)`` with that set compiles to, and does not
refer to the ontology any more. ``asking`` lets the engine record which sets a subscription was compiled with, so that
it can compile it again when another ontology has other sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from tidegate.language.render import to_text
from tidegate.language.tree import Array, Attribute, Call, Literal, Node
from tidegate.language.words import ARRAY_OPERATORS
from tidegate.ontologies import current
from tidegate.ontologies.ontology import RELATIONS, Ontology
from tidegate.predicates.comparison import text_column
from tidegate.predicates.family import Mismatch, function
from tidegate.predicates.predicate import Alternatives, Within
from tidegate.predicates.ranges import ALL_TEXT, Ranges, complement, union

__all__ = ["Question", "Relation", "answer", "asking", "expanded", "is_loaded", "relation_of", "values"]


class Question(NamedTuple):
    """A relation and its terms as they were written; the same term written with another prefix is another question."""

    relation: str
    about: tuple[str, ...]


class Relation(NamedTuple):
    """The sub-operator of a bag: a relation whose last term is still open; of ``related`` the property is given."""

    relation: str
    property: tuple[str, ...]

    def question(self, term: str) -> Question:
        return Question(self.relation, (*self.property, term))


_BY_CASE = {name.lower(): name for name in RELATIONS}


class _Answers:
    """The cached answers of one ontology: the texts of each question, and these as ranges of a text, negated too."""

    def __init__(self, ontology: Ontology | None) -> None:
        self.ontology = ontology
        self.texts: dict[Question, tuple[str, ...]] = {}
        self.ranges: dict[Question, tuple[Ranges, Ranges]] = {}


_answers = _Answers(None)
_noted: ContextVar[dict[Question, tuple[str, ...]] | None] = ContextVar("_noted", default=None)


# --- asking ---------------------------------------------------------------------------------------------------------


def is_loaded() -> bool:
    """Whether an ontology is loaded."""
    return current.get() is not None


@contextmanager
def asking() -> Iterator[dict[Question, tuple[str, ...]]]:
    """Record the questions that are asked inside the ``with`` block of this context, with their answers."""
    noted: dict[Question, tuple[str, ...]] = {}
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def _current() -> _Answers:
    """The answers of the ontology that is loaded now.

    A caller with several questions must keep the result: another thread may load another ontology between two calls.
    """
    global _answers
    found, ontology = _answers, current.get()
    if found.ontology is not ontology:
        _answers = found = _Answers(ontology)
    return found


def answer(question: Question) -> tuple[str, ...]:
    """The texts that satisfy it, in order; none where the ontology does not know the terms, or there is no ontology."""
    return _answered(_current(), question)


def _answered(known: _Answers, question: Question) -> tuple[str, ...]:
    found = known.texts.get(question)
    if found is None:
        ontology, found = known.ontology, ()
        if ontology is not None:
            iris = [iri for text in question.about if (iri := ontology.iri(text)) is not None]
            if len(iris) == len(question.about):
                found = ontology.written(ontology.terms(question.relation, *iris))
        known.texts[question] = found
    if (noted := _noted.get()) is not None:
        noted[question] = found
    return found


def values(question: Question, nodes: tuple[Node, ...], call: Node) -> tuple[str, ...]:
    """``answer``, but a term that the ontology does not know is an error at its node; ``nodes`` are the terms."""
    return _checked(_current(), question, nodes, call)


def _checked(known: _Answers, question: Question, nodes: tuple[Node, ...], call: Node) -> tuple[str, ...]:
    ontology = known.ontology
    if ontology is None:
        raise Mismatch("an ontology, loaded with tg.load_ontology", f"{question.relation} without any", call)
    for node, text, kinds in zip(nodes, question.about, RELATIONS[question.relation], strict=True):
        _check(ontology, node, text, kinds)
    return _answered(known, question)


def _check(ontology: Ontology, node: Node, text: str, kinds: tuple[str, ...]) -> None:
    iri = ontology.iri(text)
    if iri is None:
        prefix, colon, _ = text.partition(":")
        names = ", ".join(sorted(ontology.prefixes.namespaces))
        if text.startswith("<"):
            wanted = "an IRI between < and >"
        elif not colon:
            wanted = f"a term with a prefix or in full{_or(ontology.near(text))}"
        elif prefix in ontology.declared:
            wanted = f"a declared prefix: {names} (add {prefix!r}: {ontology.declared[prefix]!r} to prefixes)"
        else:
            wanted = f"a declared prefix: {names}"
        raise Mismatch(wanted, to_text(node), node)
    if not ontology.has(iri):
        raise Mismatch(f"a term of the ontology{_or(ontology.near(text))}", to_text(node), node)
    if not ontology.has(iri, kinds):
        kind = " or ".join(kinds)
        raise Mismatch(f"a {kind} of the ontology", f"{to_text(node)}, which is none", node)


def _or(near: list[str]) -> str:
    return f" ({' or '.join(near)}?)" if near else ""


# --- predicates -----------------------------------------------------------------------------------------------------


def _ask(call: Call) -> tuple[Question, tuple[Node, ...]]:
    return Question(call.op, tuple(_text(node, call.op) for node in call.args[1:])), call.args[1:]


def _text(node: Node, op: str) -> str:
    if not isinstance(node, Literal) or not isinstance(node.value, str):
        raise Mismatch(f"a term such as 'vin:Red' in {op}", to_text(node), node)
    return node.value


def _within(call: Call, negated: bool) -> Alternatives:
    value = call.args[0]
    if not isinstance(value, Attribute):
        raise Mismatch(f"an attribute as first argument of {call.op}", to_text(value), value)
    question, nodes = _ask(call)
    known = _current()
    ranges = known.ranges.get(question)
    if ranges is None:
        texts = _checked(known, question, nodes, call)
        within = union(tuple((text, text + "\0") for text in texts))
        ranges = known.ranges[question] = within, complement(within, ALL_TEXT)
    elif (noted := _noted.get()) is not None:
        noted[question] = known.texts[question]
    return [(Within(text_column(value), ranges[negated]),)]


@function(
    "ontology",
    {
        "isA": "isA(wine, 'vin:RedWine')",
        "equivalent": "equivalent(kind, 'vin:RedWine')",
        "moreSpecific": "moreSpecific(kind, 'vin:Wine')",
        "lessSpecific": "lessSpecific(kind, 'vin:Chianti')",
    },
    (2, 2),
)
def kind_of_term(call: Call, negated: bool) -> Alternatives:
    return _within(call, negated)


@function("ontology", {"related": "related(wine, 'vin:hasColor', 'vin:Red')"}, (3, 3))
def related(call: Call, negated: bool) -> Alternatives:
    return _within(call, negated)


def relation_of(sub: Node) -> Relation | None:
    """The relation that a sub-operator of a bag names; None where it is another one."""
    if isinstance(sub, Literal) and isinstance(sub.value, str):
        name = _BY_CASE.get(sub.value.lower())
        if name == "related":
            raise Mismatch("related with its property, such as related('vin:hasColor')", to_text(sub), sub)
        return None if name is None else Relation(name, ())
    if isinstance(sub, Call) and sub.op == "related":
        if len(sub.args) != 1:
            raise Mismatch("one argument of related as a sub-operator: its property", f"{len(sub.args)}", sub)
        return Relation("related", (_text(sub.args[0], "related"),))
    return None


# --- written out ----------------------------------------------------------------------------------------------------


def expanded(node: Node) -> Node:
    """The same expression in plain CQL2, with the sets that the ontology has now; the same node if it asks nothing.

    A term that the ontology does not know gives an empty set and no error.
    """
    if not isinstance(node, Call):
        return node
    if node.op in RELATIONS and len(node.args) > 1:
        return _listed(node.args[0], answer(_ask(node)[0]), node)
    if node.op in ARRAY_OPERATORS and len(node.args) == 3 and isinstance(node.args[1], Array):
        relation = relation_of(node.args[2])
        if relation is not None:
            lists = [answer(relation.question(_text(item, relation.relation))) for item in node.args[1].items]
            return _bag(node, lists)
    args = tuple(map(expanded, node.args))
    same = all(new is old for new, old in zip(args, node.args, strict=True))
    return node if same else Call(node.op, args, node.at)


def _listed(value: Node, texts: tuple[str, ...], call: Call) -> Call:
    """``value IN (…)``. As IN needs a member, an empty set becomes "before the empty text", which no text is."""
    if not texts:
        return Call("<", (value, Literal("")), call.at)
    return Call("in", (value, Array(tuple(map(Literal, texts)))), call.at)


def _bag(call: Call, lists: list[tuple[str, ...]]) -> Call:
    """A bag operator with lists for members, as simple as possible: not all readers know lists of one or of none."""
    value, op = call.args[0], call.op
    if op in ("a_equals", "a_contains") and not all(lists):
        op, lists = "a_overlaps", [()]  # a member without any possible partner: nothing matches
    if lists and not any(lists):  # written as "before the empty text", which no text is
        return Call(op, (value, Array((Literal(""),)), Literal("<")), call.at)
    if lists and (op == "a_overlaps" or (op == "a_contains" and len(lists) == 1)):
        some = sorted(set().union(*lists))
        return Call("a_overlaps", (value, Array(tuple(map(Literal, some)))), call.at)
    items = (tuple(map(Literal, texts)) for texts in lists if texts)
    members = Array(tuple(item[0] if len(item) == 1 else Array(item) for item in items))
    return Call(op, (value, members, Literal("IN")), call.at)
