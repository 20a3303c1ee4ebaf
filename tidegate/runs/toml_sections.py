"""Sections of a TOML file as frozen dataclasses: every key has a *kind*, the function that checks and reads its value.

Knows keys, kinds and places in the file, and raises one sentence for a mistake. The dataclasses in ``config``,
``source_sections`` and ``sink_sections`` say what keys there are and what they mean.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, field, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tidegate.errors import SettingError, shown

__all__ = [
    "KeyPosition",
    "Kind",
    "choice",
    "count",
    "directory",
    "key",
    "location",
    "locations",
    "networks",
    "number",
    "number_or_off",
    "port",
    "section",
    "seed",
    "size",
    "table",
    "text",
    "texts",
    "truth",
    "words",
]

S = TypeVar("S")


class KeyPosition(NamedTuple):
    """Where a value stands: the file, and the section and key in it. Relative paths begin at the file's directory."""

    file: Path
    name: str

    def __str__(self) -> str:
        return f"{self.name} of {self.file}"

    def key(self, name: str) -> KeyPosition:
        return KeyPosition(self.file, f"{self.name}.{name}" if self.name else name)

    def wrong(self, expected: str, got: object) -> SettingError:
        return SettingError(expected, got if isinstance(got, _InWords) else shown(got), str(self))


class _InWords(str):
    """A text for the "got …" of an error that is words of ours, not a value to be quoted."""


Kind = Callable[[Any, KeyPosition], Any]


def key(kind: Kind, default: Any = MISSING) -> Any:
    """A field of a section: the kind that reads its value, and the default if the key is not there."""
    return field(default=default, metadata={"kind": kind})


def section(cls: type[S], given: Any, at: KeyPosition, beside: Iterable[str] = ()) -> S:
    """The section as a dataclass. ``beside`` are keys that the caller has read already."""
    known = {one.name: one for one in fields(cls)}  # type: ignore[arg-type]
    values = table(given, at)
    for name in values:
        if name not in known and name not in beside:
            raise _unknown(name, [*beside, *known], at.key(name), "a key")
    read: dict[str, Any] = {}
    for name, one in known.items():
        if name in values:
            read[name] = one.metadata["kind"](values[name], at.key(name))
        elif one.default is MISSING:
            raise at.key(name).wrong(f"a key {name}", _InWords(f"only {', '.join(values)}" if values else "none"))
    return cls(**read)


def choice(known: Mapping[str, S], given: Any, at: KeyPosition) -> S:
    """The value that a name stands for; an error lists the known names."""
    if not isinstance(given, str) or given not in known:
        raise _unknown(given, known, at, "one")
    return known[given]


def _unknown(given: Any, known: Iterable[str], at: KeyPosition, what: str) -> SettingError:
    names = sorted(known)
    close = difflib.get_close_matches(given, names, 1) if isinstance(given, str) else []
    meant = f" (did you mean {close[0]}?)" if close else ""
    return at.wrong(f"{what} of {', '.join(names)}", _InWords(shown(given) + meant))


# --- kinds ----------------------------------------------------------------------------------------------------------


def text(value: Any, at: KeyPosition) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise at.wrong("text that is not empty", value)
    return value


def runner(value: Any, at: KeyPosition) -> str:
    """Who runs the batches."""
    if value not in ("spark", "process"):
        raise at.wrong("spark or process", value)
    return str(value)


def location(value: Any, at: KeyPosition) -> str:
    """A path, made absolute, or a URL as it is."""
    found = text(value, at)
    return found if "://" in found else os.path.abspath(at.file.parent / found)


def directory(value: Any, at: KeyPosition) -> str:
    """A path of this machine, made absolute."""
    found = location(value, at)
    if "://" in found:
        raise at.wrong("a directory of this machine", value)
    return found


def locations(value: Any, at: KeyPosition) -> tuple[str, ...]:
    """Paths, made absolute, and URLs as they are."""
    if not isinstance(value, list):
        raise at.wrong("a list of paths", value)
    return tuple(location(one, at.key(str(number))) for number, one in enumerate(value))


def truth(value: Any, at: KeyPosition) -> bool:
    if not isinstance(value, bool):
        raise at.wrong("true or false", value)
    return value


def count(value: Any, at: KeyPosition) -> int:
    return _whole(value, at, 1, 2**63 - 1)


def size(value: Any, at: KeyPosition) -> int:
    """Bytes; 0 where there is no such size."""
    return _whole(value, at, 0, 2**63 - 1)


def seed(value: Any, at: KeyPosition) -> int:
    return _whole(value, at, 0, 2**63 - 1)


def _whole(value: Any, at: KeyPosition, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise at.wrong(f"a whole number from {low}" + (f" to {high}" if high < 2**63 - 1 else ""), value)
    return value


def number(value: Any, at: KeyPosition) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise at.wrong("a number of 0 or more", value)
    return float(value)


def number_or_off(value: Any, at: KeyPosition) -> float:
    """A number, or infinity for "off"."""
    if value == "off":
        return math.inf
    if isinstance(value, str):
        raise at.wrong('a number of 0 or more, or "off"', value)
    return number(value, at)


def port(value: Any, at: KeyPosition) -> tuple[str, int]:
    """An address and a port; a port alone is on this machine's own address, which others do not reach."""
    address, _, digits = value.rpartition(":") if isinstance(value, str) else ("", "", value)
    if isinstance(digits, str) and digits.isdecimal():
        digits = int(digits)
    if isinstance(digits, bool) or not isinstance(digits, int) or not 0 <= digits <= 65_535:
        raise at.wrong('a port from 0 to 65535, or "address:port"', value)
    return address.removeprefix("[").removesuffix("]") or "127.0.0.1", digits


def texts(value: Any, at: KeyPosition) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise at.wrong("a list of text", value)
    return tuple(text(one, at.key(str(number))) for number, one in enumerate(value))


def networks(value: Any, at: KeyPosition) -> tuple[str, ...]:
    """Addresses of machines, and networks such as "10.0.0.0/8"."""
    found = texts(value, at)
    for place, one in enumerate(found):
        try:
            ip_network(one)
        except ValueError:
            raise at.key(str(place)).wrong('an address, or a network such as "10.0.0.0/8"', one) from None
    return found


def words(value: Any, at: KeyPosition) -> dict[str, str]:
    """Names and values for Spark or Kafka, which take only text. TOML reads names with dots as tables, which are joined
    to names again.
    """
    read: dict[str, str] = {}
    for name, one in table(value, at).items():
        if isinstance(one, dict):
            read |= {f"{name}.{rest}": found for rest, found in words(one, at.key(name)).items()}
        elif isinstance(one, bool):
            read[name] = str(one).lower()
        elif isinstance(one, str | int | float):
            read[name] = str(one)
        else:
            raise at.key(name).wrong("text, a number, true or false", one)
    return read


def table(value: Any, at: KeyPosition) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise at.wrong(f"a section [{at.name}]", value)
    return value
