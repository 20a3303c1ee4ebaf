"""Publications as JSON: one by one, as commands read them, and many at once, as the pipeline does."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import orjson

from tests.fuzz.entry_point import ACCEPTED, Clock, EntryPoint, WrongAnswer
from tests.fuzz.mutations import mutated_bytes, mutated_json
from tests.fuzz.publishing import MOST_PUBLICATION, agreed, engine, told
from tidegate.errors import PublicationError
from tidegate.index.batch import sift
from tidegate.records import expand, publication

_BASE = {"id": "p1", "source": "z7", "time": "2026-11-15T08:00:00Z"}
RECORDS = [
    _BASE,
    _BASE | {"n": 2, "o3": 41.5, "kind": "rain", "flag": True},
    _BASE | {"attributes": {"n": 1e300, "kind": "Abc", "tags": ["a", "b"]}},
    _BASE | {"location": {"lon": 7, "lat": 46}, "spot": {"type": "Point", "coordinates": [7.5, 45.5]}},
    _BASE | {"start": "2026-11-15T07:00:00+01:00", "end": "2026-11-15T08:00:00.5Z", "phase": "START"},
    _BASE | {"levels": [1, 2.5, 3], "wave": [1, 2, 3, 2, 1], "seen": {"timestamp": "2026-11-15T07:59:59Z"}},
    _BASE | {"valid_until": "2026-11-16T00:00:00Z", "day": {"date": "2026-11-15"}, "wine": "vin:Chianti", "none": None},
    _BASE | {"id": "é", "tags": ["ab", "", "é"], "attributes": None, "n": -0.0, "levels": []},
]
#: Values to put in.
VALUES = [
    *(None, True, False, 0, -1, 2.5, 1e308, 2**53 + 1, 2**63, 2**64),
    *(-(2**63) - 1, 10**30, 10**400, "", "x", "\0", "2026-11-15"),
    *("2026-11-15T08:00:00Z", "0001-01-01T00:00:00+05:00"),
    *("9999-12-31T23:59:59-05:00", "2026-11-15T08:00:00", "START", "END"),
    *([], {}, [1, "a"], [None], [[1]], [True, 1], [1, 2.5], [2**64, 1], {"lon": 181, "lat": 0}, {"lon": 1, "lat": "x"}),
    *({"lon": 1, "lat": 2, "z": 3}, {"type": "Point", "coordinates": [1, 2, 3]}, {"type": "Point", "coordinates": [1]}),
    *({"timestamp": "2026-11-15"}, {"timestamp": 5}),
    *({"date": "2026-02-30"}, {"gap": "NaN"}, "INSTANT", "NaN", "z" * 2000),
]
_NAMES = ["n", "kind", "tags", "spot", "seen", "levels", "é", "a b", "event", "location", "phase", "time", "attributes"]


class PublicationJson(EntryPoint):
    name = "publication-json"
    suffix = ".json"

    def seeds(self) -> list[bytes]:
        return [orjson.dumps(record) for record in RECORDS]

    def draw(self, random: Random) -> bytes:
        record = random.choice(RECORDS) | random.choice(RECORDS)
        chance = random.random()
        if chance < 0.2:
            return orjson.dumps(record)
        if chance < 0.85:
            if random.random() < 0.5:
                record = record | {random.choice(_NAMES): random.choice(VALUES)}
            return json.dumps(mutated_json(record, random, VALUES), ensure_ascii=False).encode()
        return mutated_bytes(orjson.dumps(record), random, self.seeds())

    def check(self, data: bytes, clock: Clock, scratch: Path) -> str:
        with clock.within(MOST_PUBLICATION, "reading many"):
            parts, faults = expand([data], None)
        batches = []
        for _, table in parts:
            batch, more = sift(table)
            faults = [*faults, *more]
            batches.append(table if batch.kept is None else table.take(batch.kept))
        one = _object(data, clock)
        if isinstance(one, PublicationError):
            if any(table.num_rows for table in batches):
                raise WrongAnswer(f"a publication among many, and alone: {one}")
            raise one
        mixed = any(isinstance(value, list) and len(set(map(type, value))) > 1 for value in one.attributes.values())
        if faults:
            if not mixed:
                raise WrongAnswer(f"a publication alone, and among many: {faults[0].reason}")
            return "mixed list"
        found = {pair for table in batches for pair in _told_of(table)}
        agreed(told([one], clock), found, "told otherwise as an object and in a table")
        return ACCEPTED


def _object(data: bytes, clock: Clock):
    try:
        with clock.within(MOST_PUBLICATION, "reading one"):
            record = orjson.loads(data)
            if not isinstance(record, dict):
                raise PublicationError("a JSON object", "another value")
            return publication(record, "here")
    except orjson.JSONDecodeError:
        return PublicationError("JSON", "something else")
    except PublicationError as error:
        return error


def _told_of(table) -> set[tuple[str, str]]:
    found = engine().publish(table)
    ids, subscriptions = found["publication_ids"].to_pylist(), found["subscription_id"].to_pylist()
    return {(id[0], who) for id, who in zip(ids, subscriptions, strict=True)}
