"""Whatever is done to a registry, in whatever order: at every version that is kept, it is what a dict would be."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import tidegate as tg
from tests.parts.profiles import examples
from tidegate.store import Registry
from tidegate.store.principals import Principals

IDS = st.sampled_from(["a", "A", "a ", "á", "b", "c"])
WHERE = st.sampled_from(["a > 1", "a > > 1", True, {"op": ">", "args": [{"property": "a"}, 1]}])
SUBSCRIBERS = st.sampled_from(["ann", "bob"])
MOMENTS = [datetime(2026, 11, day, tzinfo=UTC) for day in (15, 16)]
SUBSCRIPTIONS = st.builds(
    tg.Subscription,
    IDS,
    SUBSCRIBERS,
    WHERE,
    active_until=st.sampled_from([None, None, *MOMENTS]),
    initial=st.booleans(),
)
READS = st.sampled_from([None, "z = 1", "z=1", "z = 2"])
QUERIES = st.sampled_from(["q", "r"])


class Registered(RuleBasedStateMachine):
    """A registry and its oracle: the subscriptions of every version, in the order they came."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="tidegate-"))
        self.registry = Registry(self.place / "r.db")
        self.history: list[dict[str, tg.Subscription]] = [{}]
        self.needed: dict[str, int] = {}
        self.pinned: dict[tuple[str, int], int] = {}
        self.kept = 0
        self.principals = Principals(self.registry)
        self.read: dict[str, str | None] = {"ann": None, "bob": None}
        #: Of each version, the version at which each subscription was made first.
        self.first: list[dict[str, int]] = [{}]
        self.registered: dict[str, int] = {}
        self.told: list[tuple[int, str, bool]] = []

    @property
    def now(self) -> dict[str, tg.Subscription]:
        return self.history[-1]

    @rule(given=st.lists(SUBSCRIPTIONS, max_size=4))
    def subscribe(self, given):
        ids = [s.registered_id for s in given]
        if any(s.where == "a > > 1" for s in given) or len(set(ids)) < len(ids) or self.now.keys() & set(ids):
            with suppress(tg.TidegateError):
                self.registry.subscribe(*given)
                raise AssertionError("was taken")
        else:
            version = self.registry.subscribe(*given)
            for s in given:
                self._made(s)
                self._registered(s.subscriber, len(self.history) - 1)
            assert version == len(self.history) - 1

    def _made(self, s, first=None):
        """A version at which a subscription is made, or made anew."""
        others = {name: one for name, one in self.now.items() if name != s.registered_id}
        self.history.append(others | {s.registered_id: s})
        self.first.append(self.first[-1] | {s.registered_id: first or len(self.history) - 1})

    def _ended(self, *names):
        """A version at which subscriptions end."""
        self.history.append({name: s for name, s in self.now.items() if name not in names})
        self.first.append(self.first[-1])

    def _registered(self, who, version):
        if who not in self.registered:
            self.registered[who] = version
            self.told.append((version, who, True))

    @rule(who=SUBSCRIBERS)
    def register(self, who):
        if who not in self.registered:
            self._ended()
            self._registered(who, len(self.history) - 1)
        assert self.registry.register(who) == self.registered[who]

    @rule(who=SUBSCRIBERS)
    def unregister(self, who):
        if who in self.registered:
            self._ended(*(name for name, s in self.now.items() if s.subscriber == who))
            del self.registered[who]
            self.told.append((len(self.history) - 1, who, False))
            assert self.registry.unregister(who) == len(self.history) - 1
        else:
            with suppress(tg.SettingError):
                self.registry.unregister(who)
                raise AssertionError("was taken")

    @rule(who=SUBSCRIBERS, read=READS)
    def may_read(self, who, read):
        self.principals.put(who, read=read)
        if (read or "").replace(" ", "") != (self.read[who] or "").replace(" ", ""):
            for name, s in list(self.now.items()):
                if s.subscriber == who:
                    self._made(s, self.first[-1][name])
        self.read[who] = read

    @rule(moment=st.sampled_from(MOMENTS))
    def end_due(self, moment):
        over = [name for name, s in self.now.items() if s.active_until is not None and s.active_until <= moment]
        for name in over:
            self._ended(name)
        assert self.registry.end_due(moment) == len(over)

    @rule(ids=st.lists(st.builds("{}/{}".format, SUBSCRIBERS, IDS), max_size=3))
    def unsubscribe(self, ids):
        if len(set(ids)) < len(ids) or set(ids) - self.now.keys():
            with suppress(tg.UnknownSubscription):
                self.registry.unsubscribe(*ids)
                raise AssertionError("was taken")
        else:
            version = self.registry.unsubscribe(*ids)
            for id in ids:
                self._ended(id)
            assert version == len(self.history) - 1

    @rule(query=QUERIES, back=st.integers(0, 3))
    def needs(self, query, back):
        version = max(self.kept, len(self.history) - 1 - back)
        self.registry.needs(query, version)
        self.needed[query] = max(version, self.needed.get(query, 0))

    @rule(query=QUERIES, batch=st.integers(0, 6))
    def pin(self, query, batch):
        version = self.registry.pin(query, batch)
        if (query, batch) not in self.pinned:
            self.pinned = {(q, b): v for (q, b), v in self.pinned.items() if q != query or b >= batch - 2}
        assert version == self.pinned.setdefault((query, batch), len(self.history) - 1)

    @rule(query=QUERIES)
    def forget(self, query):
        self.registry.forget(query)
        self.needed.pop(query, None)
        self.pinned = {(q, b): v for (q, b), v in self.pinned.items() if q != query}

    @rule()
    def prune(self):
        before = len(list(self.registry.rows(0, len(self.history))))
        pruned = self.registry.prune()
        self.kept = max(self.kept, self.registry.oldest_needed())
        assert len(list(self.registry.rows(0, len(self.history)))) == before - pruned

    @rule()
    def open_again(self):
        self.registry.close()
        self.registry = pickle.loads(pickle.dumps(self.registry))

    @invariant()
    def is_what_the_oracle_says(self):
        newest = len(self.history) - 1
        assert self.registry.version == newest
        assert list(self.registry) == list(self.now.values())
        assert len(self.registry) == len(self.now)
        for id in ("a", "A", "a ", "á", "b", "c"):
            for name in (f"ann/{id}", f"bob/{id}"):
                assert (name in self.registry) is (name in self.now)
        for subscriber in ("ann", "bob", None):
            entries = self.registry.listing(subscriber)
            assert [e.subscription for e in entries] == [
                s for s in self.now.values() if subscriber in (None, s.subscriber)
            ]
        assert self.registry.oldest_needed() == min([*self.needed.values(), *self.pinned.values()], default=newest)
        assert self.registry.oldest_kept == self.kept
        rows = list(self.registry.rows(0, newest))
        for version in range(self.kept, newest + 1):
            there = [r.subscription for r in rows if r.since <= version and (r.until is None or version < r.until)]
            assert there == list(self.history[version].values()), version
        for row in rows:
            if row.until is None:
                assert (row.read or "").replace(" ", "") == (self.read[row.subscriber] or "").replace(" ", "")
                assert row.first == self.first[-1][row.index_id]
        for after in range(self.kept, newest + 1):
            assert self.registry.registrations(after, newest) == [one for one in self.told if one[0] > after]
            for upto in (after, newest):
                wanted = [
                    name for name, s in self.history[upto].items() if s.initial and self.first[upto][name] > after
                ]
                assert [row.index_id for row in self.registry.initial(after, upto)] == wanted
            ended = [(r.since, r.until) for r in rows if r.until is not None and after < r.until]
            assert self.registry.ended(after, newest) == sorted(ended, key=lambda pair: pair[::-1])

    def teardown(self):
        self.principals.close()
        self.registry.close()
        shutil.rmtree(self.place)


TestRegistered = Registered.TestCase
TestRegistered.settings = examples(20, stateful_step_count=15)
