"""Rules for the fields of messages: a ``Rule`` reads a value from JSON, checks it in an object, and writes it as JSON.

``overlay/wire.py`` puts rules together for each kind of message. A value that a rule refuses raises ``MessageError``,
which has the path to it. Knows no message and no bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields
from itertools import repeat
from typing import Any, cast

from tidegate.errors import MessageError, TidegateError
from tidegate.language.json_errors import got, keys

__all__ = [
    "LARGEST",
    "BoundRule",
    "EachRule",
    "KindsRule",
    "ManyRule",
    "NumberRule",
    "ObjectRule",
    "Rule",
    "TextRule",
    "WholeRule",
    "encodable",
]

#: Of a 64-bit float.
LARGEST = 1.7976931348623157e308


class Rule(ABC):
    """``check`` refuses a value that an object holds, ``read`` makes a value from JSON, ``write`` makes JSON of it."""

    @abstractmethod
    def check(self, value: Any) -> None:
        """Raise ``MessageError`` if this is no such value."""

    def read(self, json: Any) -> Any:
        """The value that the JSON stands for; ``MessageError`` if it stands for none."""
        self.check(json)
        return json

    def write(self, value: Any) -> Any:
        """The JSON of a value that was checked."""
        return value


# --- single values --------------------------------------------------------------------------------------------------


class TextRule(Rule):
    """Text that is not empty and has at most so many characters."""

    def __init__(self, most: int) -> None:
        self.most = most

    def check(self, value: Any) -> None:
        if type(value) is not str or not value:
            raise MessageError("a non-empty string", got(value))
        if len(value) > self.most:
            raise MessageError(f"at most {self.most} characters", f"{len(value)}")
        encodable(value)


def encodable(text: str) -> None:
    """Refuse a string that Python has but UTF-8 cannot encode."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise MessageError("Unicode text", f"{got(text)} with a lone surrogate") from None


class WholeRule(Rule):
    """A whole number within limits."""

    def __init__(self, what: str, least: int, most: int) -> None:
        self.what, self.least, self.most = what, least, most

    def check(self, value: Any) -> None:
        if type(value) is not int or not self.least <= value <= self.most:
            raise MessageError(self.what, got(value))


