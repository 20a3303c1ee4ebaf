"""The bench of queues measures what it says: its storages give back what was drawn, and what it draws is obvious."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing

import pytest

from bench.processes import apart, uncached
from bench.queue_deliveries import FAN_OUT, Deliveries, Stored
from bench.queue_storages import RIVALS, ThroughSink, Tidegate

WORK = Deliveries(principals=200, rounds=5, batch=100, seed=1)


def delivered(work):
    """By principal what the batches deliver, in obvious loops."""
    found = defaultdict(list)
    for number in range(work.batches):
        batch = work.at(number)
        columns = batch.queue.tolist(), batch.row.tolist(), batch.both.tolist()
        for principal, row, both in zip(*columns, strict=True):
            first = 2 * principal + 1
            matched = (first, first + 1) if both else (first,)
            found[principal].append(Stored(len(found[principal]) + 1, row, batch.time, matched))
    return found


def test_what_a_queue_must_have_is_what_the_batches_deliver():
    found = delivered(WORK)
    assert {principal: WORK.expected(principal) for principal in range(WORK.principals)} == found
    rows = [one.row for some in found.values() for one in some]
    assert {rows.count(row) for row in rows} == {FAN_OUT}
    assert any(len(one.subscriptions) == 2 for some in found.values() for one in some)


@pytest.mark.parametrize("kind", [Tidegate, ThroughSink, *RIVALS], ids=lambda kind: kind.__name__)
def test_a_storage_gives_back_what_was_delivered(kind, tmp_path):
    if not kind.is_there():
        pytest.skip(f"{kind.package} is not installed")
    with closing(kind(tmp_path / "queues", WORK.principals)) as storage:
        for number in range(WORK.batches):
            storage.commit(WORK.at(number))
        storage.settle()
        storage.tidy()
    reader = Tidegate if kind is ThroughSink else kind
    with closing(reader(tmp_path / "queues", WORK.principals, reads=True)) as storage:
        for principal in range(WORK.principals):
            assert storage.last(principal) == WORK.rounds
            assert storage.stored(storage.read(principal, 0, 100)) == WORK.expected(principal)
            assert storage.stored(storage.read(principal, 2, 2)) == WORK.expected(principal)[2:4]
    if kind is ThroughSink:  # its run goes on by itself
        return
    with closing(kind(tmp_path / "queues", WORK.principals)) as storage:
        storage.commit(WORK.after(WORK.batches))
        assert [storage.last(principal) for principal in (0, 1)] == [WORK.rounds + 1, WORK.rounds]


def test_files_are_dropped_from_the_page_cache(tmp_path):
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    assert uncached(tmp_path) < 0.1


def test_work_in_a_process_of_its_own_gives_its_result_and_its_failure():
    assert apart(lambda: [1, 2]) == [1, 2]
    with pytest.raises(SystemExit, match="ZeroDivisionError"):
        apart(lambda: 1 / 0)
