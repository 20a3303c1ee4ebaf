"""The notification store on all three databases: a batch is written once and whole, and read back as it was."""

from __future__ import annotations

import math
import pickle
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tidegate.model import FLAT
from tidegate.store import NotificationStore

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
def store(url):
    with NotificationStore(url) as store:
        yield store


def rows(*ids: str, **fields) -> pa.Table:
    """Notifications with these ids, a second apart; all else as given or made up."""
    return pa.Table.from_pylist(
        [
            {
                "notification_id": id,
                "subscription_id": "s1",
                "subscriber": "ann",
                "time": NOON + timedelta(seconds=i),
                "publication_ids": [f"p{i}"],
            }
            | fields
            for i, id in enumerate(ids)
        ],
        FLAT,
    )


def ids(table: pa.Table) -> list[str]:
    assert table.schema == FLAT
    return table.column("notification_id").to_pylist()


@pytest.mark.contract
def test_a_batch_is_written_once(store, url):
    assert store.write("q", 0, rows("n1", "n2")) == 2
    assert store.write("q", 0, rows("n3")) == 0
    assert store.write("q", 1, rows("n2", "n3", "n3")) == 1
    assert store.write("q ", 0, rows("n4")) == 1  # another query
    assert store.write("q", 2, rows()) == 0
    assert store.write("q", 2, rows("n5")) == 0
    with NotificationStore(url) as other:
        assert len(other) == 4
        assert sorted(ids(other.read())) == ["n1", "n2", "n3", "n4"]
    with pickle.loads(pickle.dumps(store)) as copy:
        assert copy.read() == store.read()


def test_what_is_asked_for_is_read(store):
    for batch, (subscription, subscriber) in enumerate([("s1", "ann"), ("s2", "ann"), ("s1 ", "bob"), ("S1", "Ann")]):
        names = [f"{batch}.{i}" for i in range(3)]
        store.write("q", batch, rows(*names, subscription_id=subscription, subscriber=subscriber))
    assert ids(store.read()) == [f"{batch}.{i}" for i in range(3) for batch in (3, 0, 2, 1)]
    assert ids(store.read(subscriber="ann")) == [f"{batch}.{i}" for i in range(3) for batch in (0, 1)]
    assert ids(store.read(subscription="s1")) == ["0.0", "0.1", "0.2"]
    assert ids(store.read(subscription="s1 ", after=NOON)) == ["2.1", "2.2"]
    assert ids(store.read(subscriber="bob", subscription="s1")) == []
    assert ids(store.read(subscriber="ann", after=NOON, limit=3)) == ["0.1", "1.1", "0.2"]
    assert ids(store.read(limit=0)) == ids(store.read(after=NOON + timedelta(seconds=2))) == []


def test_more_than_one_statement_holds(store, monkeypatch):
    for module in ("database", "notifications"):
        monkeypatch.setattr(f"tidegate.store.{module}.CHUNK", 20)
    names = [f"{i:03}" for i in range(105)]
    assert store.write("q", 0, rows(*names[::-1])) == 105
    assert store.write("q", 1, rows(*names, "new")) == 1
    assert len(store.read()) == len(store) == 106
    assert ids(store.read(limit=50)) == names[::-1][:50]


NAME = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
NUMBER = st.none() | st.floats(allow_nan=False, allow_infinity=False)
NOTIFICATION = st.fixed_dictionaries(
    {
        "notification_id": NAME,
        "subscription_id": NAME,
        "subscriber": NAME,
        "time": st.datetimes(timezones=st.just(UTC)),
        "publication_ids": st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=3),
        "score": NUMBER,
        "distance": NUMBER,
    }
)
batches = 0


@pytest.mark.contract
@given(st.lists(NOTIFICATION, max_size=5, unique_by=lambda record: record["notification_id"]))
def test_notifications_come_back_as_they_were(url, given):
    global batches
    batches += 1
    with NotificationStore(url) as store:
        own = [record | {"notification_id": f"{batches} {record['notification_id']}"} for record in given]
        assert store.write("q", batches, pa.Table.from_pylist(own, FLAT)) == len(own)
        back = {record["notification_id"]: record for record in store.read().to_pylist()}
        assert [back[record["notification_id"]] for record in own] == own
        for record in own:
            assert record in store.read(subscriber=record["subscriber"]).to_pylist()


