"""The TOML file of a run."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from random import Random

from tests.fuzz.entry_point import ACCEPTED, Clock, EntryPoint, WrongAnswer
from tests.fuzz.mutations import mutated_bytes, mutated_tokens
from tidegate.runs.config import load

_PAGE = Path(__file__).parents[3] / "docs" / "OPERATIONS.md"
_TOKEN = re.compile(r'"[^"\n]*"?|[\w.-]+|\s+|.', re.S)
_TOKENS = [
    *('"x"', '""', "true", "0", "-1", "1.5", "1e400", "nan", "inf"),
    *("[", "]", "{", "}", "=", ",", "\n", "[run]", "[[sinks]]", "#"),
    *("path", "type", "registry", "2026-11-15", "08:00:00"),
    *("10000000000000000000000", '"\\u0000"', "lateness", "[spark.settings]"),
]
_MINIMAL = """\
[source]
type = "log"
path = "log"

[subscriptions]
registry = "registry.db"

[[sinks]]
type = "parquet"
path = "out"

[run]
checkpoint = "checkpoint"
"""
_ISSUERS = """
[[issuers]]
issuer = "https://login.example"
audience = ["broker"]
algorithms = ["ES256"]
role_names = { "a" = "subscriber" }
skew = 5
"""


class TomlFiles(EntryPoint):
    name = "toml"
    suffix = ".toml"

    @cached_property
    def _seeds(self) -> list[str]:
        found = re.findall(r"```toml\n(.*?)```", _PAGE.read_text("utf-8"), re.S)
        return [_MINIMAL, _MINIMAL + _ISSUERS, *(text for text in found if "[source]" in text and "[run]" in text)]

    def seeds(self) -> list[bytes]:
        return [text.encode() for text in self._seeds]

    def draw(self, random: Random) -> bytes:
        text = random.choice(self._seeds)
        chance = random.random()
        if chance < 0.05:
            return text.encode()
        if chance < 0.8:
            return "".join(mutated_tokens(_TOKEN.findall(text), random, _TOKENS)).encode()
        return mutated_bytes(text.encode(), random, self.seeds())

    def check(self, data: bytes, clock: Clock, scratch: Path) -> str:
        path = scratch / "pipeline.toml"
        path.write_bytes(data)
        with clock.within(0.1, "loading"):
            config = load(path)
        if repr(load(path)) != repr(config):
            raise WrongAnswer("another configuration when it is loaded again")
        return ACCEPTED
