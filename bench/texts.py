"""LIKE: very many patterns over texts, beside an Aho-Corasick automaton with a check and a scan that exits early."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import ahocorasick_rs
import numpy as np
import pyarrow as pa

import tidegate as tg
from bench.harness import Report, median, one_core, say, timed
from bench.notification_arrays import Told
from bench.papers.timeseries.interleaved import interleaved
from bench.topk import BEGIN, SPACING
from tidegate.predicates.like_pattern import like_pattern, pieces

__all__ = ["main"]

SEED = 2026
ROUNDS = 7
SIZES = (10_000, 100_000)
#: Letters of a text, and texts of a batch.
LETTERS, TEXTS = 60, 2_000
#: Texts that are published alone, and texts that the scan is given; its time per text is what counts.
ALONE, SCANNED = 300, 20
#: Real texts: lines of a log of OpenSSH, where the folder is there.
LOG = Path(__file__).parents[2] / "shared" / "data" / "logs" / "OpenSSH_2k.log"

#: Patterns of two words.
FORMS = {
    "a third each prefix, suffix, contains": ("{0}%", "%{0}", "%{0}%"),
    "contains": ("%{0}%",),
    "inner wildcards": ("%{0}%{1}%", "{0}%{1}", "%{0}_{1}%"),
}

COLUMNS = {
    "what": "what",
    "patterns": "patterns",
    "notified": "notifications/pub",
    "batch_us": "in batches µs/pub",
    "automaton_us": "ahocorasick_rs µs/pub",
    "ratio": "Tidegate ÷ ahocorasick_rs",
    "alone_us": "alone µs",
    "scan_us": "scan µs",
    "load_us": "load µs/subscription",
    "automaton_load_us": "ahocorasick_rs load",
    "bytes": "bytes/subscription",
}


def main(quick: bool = False) -> None:
    """Patterns of several forms in drawn texts, and 10,000 in the lines of a log."""
    report = Report("texts", SEED, COLUMNS)
    one_core()
    for what, forms in FORMS.items():
        for n in SIZES[: 1 if quick else None]:
            rng = np.random.default_rng(SEED)
            texts = _sentences(rng, TEXTS)
            measure(report, what, _distinct(n, (forms[i % len(forms)].format(*_two(rng)) for i in count())), texts)
    if LOG.exists():
        lines = LOG.read_text("utf-8").splitlines()
        rng = np.random.default_rng(SEED)
        cut = (_cut(rng, lines) for _ in count())
        measure(report, "from a log, in its lines", _distinct(1_000 if quick else 10_000, cut), lines)
    else:
        say("../shared/data/logs is not here: no real texts")
    report.finish()


# --- patterns and texts ---------------------------------------------------------------------------------------------


def _two(rng: np.random.Generator) -> list[str]:
    """Two words of 4 to 9 letters."""
    return ["".join(rng.choice(list(string.ascii_lowercase), size=size)) for size in rng.integers(4, 10, size=2)]


def _sentences(rng: np.random.Generator, texts: int) -> list[str]:
    letters = rng.choice(list(string.ascii_lowercase + " "), size=(texts, LETTERS))
    return ["".join(row) for row in letters]


def _cut(rng: np.random.Generator, lines: list[str]) -> str:
    """A pattern that at least one line is as: pieces of it, in their order."""
    line = lines[int(rng.integers(len(lines)))]
    a, b, c, d = np.sort(rng.integers(len(line) + 1, size=4)).tolist()
    one, two = (part[:20].replace("\\", "").replace("%", "_") for part in (line[a:b], line[c:d]))
    form = ("%{0}%", "%{0}%{1}%", "{0}%", "%{0}")[int(rng.integers(4))]
    return (
        form.format(one if form != "{0}%" else line[: 8 + b - a], two) if form != "%{0}" else f"%{line[-8 - b + a :]}"
    )


def _distinct(n: int, patterns: Iterable[str]) -> list[str]:
    """The first n distinct patterns that have a piece of at least four letters."""
    found: dict[str, None] = {}
    for pattern in patterns:
        if len(_longest(pattern)) >= 4:
            found[pattern] = None
        if len(found) == n:
            break
    return list(found)


def _longest(pattern: str) -> str:
    return max((piece for piece in pieces(pattern) if piece), key=len, default="")


# --- measuring ------------------------------------------------------------------------------------------------------


def measure(report: Report, what: str, patterns: list[str], texts: list[str]) -> None:
    """One row: the engine and the automaton take turns."""
    n = len(patterns)
    say(f"{n:,} patterns, {what}")
    tg.Engine(_subscribed(patterns[:2000])).publish(_table(texts[:20]))  # reads compiled code, which is no part of load
    load, engine = timed(partial(_loaded, patterns, texts))
    automaton_load, automaton = timed(partial(_Automaton, patterns))
    table = _table(texts)
    seconds, found = interleaved(
        {"tidegate": partial(engine.publish, table, grouped=True), "automaton": partial(automaton.found, texts)}, ROUNDS
    )
    told = Told.of(found["tidegate"])
    pairs = sorted(zip(told.publication.tolist(), told.subscription.tolist(), strict=True))
    alone = [timed(partial(engine.publish, [each]))[0] for each in _publications(texts[:ALONE])]
    scanned, expected = timed(lambda: list(_scan(patterns, texts[:SCANNED])))
    each = {name: median(times) / len(texts) * 1e6 for name, times in seconds.items()}
    report.add(
        what=what,
        patterns=n,
        notified=len(told) / len(texts),
        batch_us=each["tidegate"],
        automaton_us=each["automaton"],
        ratio=each["tidegate"] / each["automaton"],
        alone_us=median(alone[20:]) * 1e6,
        scan_us=scanned / SCANNED * 1e6,
        load_us=load / n * 1e6,
        automaton_load_us=automaton_load / n * 1e6,
        bytes=engine.index_bytes / n,
        exact=pairs == sorted(found["automaton"]) and expected == [pair for pair in pairs if pair[0] < SCANNED],
        seconds=seconds,
    )
    engine.close()


def _loaded(patterns: list[str], texts: list[str]) -> tg.Engine:
    """An engine that is ready: all is in segments."""
    engine = tg.Engine(_subscribed(patterns))
    engine.publish(_table(texts[:300]))
    _ = engine.index_bytes  # waits for the thread of the index
    return engine


def _subscribed(patterns: list[str]) -> Iterator[tg.Subscription]:
    for i, pattern in enumerate(patterns):
        where = {"op": "like", "args": [{"property": "text"}, pattern]}
        yield tg.Subscription(f"s{i}", "bench", where)


def _table(texts: list[str]) -> pa.Table:
    numbers = np.arange(len(texts))
    return pa.table(
        {
            "id": pa.array([f"p{i}" for i in numbers.tolist()]),
            "source": pa.repeat("bench", len(texts)),
            "time": pa.array(BEGIN + SPACING * numbers, pa.timestamp("us", "UTC")),
            "text": pa.array(texts),
        }
    )


def _publications(texts: list[str]) -> Iterator[tg.Publication]:
    for row in _table(texts).to_pylist():
        yield tg.Publication(row["id"], row["source"], row["time"], {"text": row["text"]})


class _Automaton:
    """The longest piece of each pattern in an automaton; where it occurs, the pattern is checked."""

    def __init__(self, patterns: list[str]) -> None:
        self._fits = [like_pattern(pattern).fits for pattern in patterns]
        whose: dict[str, list[int]] = {}
        for i, pattern in enumerate(patterns):
            whose.setdefault(_longest(pattern), []).append(i)
        self._whose = list(whose.values())
        self._automaton = ahocorasick_rs.AhoCorasick(list(whose))

    def found(self, texts: list[str]) -> list[tuple[int, int]]:
        """Pairs of a text and a pattern."""
        pairs, fits, whose = [], self._fits, self._whose
        for p, text in enumerate(texts):
            met = {piece for piece, _, _ in self._automaton.find_matches_as_indexes(text, overlapping=True)}
            pairs += [(p, i) for piece in met for i in whose[piece] if fits[i](text)]
        return pairs


def _scan(patterns: list[str], texts: list[str]) -> Iterator[tuple[int, int]]:
    """One pattern after the other, each until it is decided."""
    fits = [like_pattern(pattern).fits for pattern in patterns]
    for p, text in enumerate(texts):
        for i, each in enumerate(fits):
            if each(text):
                yield p, i