def test_numbers_that_are_none_are_missing(store):
    store.write("q", 0, rows("n1", score=math.nan, distance=math.inf))
    assert store.read().select(["score", "distance"]).to_pylist() == [{"score": None, "distance": None}]


def test_the_longest_names(store):
    table = rows("𝒜" * 255, subscription_id="𝒜" * 1024, subscriber="x" * 1024, publication_ids=["𝒜" * 1024] * 100)
    assert store.write("q" * 255, 2**63 - 1, table) == 1
    assert store.read(subscriber="x" * 1024, subscription="𝒜" * 1024) == table


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([{"notification_id": "n1"}], "an Arrow table with the columns"),
        (pa.table({"id": ["n1"]}), "an Arrow table with the columns"),
        (rows("n1").drop_columns("score"), "an Arrow table with the columns"),
        (rows("n1").set_column(3, "time", pa.array(["noon"])), "columns of notifications"),
        (rows("n1", subscriber=None), "a value of subscriber in every row"),
        (rows("n1", time=None), "a value of time in every row"),
        (rows("n1", publication_ids=None), "a value of publication_ids in every row"),
        (rows("n" * 256), "at most 255 characters as notification_id"),
        (rows("n1", subscriber="x" * 1025), "at most 1024 characters as subscriber"),
        (rows("n1", subscription_id="a\0b"), "without the character NUL as subscription_id"),
    ],
)
def test_bad_tables_write_nothing(tmp_path, table, says):
    with NotificationStore(tmp_path / "n.db") as store:
        with pytest.raises(tg.SettingError, match=says):
            store.write("q", 0, table)
        assert len(store) == 0
        assert store.write("q", 0, rows("n1")) == 1


def test_bad_arguments(store):
    for ask in (
        lambda: store.write("", 0, rows()),
        lambda: store.write("q", -1, rows()),
        lambda: store.read(subscriber=7),
        lambda: store.read(subscription="\0"),
        lambda: store.read(subscription="\ud800"),
        lambda: store.read(after=datetime(2026, 11, 15)),
        lambda: store.read(after="today"),
        lambda: store.read(limit=-1),
    ):
        with pytest.raises(tg.SettingError):
            ask()


@pytest.mark.contract
def test_the_same_notifications_from_many_at_once(store):
    """Whoever comes first writes a notification; nobody fails, though all meet the same rows in another order."""
    names = [f"n{i}" for i in range(300)]
    written, failures = [], []

    def writes(batch: int) -> None:
        try:
            written.append(store.write("q", batch % 4, rows(*names[batch * 10 :], *names[: batch * 10])))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=writes, args=(batch,)) for batch in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(written) == [0] * 7 + [300]
    assert len(store) == 300


VICTIM = """
import sys
from tests.store.test_notifications import rows
from tidegate.store import NotificationStore
store = NotificationStore(sys.argv[1])
for batch in range(10_000):
    store.write("q", batch, rows(*(f"{batch}.{i}" for i in range(300))))
    print(batch, flush=True)
"""


def test_a_killed_process_leaves_whole_batches(url):
    with NotificationStore(url) as store:
        victim = subprocess.Popen([sys.executable, "-c", VICTIM, url], stdout=subprocess.PIPE)
        try:
            assert victim.stdout.readline() == b"0\n"
            time.sleep(0.2)
        finally:
            victim.send_signal(signal.SIGKILL)
            last = [int(line) for line in victim.stdout if line.endswith(b"\n")]
            victim.wait()
            victim.stdout.close()
        count = len(store)
        assert count % 300 == 0
        assert count >= 300 * (max(last, default=0) + 1)  # what it was told to be written is there
        for batch in range(count // 300 + 2):
            new = store.write("q", batch, rows(*(f"{batch}.{i}" for i in range(300))))
            assert new == (0 if batch < count // 300 else 300)
