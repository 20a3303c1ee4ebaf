"""Rows of a registry, as another program may have changed them."""

from __future__ import annotations

import sqlite3
from functools import cached_property
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import orjson

import tidegate as tg
from tests.fuzz.cql2_grammar import TOKENS, Grammar, tokens
from tests.fuzz.entry_point import ACCEPTED, Clock, EntryPoint, WrongAnswer
from tests.fuzz.mutations import mutated_tokens
from tidegate.store.database import key
from tidegate.subscriptions import compile_subscription

_COLUMNS = ["since", "until", "id_key", "id", "subscriber", "expression", "active_from", "active_until", "created"]
_COLUMNS += ["asked", "initial", "fields", "expired", "destination", "origin", "read_filter"]
_TEXTS = ["", "x", "\0", "é", "n > 1", '{"op": ">", "args": [{"property": "n"}, 1]}', "{", "z" * 1100, "true", "[1]"]
_VALUES = [*_TEXTS, '"x"', "null", "TRUE", "n >", None, 0, 1, -1, 2**62, -(2**63), 1.5, 10**15]


class RegistryRows(EntryPoint):
    """An input is a JSON object of columns and the values that are put into the one row."""

    name = "registry-rows"
    suffix = ".json"

    @cached_property
    def _path(self) -> Path:
        path = Path(mkdtemp(prefix="fuzz-registry-")) / "registry.db"
        with tg.Registry(path) as registry:
            registry.subscribe(tg.Subscription("s1", "ann", "n > 1"))
        return path

    @cached_property
    def _connection(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, isolation_level=None)

    @cached_property
    def _registry(self) -> tg.Registry:
        return tg.Registry(self._path)

    def seeds(self) -> list[bytes]:
        return [b"{}"]

    def draw(self, random: Random) -> bytes:
        text = Grammar(random).expression()
        if random.random() < 0.3:
            text = "".join(mutated_tokens(tokens(text), random, TOKENS))
        row = {"expression": text} if random.random() < 0.7 else {}
        for _ in range(random.choice((0, 0, 1, 1, 2))):
            row[random.choice(_COLUMNS)] = random.choice(_VALUES)
        return orjson.dumps(row)

    def check(self, data: bytes, clock: Clock, scratch: Path) -> str:
        row = {"since": 1, "until": None, "id": "s1", "subscriber": "ann", "expression": "n > 1", "asked": None}
        row |= {
            "initial": None,
            "fields": None,
            "expired": None,
            "destination": None,
            "origin": None,
            "read_filter": None,
        }
        row |= {"active_from": None, "active_until": None, "created": 0, "id_key": key("ann/s1")} | orjson.loads(data)
        self._connection.execute("BEGIN")
        try:
            names = ", ".join(f"{name} = ?" for name in row)
            self._connection.execute(f"UPDATE tidegate_subscriptions SET {names}", list(row.values()))
        except (sqlite3.IntegrityError, OverflowError):
            self._connection.execute("ROLLBACK")
            return "not stored"
        self._connection.execute("COMMIT")
        with clock.within(0.2, "reading"):
            subscriptions, listed = list(self._registry), self._registry.listing()
            stored = list(self._registry.rows(-(2**63), 2**63 - 1))
        for one in stored:
            compile_subscription(one.meant, tg.Limits(), one.condition)
        if row["until"] is None and [one.id for one in subscriptions] != [str(row["id"])]:
            raise WrongAnswer(f"the registry has {subscriptions}")
        if len(listed) != len(subscriptions):
            raise WrongAnswer(f"the registry lists {listed}")
        return ACCEPTED
