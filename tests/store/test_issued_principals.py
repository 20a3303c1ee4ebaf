"""What issuers say of principals, held against a model in obvious steps: whose word of what may be read holds."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.profiles import examples
from tidegate.errors import TidegateError
from tidegate.store import issued_principals
from tidegate.store.database import insert_new
from tidegate.store.issued_principals import Standing
from tidegate.store.principals import Principals
from tidegate.store.registry import Registry

READS = ["n > 1", "n > 2", "n  >  1", {"op": ">", "args": [{"property": "n"}, 1]}, True, "FALSE"]
#: What of these means the same.
MEANING = dict(enumerate(["n>1", "n>2", "n>1", "n>1", "all", "none"]))
NAMES, ISSUERS = ("ann", "bob"), ("https://one.example", "https://two.example")


class Stored(NamedTuple):
    """A principal in the model: its issuer, what it may read, and when that was said."""

    issuer: str | None
    read: str | None = None
    said: int | None = None
    removed: int | None = None


class Model:
    def __init__(self):
        self.stored = dict[str, Stored]()

    def admit(self, issuer, name, read, issued):
        """Whether a word is taken; what it may read then."""
        there = self.stored.get(name, Stored(issuer))
        if there.issuer != issuer:
            return False
        if there.removed is not None and issued <= there.removed:
            return False
        if read is None:
            self.stored[name] = there._replace(removed=None)
            return True
        if there.said is None or issued > there.said:
            self.stored[name] = Stored(issuer, read, issued)
            return True
        if there.read == read:
            self.stored[name] = there._replace(removed=None)
        return there.read == read

    def put(self, name, read, moment):
        there = self.living().get(name, Stored(None))
        self.stored[name] = there._replace(read=read, said=max(moment, there.said or 0))

    def give(self, name, issuer):
        self.stored[name] = self.living().get(name, Stored(None))._replace(issuer=issuer)

    def remove(self, name, moment):
        if (there := self.stored.pop(name)).issuer is not None:
            self.stored[name] = there._replace(removed=moment)

    def living(self):
        return {name: there for name, there in self.stored.items() if there.removed is None}


steps = st.one_of(
    st.tuples(
        st.just("admit"),
        st.sampled_from(ISSUERS),
        st.sampled_from(NAMES),
        st.sampled_from([None, *range(len(READS))]),
        st.integers(0, 6),
    ),
    st.tuples(st.just("put"), st.sampled_from(NAMES), st.sampled_from([None, *range(len(READS))]), st.integers(0, 6)),
    st.tuples(st.just("give"), st.sampled_from(NAMES), st.sampled_from([None, *ISSUERS])),
    st.tuples(st.just("remove"), st.sampled_from(NAMES), st.integers(0, 6)),
)


@examples(60)
@given(given_steps=st.lists(steps, min_size=1, max_size=12))
def test_the_newest_word_holds_and_nobody_speaks_of_anothers_principal(tmp_path_factory, given_steps):
    model, moment = Model(), 0
    with Principals(tmp_path_factory.mktemp("said") / "registry.db", clock=lambda: moment) as principals:
        for what, *more in given_steps:
            if what == "admit":
                issuer, name, read, issued = more
                word = principals.issued.word(issuer, name, None if read is None else READS[read], issued)
                found = principals.issued.admit(word)
                is_taken = model.admit(issuer, name, None if read is None else MEANING[read], issued)
                assert (found.standing not in (Standing.FOREIGN, Standing.OLDER)) is is_taken
                assert (found.principal is not None) is is_taken
                if is_taken and read is not None:  # what it may read is what its token says
                    assert meaning(principals, name) == MEANING[read]
                    assert found.meant == principals.read_of(name)
            elif what == "put":
                name, read, moment = more
                principals.put(name, read=None if read is None else READS[read])
                model.put(name, None if read is None else MEANING[read], moment)
            elif what == "give":
                principals.put(more[0], issuer=more[1], keep=("read", "quotas"))
                model.give(*more)
            elif more[0] in model.living():
                name, moment = more
                principals.remove(name)
                model.remove(name, moment)
            assert [one.name for one in principals.all()] == sorted(model.living())
            for name, there in model.living().items():
                assert (meaning(principals, name), principals.principal(name).issuer) == (there.read, there.issuer)


def meaning(principals, name):
    """What a principal may read, as the model calls it."""
    found = principals.principal(name).read
    return None if found is None else MEANING[READS.index(found)]


@pytest.mark.contract
def test_a_changed_read_binds_subscriptions_as_one_of_an_administrator_does(url):
    with Registry(url) as registry, Principals(registry) as principals:
        principals.issued.admit(principals.issued.word("i", "ann", "n > 1", 1))
        from tidegate.model import Subscription

        registry.subscribe([Subscription("s", "ann", "m = 1")])
        before, version = principals.changes, registry.version
        assert principals.issued.admit(principals.issued.word("i", "ann", "n > 1", 2)).standing is Standing.NEWER
        assert (principals.changes, registry.version) == (before, version)  # the same: nothing is made anew
        principals.issued.admit(principals.issued.word("i", "ann", "n > 2", 3))
        assert (principals.changes, registry.version) == (before + 1, version + 1)
        assert principals.issued.admit(principals.issued.word("i", "ann", "n > 1", 2)).standing is Standing.OLDER
        assert registry.readable("ann") is not None
        assert principals.issued.admit(principals.issued.word("j", "ann", None, 9)).standing is Standing.FOREIGN
        assert (principals.principal("ann").issuer, principals.principal("ann").read) == ("i", "n > 2")


@pytest.mark.parametrize(
    "wrong", ["n >", "topk(3, 'PT1H', n)", {"op": "?"}, "n = '\ud800'", " OR ".join(["n = 1"] * 3000)]
)
def test_what_is_no_filter_is_no_word(tmp_path, wrong):
    with Principals(tmp_path / "registry.db") as principals, pytest.raises((TidegateError, UnicodeError)):
        principals.issued.word("i", "ann", wrong, 1)


def test_a_registry_of_before_knows_no_issuers_and_then_does(tmp_path):
    import sqlite3

    with Principals(tmp_path / "registry.db") as principals:
        principals.put("ann", read="n > 1")
    with sqlite3.connect(tmp_path / "registry.db") as connection:
        connection.execute("ALTER TABLE tidegate_principals DROP COLUMN issuer")
        connection.execute("ALTER TABLE tidegate_principals DROP COLUMN read_said")
        connection.execute("ALTER TABLE tidegate_principals DROP COLUMN removed_at")
        connection.execute("UPDATE tidegate_schema_version SET version = 3 WHERE part = 'principals'")
    connection.close()
    with Principals(tmp_path / "registry.db") as principals:
        assert (principals.principal("ann").issuer, principals.principal("ann").read) == (None, "n > 1")
        principals.put("ann", issuer="i", keep=("read", "quotas"))
        assert principals.issued.admit(principals.issued.word("i", "ann", "n > 2", 1)).standing is Standing.NEWER


@pytest.mark.contract
def test_what_is_removed_comes_back_with_no_more_than_it_had(url):
    moment = 10
    with Principals(url, clock=lambda: moment) as principals:
        word = partial(principals.issued.word, "i", "ann")
        principals.issued.admit(word(None, 1))
        principals.put("ann", read="n > 1", quotas={"connections": 3})
        moment = 9
        principals.put("ann", read="n > 1", keep=("quotas", "issuer"))  # by a clock that is behind
        assert principals.issued.standings([word("n > 2", 10)])[0].standing is Standing.OLDER
        moment = 10
        principals.remove("ann")
        with pytest.raises(TidegateError):
            principals.remove("ann")
        with pytest.raises(TidegateError):
            principals.principal("ann")
        assert principals.issued.admit(word(None, 10)).standing is Standing.OLDER
        assert principals.issued.standings([word(None, 11)])[0].standing is Standing.NEWER
        found = principals.issued.admit(word(None, 11))
        assert (found.principal.read, found.principal.quotas, found.meant) == ("n > 1", {"connections": 3}, "n > 1")
        principals.remove("ann")
        principals.make_token("ann", ["subscriber"])  # an administrator begins anew
        assert (principals.principal("ann").read, principals.principal("ann").issuer) == (None, None)


def test_whoever_makes_the_principal_at_the_same_time_has_it(tmp_path, monkeypatch):
    """On PostgreSQL and MariaDB an administrator's transaction may end between two statements of ours."""

    def meanwhile(connection, table, rows):
        insert_new(connection, table, [rows[0] | {"issuer": None}])
        return insert_new(connection, table, rows)

    monkeypatch.setattr(issued_principals, "insert_new", meanwhile)
    with Principals(tmp_path / "registry.db") as principals:
        found = principals.issued.admit(principals.issued.word("i", "ann", "n > 1", 1))
        assert found.standing is Standing.FOREIGN
        assert (principals.principal("ann").read, principals.principal("ann").issuer) == (None, None)
