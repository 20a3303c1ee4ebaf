"""Whatever is done to a registry, in whatever order: at every version that is kept, it is what a dict would be."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import tidegate as tg
from tidegate.store import Registry

IDS = st.sampled_from(["a", "A", "a ", "á", "b", "c"])
WHERE = st.sampled_from(["a > 1", "a > > 1", True, {"op": ">", "args": [{"property": "a"}, 1]}])
SUBSCRIBERS = st.sampled_from(["ann", "bob"])
SUBSCRIPTIONS = st.builds(tg.Subscription, IDS, SUBSCRIBERS, WHERE)
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
                self.history.append(self.now | {s.registered_id: s})
            assert version == len(self.history) - 1

    @rule(ids=st.lists(st.builds("{}/{}".format, SUBSCRIBERS, IDS), max_size=3))
    def unsubscribe(self, ids):
        if len(set(ids)) < len(ids) or set(ids) - self.now.keys():
            with suppress(tg.UnknownSubscription):
                self.registry.unsubscribe(*ids)
                raise AssertionError("was taken")
        else:
            version = self.registry.unsubscribe(*ids)
            for id in ids:
                self.history.append({name: s for name, s in self.now.items() if name != id})
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
        for after in range(self.kept, newest + 1):
            ended = [(r.since, r.until) for r in rows if r.until is not None and after < r.until]
            assert self.registry.ended(after, newest) == sorted(ended, key=lambda pair: pair[1])

    def teardown(self):
        self.registry.close()
        shutil.rmtree(self.place)


TestRegistered = Registered.TestCase
TestRegistered.settings = settings(stateful_step_count=15)
