"""Lots that are appended with one write: each becomes what it would have become alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.profiles import examples
from tidegate.errors import PublicationError
from tidegate.records.record import publication
from tidegate.records.uniform_rows import record_batch
from tidegate.store.identities import Identities
from tidegate.store.log import Appended, Log
from tidegate.store.log_intake import CheckedLots
from tidegate.store.log_rows import LogRows


def one(id, n):
    return publication({"id": id, "source": "z", "time": "2026-11-01T08:00:00Z", "n": n}, "")


LOTS = st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=4), max_size=6)


@examples(40)
@given(LOTS, LOTS)
def test_lots_of_both_kinds(tmp_path_factory, objects, checked):
    """With an obvious oracle: what was there first counts, in whatever order the lots were written."""
    path = tmp_path_factory.mktemp("lots")
    given = [[one(str(id), n) for id, n in some] for some in (*objects, *checked)]
    together = [p for some in given[len(objects) :] for p in some]
    lots = [CheckedLots(record_batch(together), [len(some) for some in checked])] if together else []
    with Log(path / "log", identities=Identities(path / "ids")) as log:
        outcomes = log.append_all([(some, ()) for some in given[: len(objects)]], lots)
        with LogRows(path / "log") as rows:
            first = {
                row["id"]: (at, row["attributes"]["n"]) for at, row in enumerate(rows.publications(range(log.end)))
            }
    assert set(first) == {p.id for some in given for p in some}
    assert sum(outcome.accepted for outcome in outcomes) == len(first)
    for some, outcome in zip(given, outcomes, strict=True):
        wrong = tuple(place for place, p in enumerate(some) if first[p.id][1] != p.attributes["n"])
        assert (outcome.conflicts, outcome.accepted + outcome.duplicates) == (wrong, len(some) - len(wrong))
        assert all(first[p.id][0] < outcome.position for p in some)


def test_the_error_of_one_lot_is_its_own(tmp_path):
    with Log(tmp_path) as log:
        lots = [([one("a", 1)], ()), (5, ()), (pa.table({"id": ["x"]}), ()), ([], ()), ([one("b", 2)], (0,))]
        good, number, table, none, last = log.append_all(lots)
        assert (good.accepted, last.accepted, none) == (1, 1, Appended(2, 0, 0, ()))
        assert isinstance(number, PublicationError)
        assert isinstance(table, PublicationError)
        assert log.append_all([]) == []
        with pytest.raises(PublicationError):
            log.append(5)


def test_a_log_that_is_made_ready_has_its_index(tmp_path):
    with Log(tmp_path / "log", identities=Identities(tmp_path / "ids")) as log:
        log.append(one("a", 1))
    (tmp_path / "ids" / "index").unlink()
    with Log(tmp_path / "log", identities=Identities(tmp_path / "ids")) as log:
        log.prepare()
        assert (tmp_path / "ids" / "index").exists()
        assert log.append(one("a", 1)).duplicates == 1