class NumberRule(Rule):
    """A finite number. It travels as a 64-bit float; an integer that no float equals would arrive as another one."""

    def __init__(self, what: str = "a finite number", least: float = -LARGEST, most: float = LARGEST) -> None:
        self.what, self.least, self.most = what, least, most

    def check(self, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.least <= value <= self.most:
            raise MessageError(self.what, got(value))
        if float(value) != value:
            raise MessageError("a number that is a 64-bit float", got(value))

    def read(self, json: Any) -> float:
        number = float(json) if type(json) is int else json
        self.check(number)
        return cast(float, number)

    def write(self, value: Any) -> float | None:
        return float(value)  # 5 as 5.0: equal messages have equal bytes


class BoundRule(NumberRule):
    """A bound that may be missing: then it is ``missing``, the infinity on its side, and null in JSON."""

    def __init__(self, missing: float) -> None:
        super().__init__("a finite number or no bound")
        self.missing = missing

    def check(self, value: Any) -> None:
        if not isinstance(value, float) or value != self.missing:
            super().check(value)

    def read(self, json: Any) -> float:
        return self.missing if json is None else super().read(json)

    def write(self, value: Any) -> float | None:
        return None if value == self.missing else float(value)


# --- several values -------------------------------------------------------------------------------------------------


class EachRule(Rule):
    """A tuple with a rule for each place; in JSON a list."""

    def __init__(self, what: str, *rules: Rule) -> None:
        self.what, self.rules = what, rules

    def check(self, value: Any) -> None:
        self._run(value, tuple, [rule.check for rule in self.rules])

    def read(self, json: Any) -> tuple[Any, ...]:
        return self._run(json, list, [rule.read for rule in self.rules])

    def write(self, value: Any) -> list[Any]:
        return [rule.write(item) for rule, item in zip(self.rules, value, strict=True)]

    def _run(self, some: Any, kind: type[Any], acts: list[Callable[[Any], Any]]) -> tuple[Any, ...]:
        if type(some) is not kind or len(some) != len(acts):
            raise MessageError(f"{self.what} as a {kind.__name__} of {len(acts)}", got(some))
        return _placed(acts, some)


class ManyRule(Rule):
    """A tuple of any number, or at most so many, under one rule; in JSON a list. With ``key`` each is there once."""

    def __init__(self, rule: Rule, most: int | None = None, key: Callable[[Any], str] | None = None) -> None:
        self.rule, self.most, self.key = rule, most, key

    def check(self, value: Any) -> None:
        self._run(value, tuple, self.rule.check)
        self._once(value)

    def read(self, json: Any) -> tuple[Any, ...]:
        found = self._run(json, list, self.rule.read)
        self._once(found)
        return found

    def write(self, value: Any) -> list[Any]:
        return [self.rule.write(item) for item in value]

    def _run(self, some: Any, kind: type[Any], act: Callable[[Any], Any]) -> tuple[Any, ...]:
        if type(some) is not kind:
            raise MessageError(f"a {kind.__name__}", got(some))
        if self.most is not None and len(some) > self.most:
            raise MessageError(f"at most {self.most}", f"{len(some)}")
        return _placed(repeat(act), some)

    def _once(self, some: tuple[Any, ...]) -> None:
        names: set[str] = set()
        for name in map(self.key, some) if self.key else ():
            if name in names:
                raise MessageError("each of them once", f"{got(name)} twice")
            names.add(name)


def _placed(acts: Iterable[Callable[[Any], Any]], some: Iterable[Any]) -> tuple[Any, ...]:
    """The results of calling each act with its value; an error has the position of the value in its path."""
    made: list[Any] = []
    try:
        for act, value in zip(acts, some, strict=False):
            made.append(act(value))
    except MessageError as error:
        error.at = f"[{len(made)}]{error.at}"
        raise
    return tuple(made)


# --- objects --------------------------------------------------------------------------------------------------------


class ObjectRule(Rule):
    """An object of a dataclass with a rule for each field. In JSON a field that has its default is left out."""

    def __init__(self, made: type[Any], **rules: Rule) -> None:
        self.made, self.rules, self.name = made, rules, made.__name__.lower()
        self.defaults = {field.name: field.default for field in fields(made)}

    def check(self, value: Any) -> None:
        if type(value) is not self.made:
            raise MessageError(f"an object of class {self.made.__name__}", got(value))
        name = ""
        try:
            for name, rule in self.rules.items():
                held = getattr(value, name, MISSING)  # an object may have been made without __init__
                if held is MISSING or held is not self.defaults[name]:
                    rule.check(held)
        except MessageError as error:
            error.at = f".{name}{error.at}"
            raise

    def read(self, json: Any) -> Any:
        if type(json) is not dict:
            raise MessageError("an object", got(json))
        name, held = "", {}
        try:
            for name, rule in self.rules.items():
                if name in json:
                    held[name] = rule.read(json[name])
                elif self.defaults[name] is MISSING:
                    raise MessageError("this field in the object", keys(json))
        except MessageError as error:
            error.at = f".{name}{error.at}"
            raise
        if len(held) < len(json):
            extra = next(name for name in json if name not in held)
            raise MessageError(f"no field but {', '.join(self.rules)}", got(extra))
        try:
            return self.made(**held)
        except TidegateError as wrong:
            raise MessageError(wrong.expected, wrong.got) from None

    def write(self, value: Any) -> dict[str, Any]:
        held = {name: getattr(value, name) for name in self.rules}
        return {name: self.rules[name].write(it) for name, it in held.items() if it != self.defaults[name]}


class KindsRule(Rule):
    """An object of one of several classes; in JSON it names its ``kind``."""

    def __init__(self, *rules: ObjectRule) -> None:
        self.by_class = {rule.made: rule for rule in rules}
        self.by_name = {rule.name: rule for rule in rules}

    def check(self, value: Any) -> None:
        rule = self.by_class.get(type(value))
        if rule is None:
            raise MessageError(f"an object of class {', '.join(made.__name__ for made in self.by_class)}", got(value))
        rule.check(value)

    def read(self, json: Any) -> Any:
        if type(json) is not dict:
            raise MessageError("an object", got(json))
        kind = json.get("kind")
        rule = self.by_name.get(kind) if type(kind) is str else None
        if rule is None:
            raise MessageError(f"one of {', '.join(self.by_name)}", got(kind), ".kind")
        return rule.read({name: value for name, value in json.items() if name != "kind"})

    def write(self, value: Any) -> dict[str, Any]:
        rule = self.by_class[type(value)]
        return {"kind": rule.name, **rule.write(value)}
