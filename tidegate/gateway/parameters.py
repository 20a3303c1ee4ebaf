"""Parameters of a query: what they are called, which values they may have, and how a value is read from its text.

Routes declare theirs; the router refuses what is not declared, and the document of the API describes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from tidegate.errors import shown
from tidegate.gateway.problems import RequestError

__all__ = ["AFTER", "LIMIT", "Parameter", "integer", "read_query", "seconds", "text"]

_MOST_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its name, what it is for, and the JSON schema of its value."""

    name: str
    description: str
    schema: Mapping[str, Any]
    default: Any = None
    required: bool = False

    def read(self, given: str) -> Any:
        """The value that a text stands for."""
        kind = self.schema["type"]
        if kind == "integer" and given.isascii() and given.isdecimal() and len(given) < 19:
            number: Any = int(given)
        elif kind == "number" and _is_number(given):
            number = float(given)
        elif kind == "string" and len(given) <= _MOST_CHARACTERS:
            return given
        else:
            raise self._wrong(given)
        if not self.schema.get("minimum", number) <= number <= self.schema.get("maximum", number):
            raise self._wrong(given)
        return number

    def _wrong(self, given: str) -> RequestError:
        kind, low, high = self.schema["type"], self.schema.get("minimum"), self.schema.get("maximum")
        bounds = "" if low is None else f" from {low}" + ("" if high is None else f" to {high}")
        if kind == "string":
            kind = f"text of at most {_MOST_CHARACTERS} characters"
        return RequestError(422, "parameter", f"{_ARTICLES.get(kind, kind)}{bounds}", shown(given), self.name)


_ARTICLES = {"integer": "a whole number", "number": "a number"}


def _is_number(given: str) -> bool:
    try:
        return given.isascii() and isfinite(float(given))
    except ValueError:
        return False


def integer(name: str, description: str, low: int, high: int, default: int | None = None) -> Parameter:
    schema: dict[str, Any] = {"type": "integer", "minimum": low, "maximum": high}
    return Parameter(name, description, schema if default is None else {**schema, "default": default}, default)


def seconds(name: str, description: str, high: float, default: float) -> Parameter:
    return Parameter(name, description, {"type": "number", "minimum": 0, "maximum": high, "default": default}, default)


def text(name: str, description: str, *, required: bool = False, default: str | None = None) -> Parameter:
    return Parameter(name, description, {"type": "string", "maxLength": _MOST_CHARACTERS}, default, required)


LIMIT = integer("limit", "How many at most.", 1, 1000, 100)
AFTER = text("after", "Go on behind this one: the `next` of the page before.")


def read_query(known: Sequence[Parameter], given: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The values of a query by name; of what is not there the defaults."""
    by_name, found = {one.name: one for one in known}, dict[str, Any]()
    for name, value in given:
        parameter = by_name.get(name)
        if parameter is None:
            names = ", ".join(sorted(by_name)) or "none"
            raise RequestError(422, "parameter", f"a parameter of {names}", shown(name), "the query")
        if name in found:
            raise RequestError(422, "parameter", "each parameter once", f"{name} twice", "the query")
        found[name] = parameter.read(value)
    for parameter in known:
        if parameter.name not in found:
            if parameter.required:
                raise RequestError(422, "parameter", f"a parameter {parameter.name}", "none", "the query")
            found[parameter.name] = parameter.default
    return found
