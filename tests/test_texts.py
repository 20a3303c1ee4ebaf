"""LIKE in the index against its plain meaning: the kernel, the grams, what leads to a clause, and hard texts."""

from __future__ import annotations

import random
import re
import time
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tidegate import array_bundle
from tidegate.index.batch import ObjectBatch
from tidegate.index.index import Index
from tidegate.index.text_terms import _written
from tidegate.kernels.like import fits
from tidegate.language import parse
from tidegate.predicates.filter import compile_filter
from tidegate.predicates.like_pattern import WILD_LENGTH, like_pattern
from tidegate.sealed_directory import seal

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
#: Characters of one to four bytes, some that combine, and some whose folding is longer than they are.
ALPHABETS = ("ab", "abc ", "aé\u0301", "sSßẞ", "iİı\u0307", "ﬁfi", "a\u0323\u0307ạ", "x😀𝄞", "\\%_a")

_letters = st.sampled_from(ALPHABETS)
_texts = _letters.flatmap(lambda some: st.text(some, max_size=24))
_patterns = _letters.flatmap(lambda some: st.lists(st.sampled_from([*some, "%", "_", "\\%", "\\_"]), max_size=12)).map(
    "".join
)


def fitting(pattern: str, text: str) -> bool:
    program = np.frombuffer(bytearray(_written(pattern) + b"\0"), np.uint8)  # may be written, as that of an index
    letters = np.frombuffer(text.encode() + b"\0", np.uint8)
    return fits(program, 0, len(program) - 1, letters, 0, len(letters) - 1)


@examples(400)
@given(_patterns, _texts)
def test_the_kernel_reads_a_pattern_as_the_predicate_does(pattern, text):
    assert fitting(pattern, text) is like_pattern(pattern).fits(text)


@examples(100)
@given(st.text("ab", min_size=1, max_size=8), st.integers(1, 400), st.text("ab%_", max_size=40))
def test_texts_that_repeat_themselves(unit, times, pattern):
    text = unit * times
    for wanted in (f"%{pattern}%", f"%{unit * (times // 2)}{pattern}%", f"%{unit * times}b%"):
        like = like_pattern(wanted)
        if like.longest_wild <= WILD_LENGTH:  # the language has no others
            assert fitting(wanted, text) is like.fits(text)


