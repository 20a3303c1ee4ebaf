"""SenML in JSON (RFC 8428): a pack of records, with base fields that count for those behind them, as objects of
attributes.

Records of one name, less its last part, and one time become one object. Knows no MQTT.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tidegate.errors import shown
from tidegate.model import moment
from tidegate.mqtt.message_refusals import MessageRefused
from tidegate.records.json_values import stamp

__all__ = ["SENML", "Measured", "of_pack"]

SENML = "application/senml+json"
#: Times below are seconds from now on, and those from there on since 1970.
_RELATIVE = 2**28
_VERSION = 10
_MOST_RECORDS = 10_000
_NUMBERS = ("bt", "bv", "bs", "v", "s", "t", "ut")
_TEXTS = ("bn", "bu", "n", "u", "vs", "vd")
_VALUES = ("v", "vs", "vb", "vd")
_KNOWN = {*_NUMBERS, *_TEXTS, "vb", "bver"}


class Measured(NamedTuple):
    """What one device measured at one time: the base of the names, the time as a text or None for now, and what."""

    base: str
    time: str | None
    attributes: dict[str, Any]


class _Base:
    """The base fields as they are behind a record."""

    def __init__(self) -> None:
        self.name, self.unit = "", ""
        self.time: float = 0
        self.value: float = 0
        self.sum: float = 0
        self.has_value = self.has_sum = self.has_time = False
        self.version: int | None = None

    def take(self, record: dict[str, Any]) -> None:
        self.name, self.unit = record.get("bn", self.name), record.get("bu", self.unit)
        if "bt" in record:
            self.time, self.has_time = record["bt"], True
        if "bv" in record:
            self.value, self.has_value = record["bv"], True
        if "bs" in record:
            self.sum, self.has_sum = record["bs"], True


def of_pack(pack: Any, now: int) -> list[Measured]:
    """What the records of a pack say; ``now`` in microseconds since 1970."""
    if not isinstance(pack, list) or not pack:
        raise _wrong("an array of records", shown(pack))
    if len(pack) > _MOST_RECORDS:
        raise _wrong(f"at most {_MOST_RECORDS:,} records", f"{len(pack):,}")
    base, found = _Base(), dict[tuple[str, float | None], list[Measured]]()
    for place, record in enumerate(pack):
        try:
            _check(record, base)
            base.take(record)
            _take(record, base, now, found)
        except MessageRefused as wrong:
            wrong.at = f"record {place}"
            raise
    return [one for several in found.values() for one in several]


def _check(record: Any, base: _Base) -> None:
    if not isinstance(record, dict):
        raise _wrong("an object", shown(record))
    for name in record:
        if name.endswith("_") and name not in _KNOWN:
            raise _wrong("no field that must be understood and is not", shown(name))
    for name in _NUMBERS:
        value = record.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise _wrong(f"a number as {name}", shown(value))
    for name in _TEXTS:
        if not isinstance(record.get(name, ""), str):
            raise _wrong(f"text as {name}", shown(record[name]))
    if not isinstance(record.get("vb", True), bool):
        raise _wrong("true or false as vb", shown(record["vb"]))
    version = record.get("bver", base.version)
    if version is not None and (type(version) is not int or not 0 < version <= _VERSION):
        raise _wrong(f"a bver of at most {_VERSION}", shown(version))
    if base.version is not None and version != base.version:
        raise _wrong("one bver", "several")
    base.version = version


def _take(record: dict[str, Any], base: _Base, now: int, found: dict[tuple[str, float | None], list[Measured]]) -> None:
    given = [name for name in _VALUES if name in record]
    if len(given) > 1:
        raise _wrong("one value", " and ".join(given))
    own = record.get("n", "")
    if not base.name + own:
        raise _wrong("a name", "none")
    said = dict[str, Any]()
    name = own or "value"
    if given and given[0] != "v":
        said[name] = record[given[0]]
    elif given or (base.has_value and "s" not in record and not base.has_sum):
        said[name] = base.value + record.get("v", 0) if base.has_value else record["v"]
    if "s" in record or base.has_sum:
        said[f"{name}.sum"] = base.sum + record.get("s", 0) if base.has_sum else record["s"]
    if not said:
        return  # base fields alone
    if unit := record.get("u", base.unit):
        said[f"{name}.unit"] = unit
    time = base.time + record.get("t", 0) if base.has_time or "t" in record else None
    several = found.setdefault((base.name, time), [])
    if not several or not several[-1].attributes.keys().isdisjoint(said):
        several.append(Measured(base.name, None if time is None else _time(time, now), {}))
    several[-1].attributes.update(said)


def _time(seconds: float, now: int) -> str | None:
    if seconds == 0:
        return None
    micros = round(seconds * 1e6) + (now if seconds < _RELATIVE else 0)
    try:
        return stamp(moment(micros))
    except (OverflowError, ValueError):
        raise _wrong("a time between the years 1 and 9999", f"{seconds:g}") from None


def _wrong(expected: str, got: str) -> MessageRefused:
    return MessageRefused("senml", expected, got)
