"""CQL2-text to the expression tree.

``parse`` takes Lark's tokens one by one, so that a limit is noticed at the token that breaks it and a mistake is
explained from the parser's state before it. Knows nothing of types and functions. No input raises anything but a
``ParseError``.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from itertools import chain
from threading import Lock
from typing import Any

from lark import Lark, Token, UnexpectedCharacters, UnexpectedToken
from lark.parsers.lalr_analysis import Reduce

from tidegate.errors import LimitError, ParseError, shown
from tidegate.language.limits import DEFAULT_LIMITS, Limits
from tidegate.language.syntax_errors import END, complaint
from tidegate.language.text_position import Misplaced, located
from tidegate.language.tree import Array, Call, Node, Numbers, Place
from tidegate.language.tree_builder import Builder

__all__ = ["parse"]

# Parentheses inside literals are no levels of the tree: a collection of multipolygons, one node, has four of its own.
_INSIDE_LITERALS = 4
_GEOMETRIES = ("POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION")
_LITERALS = frozenset(("TIMESTAMP", "DATE", "INTERVAL", "BBOX", *_GEOMETRIES))
# Signs and NOT nest without a parenthesis, so the parser's stack is bounded too: no level of the tree takes more of it
# than `a BETWEEN 1 AND (`, five states.
_STATES_PER_LEVEL = 8
_BUILDING = Lock()


def parse(text: str, limits: Limits = DEFAULT_LIMITS) -> Node:
    """The expression that the text writes. Raises ParseError, or LimitError where a limit is passed."""
    if not isinstance(text, str):
        raise ParseError("CQL2 as text", shown(text))
    if len(text) > limits.text_length:
        raise LimitError(f"at most {limits.text_length} characters (limit text_length)", f"{len(text)}")
    if not text.isascii():
        _refuse_surrogates(text)
    try:
        root = _read(text, limits)
    except Misplaced as fault:
        raise located(ParseError, fault.expected, fault.got, fault.at, text) from None
    _measure(root, limits, text)
    return root


def grammar() -> Lark:
    """The parser, built on first use (about 0.15 s) and without state of its own. It is built by one thread: Lark
    evaluates literals of Python for that, which CPython 3.11 may refuse to do in two threads at once.
    """
    with _BUILDING:
        return _built()


@cache
def _built() -> Lark:
    return Lark(
        files("tidegate.language").joinpath("grammar.lark").read_text("utf-8"),
        parser="lalr",
        lexer="contextual",
        keep_all_tokens=True,
        maybe_placeholders=False,
        transformer=Builder(),
    )


@cache
def _table() -> tuple[list[dict[str, Any]], int]:
    """Lark's table made lean: per state and symbol the state to go to, or the reduction (size, callback, symbol).

    Lark's own loop spends most of its time on the chain of rules that only pass a value on (``?sum: product``);
    they have no callback here. The second value is the state in which the text is complete.
    """
    conf = grammar().parse_interactive("").parser_state.parse_conf
    table: list[dict[str, Any]] = [{} for _ in conf.states]
    for state, actions in conf.states.items():
        for symbol, (action, target) in actions.items():
            if action is not Reduce:
                table[state][symbol] = target
                continue
            size = len(target.expansion)
            passes_on = size == 1 and target.options.expand1 and target.alias is None
            callback = None if passes_on else conf.callbacks[target]
            table[state][symbol] = (size, callback, target.origin.name)
    return table, conf.end_state


def _read(text: str, limits: Limits) -> Node:
    table, complete = _table()
    session: Any = grammar().parse_interactive(text)  # Lark's inner parts are not all annotated
    state = session.parser_state
    states, values = state.state_stack, state.value_stack
    before = states
    tokens = depth = inside_literal = 0
    is_literal = False
    highest = (limits.depth + _INSIDE_LITERALS) * _STATES_PER_LEVEL
    kind = ""
    try:
        for token in chain(session.lexer_thread.lex(state), (Token(END, ""),)):
            kind = token.type
            tokens += 1
            if tokens > limits.tokens and kind != END:
                raise _beyond("tokens", limits.tokens, "more", token.start_pos, text)
            if is_literal:
                inside_literal += (kind == "LPAR") - (kind == "RPAR")
                is_literal = inside_literal > 0
            elif kind == "LPAR" or kind == "LSQB":
                depth += 1
            elif kind == "RPAR" or kind == "RSQB":
                depth -= 1
            elif kind in _LITERALS:
                is_literal = True
            if depth > limits.depth or len(states) > highest:
                raise _beyond("depth", limits.depth, "deeper nesting", token.start_pos, text)
            # The parser may reduce rules before it finds that the token does not fit; the error must list what could
            # have followed in the state before that.
            before = states[:]
            while (action := table[states[-1]].get(kind)).__class__ is tuple:
                size, callback, symbol = action
                if callback is not None:
                    finished = callback(values[-size:])
                    del states[-size:], values[-size:]
                    values.append(finished)
                    states.append(table[states[-1]][symbol])
                else:
                    states[-1] = table[states[-2]][symbol]
                if states[-1] == complete and kind == END:
                    return values[-1]  # type: ignore[no-any-return]
            if action is None:
                raise UnexpectedToken(token, set())  # type: ignore[no-untyped-call]
            states.append(action)
            values.append(token)
            before = states
    except UnexpectedToken as error:
        states[:] = before
        values[:] = [None] * (len(before) - 1)
        wrong = error.token
        at = len(text.rstrip()) if wrong.type == END else wrong.start_pos
        raise complaint(text, at, wrong.type, str(wrong), session.accepts()) from None
    except UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        raise complaint(text, at, "", text[at], session.accepts()) from None
    raise AssertionError("the end is a token, and it completes or is refused")


def _measure(root: Node, limits: Limits, text: str) -> None:
    """Refuses a tree with too many nodes or levels; goes level by level, so a deep tree needs no deep stack."""
    level: list[Node] = [root]
    nodes = depth = 0
    while level:
        nodes += len(level)
        below: list[Node] = []
        for node in level:
            inner = _children(node)
            if inner is not None:
                if type(node) is Numbers and len(node.values) > limits.series:
                    raise _beyond("series", limits.series, f"{len(node.values)}", node.at, text)
                if depth == limits.depth:
                    raise _beyond("depth", limits.depth, "deeper nesting", node.at, text)
                below.extend(inner)
        if nodes > limits.nodes:
            raise _beyond("nodes", limits.nodes, "more", level[-1].at, text)
        level = below
        depth += 1


def _children(node: Node) -> tuple[Node, ...] | None:
    if type(node) is Call:
        return node.args
    if type(node) is Array:
        return node.items
    return () if type(node) is Numbers else None


_UNITS = {
    "tokens": "words, numbers and signs",
    "depth": "levels of nesting",
    "nodes": "attributes, literals and calls",
    "series": "numbers in a list",
}


def _beyond(limit: str, most: int, got: str, at: Place, text: str) -> LimitError:
    return located(LimitError, f"at most {most} {_UNITS[limit]} (limit {limit})", got, at, text)


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        at = error.start
        raise located(ParseError, "Unicode text", f"the lone surrogate {text[at]!r}", at, text) from None