# --- the index ------------------------------------------------------------------------------------------------------


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class Drawn:
    """Conditions and attributes over one alphabet, so that many texts are as patterns say."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.letters = self.rng.choice(ALPHABETS[:-1])

    def text(self, most: int) -> str:
        return "".join(self.rng.choices(self.letters, k=self.rng.randint(0, most)))

    def pattern(self) -> str:
        some = [self.text(self.rng.choice((2, 5, 12))) for _ in range(self.rng.randint(1, 3))]
        begin, between, end = (self.rng.choice(("", "%", "%", "_", "%_")) for _ in range(3))
        return begin + between.join(some) + end

    def like(self) -> str:
        how = self.rng.choice(("{}", "{}", "CASEI({})", "ACCENTI({})", "CASEI(ACCENTI({}))"))
        no = self.rng.choice(("", "", "", "NOT "))
        return f"{no}{how.format(self.rng.choice('sst'))} LIKE {how.format(_quoted(self.pattern()))}"

    def where(self) -> str:
        kind, low = self.rng.randrange(30), self.rng.randrange(4)
        others = (f"kind = 'k{kind}'", f"n >= {low}", f"n <> {low}", f"a_overlaps(bag, ({low}, 7))")
        parts = [
            self.like() if self.rng.random() < 0.7 else self.rng.choice(others)
            for _ in range(self.rng.choice((1, 1, 2, 3)))
        ]
        return self.rng.choice((" AND ", " AND ", " OR ")).join(f"({part})" for part in parts)

    def attributes(self) -> dict[str, object]:
        rng = self.rng
        some = {
            "s": self.text(30),
            "t": self.text(8),
            "n": rng.randrange(4),
            "kind": f"k{rng.randrange(30)}",
            "bag": [rng.randrange(4)],
        }
        return {name: 5 if rng.random() < 0.02 else value for name, value in some.items() if rng.random() < 0.95}


def told(index: Index, publications) -> list[list[int]]:
    start, owners = index.match(ObjectBatch(publications))
    return [sorted(owners[a:b].tolist()) for a, b in pairwise(start)]


@examples(16)
@given(st.integers(0, 2**32))
def test_an_index_tells_what_the_filters_say(seed):
    """In several segments and in one, with owners removed, in batches and one at a time, and out of a snapshot."""
    drawn = Drawn(seed)
    wheres = [drawn.where() for _ in range(80)]
    attributes = [drawn.attributes() for _ in range(12)]
    gone, several = set(drawn.rng.sample(range(80), 9)), drawn.rng.choice((7, 30, 100))
    filters = [compile_filter(parse(where)) for where in wheres]
    publications = [tg.Publication(f"p{i}", "z", NOON, some) for i, some in enumerate(attributes)]
    lives = [owner for owner in range(len(filters)) if owner not in gone]
    expected = [[owner for owner in lives if filters[owner].holds(p)] for p in publications]
    index = Index()
    try:
        for owner, filter in enumerate(filters):
            index.add(owner, filter)
            if owner % several == 0:
                _ = index.segments
        for owner in gone:
            index.remove(owner)
        for _ in range(2):  # several segments, and one
            assert told(index, publications) == expected
            assert [told(index, [p])[0] for p in publications] == expected
            index.compact()
    finally:
        index.close()
    with TemporaryDirectory() as directory:
        subscriptions = [tg.Subscription(f"{owner:02}", "ann", wheres[owner]) for owner in lives]
        with tg.Engine(subscriptions) as engine:
            engine.save(f"{directory}/s")
        with tg.Engine.load(f"{directory}/s") as engine:
            found = engine.publish(
                [tg.Publication(f"{i}", "z", NOON, p.attributes) for i, p in enumerate(publications)]
            )
    pairs = sorted((int(n.publications[0]), int(n.subscription)) for n in found)
    assert pairs == [(i, owner) for i, row in enumerate(expected) for owner in row]


# --- what leads to a clause -----------------------------------------------------------------------------------------


def tabled(wheres: list[str]) -> list[str]:
    """The conditions whose clauses the tables of ranges find."""
    index = Index()
    for owner, where in enumerate(wheres):
        index.add(owner, compile_filter(parse(where)))
    segment = index.compact()
    return sorted(wheres[owner] for owner in segment.clauses.owner[: segment.drivers.tabled].tolist())


def test_the_part_that_fewest_publications_have_leads_to_a_clause():
    many = [f"kind = 'k{i}' AND name LIKE '%e%'" for i in range(100)]
    narrow = ["kind = 'k5' AND name LIKE '%a%o%'", "NOT name LIKE '%abcdefgh%'", "name LIKE '_%_'", "name LIKE 'ab%'"]
    wide = [
        "kind > 'a' AND name LIKE '%a%o%'",
        "kind = 'k5' AND name LIKE '%abcdefgh%'",
        "name LIKE '%a%'",
        "name LIKE 'abcd%'",
    ]
    assert tabled(many + narrow + wide) == sorted(many + narrow)


def test_patterns_without_a_letter_are_counted():
    wheres = ["name LIKE '_%_'", "NOT name LIKE '___'", "name LIKE '%'", "name LIKE '%a%'", "n > 1"]
    with tg.Engine([tg.Subscription(where, "ann", where) for where in wheres]) as engine:
        assert engine.letterless == 2
        told = engine.publish([tg.Publication("p", "z", NOON, {"name": "é😀"})])
    assert {n.subscription for n in told} == {"name LIKE '_%_'", "NOT name LIKE '___'", "name LIKE '%'"}


# --- real texts -----------------------------------------------------------------------------------------------------

REAL = Path(__file__).parents[2] / "shared" / "data" / "logs" / "OpenSSH_2k.log"


def cut_out(rng: np.random.Generator, line: str) -> str:
    """A pattern that the line is as: pieces of it with wildcards around and between them."""
    a, b, c, d = np.sort(rng.integers(len(line) + 1, size=4)).tolist()
    one, two = (re.sub(r"([\\%_])", r"\\\1", part[:16]) for part in (line[a:b], line[c:d]))
    begin, end = ("" if at == edge else "%" for at, edge in ((a, 0), (d if two else b, len(line))))
    return f"{begin}{one}%{two}%" if rng.integers(2) else f"%{one}{'_' if c == b + 1 else '%'}{two}{end or '%'}"


@pytest.mark.thorough
@pytest.mark.skipif(not REAL.exists(), reason="../shared/data/logs is not here")
def test_ten_thousand_patterns_over_a_real_log():
    rng, lines = np.random.default_rng(7), REAL.read_text("utf-8").splitlines()
    patterns: dict[str, None] = {}
    while len(patterns) < 10_000:
        patterns[cut_out(rng, lines[int(rng.integers(len(lines)))])] = None
    fits_all = [like_pattern(pattern).fits for pattern in patterns]
    expected = [[i for i, fits_one in enumerate(fits_all) if fits_one(line)] for line in lines]
    index = Index()
    for owner, pattern in enumerate(patterns):
        index.add(owner, compile_filter(parse(f"line LIKE {_quoted(pattern)}")))
    publications = [tg.Publication(f"p{i}", "z", NOON, {"line": line}) for i, line in enumerate(lines)]
    assert told(index, publications) == expected
    assert [told(index, [p])[0] for p in publications[::40]] == expected[::40]
    index.close()


# --- hard texts, and files that lie ---------------------------------------------------------------------------------

LONG = 1 << 20


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (f"%{'a' * 5000}b%", "a" * LONG),
        (f"%{'ab' * 2500}c%", "ab" * (LONG // 2)),
        (f"%a_{'a' * 60}b%", "a" * LONG),
        ("%a%a%a%a%a%a%b%", "a" * LONG),
        ("%é_é%x%", "é" * LONG),
        ("_%" * 500 + "b", "a" * LONG),
    ],
)
def test_no_text_makes_a_pattern_slow(pattern, text):
    """A pass over a megabyte takes milliseconds; a search that is taken up again would take minutes."""
    with tg.Engine([tg.Subscription("s", "ann", f"t LIKE '{pattern}'")]) as engine:
        publications = [tg.Publication(f"p{i}", "z", NOON, {"t": text}) for i in range(2)]
        assert engine.publish(publications[:1]) == []
        begin = time.process_time()
        assert engine.publish(publications[1:]) == []
        assert time.process_time() - begin < 2


@examples(40)
@given(st.data())
def test_grams_that_lead_astray_are_found_although_their_checksum_is_right(data):
    """Whatever is in the arrays: an error, or a match that ends."""
    wheres = ["t LIKE '%abc%'", "t LIKE '%d_f%ghi%'", "CASEI(t) LIKE '%jklmnopq%'", "NOT t LIKE '%q%'", "t LIKE '_%_'"]
    with TemporaryDirectory() as parent:
        path = Path(parent) / "s"
        with tg.Engine([tg.Subscription(where, "ann", where) for where in wheres]) as engine:
            engine.save(path)
        arrays, _ = array_bundle.unpacked((path / "text.bundle").read_bytes())
        name = data.draw(st.sampled_from(sorted(arrays)))
        array = arrays[name] = np.array(arrays[name])
        least, most = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
        value = data.draw(st.integers(least, most) | st.integers(max(least, -3), min(most, 600)))
        array.reshape(-1)[data.draw(st.integers(0, array.size - 1))] = value
        array_bundle.write(path / "text.bundle", arrays)
        (path / "files.json").unlink()
        seal(path)
        with suppress(tg.SnapshotError), tg.Engine.load(path) as engine:
            engine.publish([tg.Publication(f"p{i}", "z", NOON, {"t": "abc dxf ghi JKLMNOPQ"}) for i in range(16)])
            engine.publish([tg.Publication("p", "z", NOON, {"t": "abc dxf ghi JKLMNOPQ"})])
