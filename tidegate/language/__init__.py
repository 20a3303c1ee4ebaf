"""The subscription language: reads and writes CQL2 as text and as JSON, and has the expression tree for both.

It knows the notation of OGC 21-065r2 and nothing of predicates, patterns or publications; ``predicates`` and
``patterns`` give the tree its meaning.
"""

from __future__ import annotations

from tidegate.instant import duration, instant, render_instant
from tidegate.language.cql2json import from_json, to_json
from tidegate.language.limits import DEFAULT_LIMITS, Limits
from tidegate.language.parse import parse
from tidegate.language.render import to_text
from tidegate.language.text_position import located, position_of
from tidegate.language.tree import (
    Array,
    Attribute,
    Box,
    Call,
    Geometry,
    Instant,
    Interval,
    Literal,
    Node,
    Numbers,
    walk,
)

__all__ = [
    "DEFAULT_LIMITS",
    "Array",
    "Attribute",
    "Box",
    "Call",
    "Geometry",
    "Instant",
    "Interval",
    "Limits",
    "Literal",
    "Node",
    "Numbers",
    "duration",
    "from_json",
    "instant",
    "located",
    "parse",
    "position_of",
    "render_instant",
    "to_json",
    "to_text",
    "walk",
]
