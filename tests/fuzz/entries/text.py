"""CQL2-text: read, written, compiled, matched."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from random import Random
from zlib import crc32

from tests.fuzz.cql2_grammar import TOKENS, Grammar, tokens
from tests.fuzz.entry_point import Clock, EntryPoint
from tests.fuzz.expressions import MOST_TEXT, checked
from tests.fuzz.mutations import mutated_tokens
from tests.language.test_oracle import CORPUS
from tidegate.language import parse
from tidegate.predicates.family import FUNCTIONS, MEASURES


class Text(EntryPoint):
    name = "text"
    suffix = ".cql2"

    @cached_property
    def _seeds(self) -> list[str]:
        examples = [known.example for known in (*FUNCTIONS.values(), *MEASURES.values())]
        drawn = [Grammar(Random(f"seed {i}")).expression() for i in range(60)]
        return [*drawn, *CORPUS, *examples]

    def seeds(self) -> list[bytes]:
        return [text.encode() for text in self._seeds]

    def draw(self, random: Random) -> bytes:
        chance = random.random()
        if chance < 0.03:
            return "".join(random.choice(TOKENS) + " " for _ in range(random.randrange(40))).encode()
        text = Grammar(random).expression() if chance < 0.8 else random.choice(self._seeds)
        if 0.5 < chance < 0.95:
            text = "".join(mutated_tokens(tokens(text), random, TOKENS))
        elif chance > 0.95:
            at = random.randrange(len(text) + 1)
            text = (
                text[:at]
                + chr(random.choice((0, 39, 34, 40, 0xD7FF, 0x10FFFF, 0x212A)))
                + text[at + random.randrange(3) :]
            )
        return text.encode()

    def check(self, data: bytes, clock: Clock, scratch: Path) -> str:
        text = data.decode(errors="surrogateescape")
        with clock.within(MOST_TEXT, "reading"):
            tree = parse(text)
        return checked(tree, text, clock, crc32(data) % 2 == 0)
