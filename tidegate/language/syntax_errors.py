"""Messages for syntax errors in CQL2-text: what could have stood at a place, and what stands there.

``parse`` calls ``complaint``, which translates the parser's terminals into plain words, and recognises the habits of
other languages.
"""

from __future__ import annotations

from collections.abc import Set

from tidegate.errors import shown
from tidegate.language.text_position import Misplaced

__all__ = ["END", "complaint"]

END = "$END"

_VALUES = {"NUMBER", "STRING", "TRUE", "FALSE", "NAME", "QUOTED", "LPAR", "LSQB", "SIGN", "NOT"}
_VALUES |= {"TIMESTAMP", "DATE", "INTERVAL", "BBOX"}
_GEOMETRIES = {"POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION"}

#: A sign, the phrase said when that terminal could have come, and what else the phrase stands for; in message order.
_PHRASES: tuple[tuple[str, str, Set[str]], ...] = (
    ("NUMBER", "an attribute, a value or '('", _VALUES | _GEOMETRIES),
    ("POINT", "a geometry (POINT, POLYGON, …)", _GEOMETRIES),
    ("NAME", "an attribute or a date, a timestamp or '..' in single quotes", {"NAME", "QUOTED", "STRING"}),
    ("COMPARE", "a comparison (=, <, LIKE, IN, …)", {"COMPARE", "LIKE", "BETWEEN", "IN", "IS", "NOT", "LPAR"}),
    ("SIGN", "an arithmetic operator (+, *, …)", {"SIGN", "TIMES", "DIV", "RAISED", "LPAR"}),
    ("LIKE", "LIKE", set()),
    ("BETWEEN", "BETWEEN", set()),
    ("IN", "IN", set()),
    ("NULL", "NULL", set()),
    ("NOT", "NOT", set()),
    ("AND", "AND", set()),
    ("OR", "OR", set()),
    ("STRING", "a text in single quotes", set()),
    ("NUMBERS", "numbers such as 15.9, 45.7, 16.1, 45.9", set()),
    ("COORDINATES", "coordinates such as 15.97 45.81", set()),
    ("LPAR", "'('", set()),
    ("COMMA", "','", set()),
    ("RPAR", "')'", set()),
    ("RSQB", "']'", set()),
    (END, "the end", set()),
)

_HABITS = {
    "!=": "'<>' for not equal",
    "&&": "AND",
    "||": "OR",
    "‘": "a straight single quote (')",
    "’": "a straight single quote (')",
    "“": "straight quotes",
    "”": "straight quotes",
}


def complaint(text: str, offset: int, terminal: str, token: str, accepted: Set[str]) -> Misplaced:
    """The error that ``token`` is at the offset, where only the accepted terminals could follow."""
    for habit, wanted in _HABITS.items():
        if text.startswith(habit, offset):
            return Misplaced(wanted, shown(habit), offset)
    if terminal == "COMPARE" and offset and text.startswith("==", offset - 1):
        return Misplaced("a single '='", "'=='", offset - 1)
    if terminal == "NULL" and "NUMBER" in accepted:
        return Misplaced("a value (IS NULL and IS NOT NULL test for a missing one)", "NULL", offset)
    if not terminal and token in ("'", '"'):
        kind = "single quote at the end of this text" if token == "'" else "double quote at the end of this name"
        return Misplaced(f"a {kind}", "none", offset)
    return Misplaced(_wanted(accepted), _got(terminal, token), offset)


def _wanted(accepted: Set[str]) -> str:
    left = set(accepted)
    phrases = []
    for sign, phrase, terminals in _PHRASES:
        if sign in left:
            phrases.append(phrase)
            left -= terminals | {sign}
    return f"{', '.join(phrases[:-1])} or {phrases[-1]}" if len(phrases) > 1 else phrases[0]


def _got(terminal: str, token: str) -> str:
    if terminal == END:
        return "the end of the text"
    if terminal in ("NUMBER", "NUMBERS", "COORDINATES"):
        return f"the number {token}" if len(token) <= 40 else f"the number {token[:40]}…"
    if terminal == "STRING":
        return f"the text {shown(token[1:-1].replace(2 * token[0], token[0]))}"
    return shown(token)
