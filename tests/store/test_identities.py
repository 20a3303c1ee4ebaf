"""Each identity once: logs with an id index against obvious loops, over appends, unpublishing, time and kills."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from tests.parts.profiles import examples
from tests.store.known_identities import KnownLog
from tidegate.kernels import identity_ring
from tidegate.model import Publication
from tidegate.records.tables import table
from tidegate.store.identities import Identities
from tidegate.store.log import Log, Tombstone, read
from tidegate.store.log_frames import WITHDRAWN

SECOND = 1_000_000
BEGIN = 1_763_000_000 * SECOND
HORIZON = 100
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def at(second):
    return datetime.fromtimestamp(BEGIN // SECOND + second, UTC)


VALUES = st.sampled_from(
    [5, 5.0, 1, True, "5", "x", [1, 2], [1.0, 2.0], [], NOON, None, 2**60, float(2**60), (7.0, 46.0)]
)
PUBLICATIONS = st.builds(
    lambda source, id, phase, n, m, valid, time: Publication(
        id, source, at(time), {"n": n, "m": m}, phase=phase, valid_until=None if valid is None else at(valid)
    ),
    st.sampled_from(["a", "ž"]),
    st.sampled_from(["1", "2", "3", "é" * 40]),
    st.sampled_from([None, None, "START", "END", "INSTANT"]),
    VALUES,
    st.sampled_from([None, None, 1.5]),
    st.sampled_from([None, None, None, 50, 300, 1000]),
    st.sampled_from([0, 0, 0, 1]),
)
PAIRS = st.tuples(st.sampled_from(["a", "ž"]), st.sampled_from(["1", "2", "3", "é" * 40]))
STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(PUBLICATIONS, min_size=1, max_size=12), st.sets(st.integers(0, 11))),
    st.tuples(st.just("append"), st.lists(PUBLICATIONS, min_size=1, max_size=2), st.sets(st.integers(0, 1))),
    st.tuples(st.just("table"), st.lists(PUBLICATIONS, min_size=1, max_size=4), st.just(set())),
    st.tuples(st.just("unpublish"), st.lists(PAIRS, max_size=3)),
    st.tuples(st.just("wait"), st.sampled_from([1, 40, 99, 100, 150, 400])),
    st.tuples(st.just("other")),  # another process goes on
    st.tuples(st.just("kill"), st.booleans()),  # with or without the index being changed
    # What is torn depends on hashes with another key each time, so what is drawn for it must not.
    st.tuples(st.just("crash"), st.integers(0, 2**32).map(Random)),
    st.tuples(st.just("bare"), st.integers(0, 3)),  # somebody appends without an index
    st.tuples(st.just("retain"), st.integers(0, 5)),
)


def _both(directory, clock):
    """Two logs on one directory, as two processes have them."""
    settings = {"segment_bytes": 2000, "clock": clock}
    return [
        Log(directory / "log", identities=Identities(directory / "ids", horizon=timedelta(seconds=HORIZON)), **settings)
        for _ in range(2)
    ]


def _logged(log):
    """Rows and what is in them: the identity of a publication, or the tombstone."""
    found = {}
    for part in log.slices(log.begin, log.end, 1):
        for frame in read(part, withdrawn=True):
            for i, row in enumerate(frame.batch.to_pylist()):
                is_grave = frame.kind == WITHDRAWN
                told = Tombstone(**row) if is_grave else (row["source"], row["id"], row.get("phase"))
                found[frame.first_row + i] = told
    return found


class _World:
    """Two logs on a directory and the oracle, to which the same is done."""

    def __init__(self, directory):
        self.directory, self.now = directory, BEGIN
        self.logs = _both(directory, lambda: self.now)
        self.oracle = KnownLog(HORIZON * SECOND)
        self.is_lost = False
        #: The index before the last change, as far as it had reached the disk then.
        self.before = b""

    @property
    def log(self):
        return self.logs[0]

    def _ask(self):
        """The index is about to be asked, and made again if it is lost."""
        if self.is_lost:
            self.oracle.make_again()
            self.is_lost = False
        index = self.directory / "ids" / "index"
        self.before = index.read_bytes() if index.exists() else b""

    def append(self, publications, made, as_table=False):
        made = {place for place in made if place < len(publications)}
        given = publications
        if as_table and (found := table(publications)) is not None:
            given = found
        self._ask()
        result = self.log.append(given, made_times=made)
        expected = self.oracle.append(publications, made, self.now)
        if not expected[1]:  # nothing new: the log ends where it did
            expected = (result.position, *expected[1:])
            assert result.position <= self.log.end
        assert result == expected

    def table(self, publications, made):
        self.append(publications, made, as_table=True)

    def unpublish(self, pairs):
        if pairs:
            self._ask()
        assert self.log.unpublish(pairs) == self.oracle.unpublish(pairs, self.now)

    def wait(self, seconds):
        self.now += seconds * SECOND

    def other(self):
        self.logs.reverse()

    def kill(self, is_changing):
        if is_changing and self.log._identities._file is not None:
            words = self.log._identities._words
            words[identity_ring.STATE] = 1
            words[len(words) // 2 :: 7] = 3
            self.is_lost = True
        self.logs[0] = _both(self.directory, lambda: self.now)[0]

    def crash(self, chance):
        """The machine stops when only some pages of the last change are on the disk."""
        index, size = self.directory / "ids" / "index", 4096
        now = index.read_bytes() if index.exists() else b""
        if len(now) == len(self.before):
            pages = [at for at in range(0, len(now), size) if now[at : at + size] != self.before[at : at + size]]
            if len(pages) > 1:
                torn = bytearray(now)
                for at in chance.sample(pages, chance.randrange(1, len(pages))):
                    torn[at : at + size] = self.before[at : at + size]
                index.unlink()
                index.write_bytes(torn)
                self.is_lost = True
        self.logs = _both(self.directory, lambda: self.now)

    def bare(self, count):
        """An identity that nobody else uses: of doubles the index knows the first, which is not what this is about."""
        with Log(self.directory / "log", clock=lambda: self.now) as log:
            for _ in range(count):
                one = Publication(f"bare {log.end}", "a", NOON)
                log.append([one])
                self.oracle.append([one], set(), self.now)

    def retain(self, keep):
        self.log.retain(before=max(0, self.log.end - keep))
        self.oracle.drop(self.log.begin)

    def check(self):
        begin = self.log.begin
        found = _logged(self.log)
        assert sorted(found) == list(range(begin, self.log.end))
        assert self.log.end == len(self.oracle.rows)
        for number, told in found.items():
            one = self.oracle.rows[number].publication
            assert (one is None) == isinstance(told, Tombstone)
            if one is not None:
                assert told == (one.source, one.id, one.phase)


@examples(60)
@given(st.lists(STEPS, max_size=25))
def test_a_log_with_identities_does_what_loops_do(steps):
    with TemporaryDirectory() as directory:
        world = _World(Path(directory))
        for name, *arguments in steps:
            getattr(world, name)(*arguments)
        world.check()
