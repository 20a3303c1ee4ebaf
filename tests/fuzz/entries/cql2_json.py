"""CQL2-JSON: read, written, compiled, matched."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from random import Random
from zlib import crc32

import orjson

from tests.fuzz.cql2_grammar import Grammar
from tests.fuzz.entry_point import Clock, EntryPoint
from tests.fuzz.expressions import MOST_TEXT, checked
from tests.fuzz.mutations import mutated_bytes, mutated_json
from tests.language.test_oracle import CORPUS
from tidegate.errors import ParseError
from tidegate.language import from_json, parse, to_json

#: Values to put in.
VALUES = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2.5,
        1e308,
        2**53 + 1,
        10**30,
        "",
        "x",
        "..",
        "2026-11-15",
        "2026-11-15T08:00:00Z",
        "and",
    ),
    *(
        [],
        {},
        [1, 2],
        [[]],
        [[0, 0], [1, 1]],
        {"property": "n"},
        {"op": "+", "args": [1, 2]},
        {"op": "and", "args": []},
    ),
    *(
        {"timestamp": "2026-11-15T08:00:00Z"},
        {"date": "2026-02-30"},
        {"interval": ["..", ".."]},
        {"bbox": [1, 2, 3, 4]},
    ),
    *(
        {"type": "Point", "coordinates": [1, 2]},
        {"type": "Polygon", "coordinates": []},
        "not",
        "a_equals",
        "past",
        "\0",
    ),
    *({"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [1, 2]}]}, [1] * 40, "LIKE", "IN"),
]


class Cql2Json(EntryPoint):
    name = "cql2-json"
    suffix = ".json"

    @cached_property
    def _seeds(self) -> list[bytes]:
        return [orjson.dumps(to_json(parse(text))) for text in CORPUS]

    def seeds(self) -> list[bytes]:
        return self._seeds

    def draw(self, random: Random) -> bytes:
        data = orjson.dumps(to_json(parse(Grammar(random).expression())))
        if random.random() < 0.15:
            data = random.choice(self._seeds)
        chance = random.random()
        if chance < 0.45:
            return data
        if chance < 0.9:
            found = mutated_json(orjson.loads(data), random, VALUES)
            return _dumped(found)
        return mutated_bytes(data, random, self._seeds)

    def check(self, data: bytes, clock: Clock, scratch: Path) -> str:
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            raise ParseError("JSON", "something else") from None
        with clock.within(MOST_TEXT, "reading"):
            tree = from_json(value)
        return checked(tree, value, clock, crc32(data) % 2 == 0) if isinstance(value, dict | bool) else "no condition"


def _dumped(value: object) -> bytes:
    """JSON with whole numbers of any size, which orjson reads as floats."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
