"""Queues against lists: every number once, whatever is merged, dropped, opened again or read meanwhile."""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.profiles import examples
from tests.store.written_queues import (
    NOTHING,
    NOTIFICATION,
    RETRACTED,
    few_frames_are_merged,
    filled,
    meaning,
    meanings,
    told,
)
from tidegate.errors import SettingError, StoreError
from tidegate.store import queue_reader as reader_module
from tidegate.store.queue_frames import Delivery
from tidegate.store.queue_reader import QueueReader
from tidegate.store.queues import Queues


class Oracle:
    """The same in obvious loops: a list per queue."""

    def __init__(self):
        self.lists = {}

    def commit(self, time, things):
        for kind, row, more, matched in things:
            for queue in dict.fromkeys(queue for queue, _ in matched):
                mine = tuple(meaning(s) for to, s in matched if to == queue)
                items = self.lists.setdefault(queue, [])
                items.append(Delivery(len(items) + 1, kind, row, time, mine, more))


def drawn_things(random, queues):
    things = []
    for row in range(random.randrange(6)):
        matched = [(q, random.randrange(40)) for q in random.choices(queues, k=random.randrange(4))] if queues else []
        more = random.choice([b"", b"", b'{"score": 1.5}', b"z" * random.randrange(300)])
        things.append((random.choice([NOTIFICATION, RETRACTED]), 1000 + row, more, matched))
    return things


@pytest.fixture
def small():
    with few_frames_are_merged():
        yield


def check(reader, oracle, most, random):
    for queue in reader:
        items = oracle.lists.get(queue, [])
        assert reader.last(queue) == len(items)
        oldest = max(1, len(items) - most + 1)
        assert reader.oldest(queue) == (oldest if items else 1)
        after, limit = random.randrange(len(items) + 3), random.choice([1, 3, 1000])
        page = reader.read(queue, after, limit)
        assert page.deliveries == items[max(after, oldest - 1) :][:limit]
        assert (page.oldest, page.last) == (oldest if items else 1, len(items))


@given(st.integers(0, 1 << 32), st.sampled_from([1, 4, 100]))
@examples(60)
def test_queues_are_lists(tmp_path_factory, seed, most):
    random = Random(seed)
    directory = tmp_path_factory.mktemp("queues")
    oracle, batch, living = Oracle(), 0, []
    with few_frames_are_merged():
        writer = Queues(directory, most=most)
        reader = QueueReader(directory, most=most)
        for _ in range(random.randrange(40)):
            action = random.random()
            if action < 0.15:
                queue = writer.make(f"p{random.randrange(5)}", random.choice(["stream", "mqtt"]))
                living = [*dict.fromkeys([*living, queue])]
            elif action < 0.2 and living:
                writer.end(living.pop(random.randrange(len(living))))
            elif action < 0.3:
                writer.wait()
                writer.close()
                writer = Queues(directory, most=most)
                living = list(writer)  # what was made and not committed is gone
            elif action < 0.4:
                reader.refresh()
                reader.refresh()
                assert reader.last_batch == writer.last_batch
                if not writer._changes:
                    assert set(reader) == set(writer)
                    check(reader, oracle, most, random)
            else:
                batch += 1
                things = drawn_things(random, living)
                assert writer.commit(batch, batch * 10, told(things), meanings)
                assert not writer.commit(writer.last_batch, batch * 10, told(things), meanings)
                oracle.commit(batch * 10, things)
            check(writer, oracle, most, random)
        writer.wait()
        check(writer, oracle, most, random)
        writer.close()
        reader.refresh()
        check(reader, oracle, most, random)
        reader.close()


def test_a_torn_frame_is_cut_off_and_written_again(tmp_path):
    filled(tmp_path, 9)
    committed = (tmp_path / "committed").read_bytes()
    filled(tmp_path, 10)
    whole = (tmp_path / "1.journal").read_bytes()
    for cut in Random(1).sample(range(1, 400), 40):
        (tmp_path / "1.journal").write_bytes(whole[:-cut])
        (tmp_path / "committed").write_bytes(committed)
        with Queues(tmp_path) as writer:
            assert writer.last_batch == 8
            queue = writer.queue("p1")
            assert writer.commit(9, 9, told([(NOTIFICATION, 90, b"", [(queue, 1)])]), meanings)
            assert [d.number for d in writer.read(queue, 0).deliveries] == list(range(1, 20))


def test_a_frame_that_was_committed_is_never_taken_for_a_torn_one(tmp_path):
    filled(tmp_path)
    whole = (tmp_path / "1.journal").read_bytes()
    for cut in (1, 100, 400, len(whole)):
        (tmp_path / "1.journal").write_bytes(whole[:-cut])
        for kind in (Queues, QueueReader):
            with pytest.raises(StoreError, match="frames of queues as they were written"):
                kind(tmp_path)
        assert (tmp_path / "1.journal").stat().st_size == len(whole) - cut


def test_how_far_queues_are_committed_is_made_again_where_it_was_removed(tmp_path):
    filled(tmp_path)
    (tmp_path / "committed").unlink()
    with pytest.raises(StoreError, match="No such file"):
        QueueReader(tmp_path)
    Queues(tmp_path).close()
    with QueueReader(tmp_path) as reader:
        assert [reader.last(queue) for queue in reader] == [20, 20, 20]


def test_a_journal_that_was_begun_and_is_empty_still_proves_the_one_before(tmp_path, small):
    """Between two journals ``committed`` names the new one, and the last frame is in the one before it."""
    filled(tmp_path, 2)
    with Queues(tmp_path) as writer, pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "_merge_all", lambda: None)
        queue = writer.queue("p1")
        writer.commit(2, 2, told([(NOTIFICATION, 90, b"", [(queue, 1)])]), meanings)
        assert writer._current_name == "2.journal"
    whole = (tmp_path / "1.journal").read_bytes()
    (tmp_path / "1.journal").write_bytes(whole[:-1])
    for kind in (Queues, QueueReader):
        with pytest.raises(StoreError, match="frames of queues as they were written"):
            kind(tmp_path)
    (tmp_path / "1.journal").write_bytes(whole)
    with Queues(tmp_path) as writer:
        assert writer._current_name == "2.journal"
        writer.commit(3, 3, told([(NOTIFICATION, 91, b"", [(queue, 1)])]), meanings)
        assert [d.number for d in writer.read(queue, 0).deliveries] == list(range(1, 7))


def test_a_reader_that_missed_what_was_dropped_knows_all_queues(tmp_path, small):
    filled(tmp_path, 1)
    with QueueReader(tmp_path) as reader, Queues(tmp_path) as writer:
        new = writer.make("new")
        for batch in range(1, 20):
            writer.commit(batch, batch, told([(NOTIFICATION, batch, b"", [(new, 1)])]), meanings)
            writer.wait()
        assert writer.retain(size=0) > 0
        reader.refresh()
        assert reader.queue("new") == new
        assert (reader.last(new), reader.oldest(new)) == (19, writer.oldest(new))


def test_a_reader_may_open_while_files_are_replaced(tmp_path, small, monkeypatch):
    """The manifest that it has read names files that are gone a moment later."""
    filled(tmp_path, 2)
    read, left = reader_module.read_manifest, [3]

    def late(directory):
        found = read(directory)
        if left[0]:
            left[0] -= 1
            monkeypatch.setattr(reader_module, "read_manifest", read)  # the writer reads it too
            filled(tmp_path, 2 + 2 * (3 - left[0]))
            monkeypatch.setattr(reader_module, "read_manifest", late)
        return found

    monkeypatch.setattr(reader_module, "read_manifest", late)
    with QueueReader(tmp_path) as reader:
        assert [reader.last(queue) for queue in reader] == [16, 16, 16]
    assert left == [0]


def test_a_flipped_bit_is_never_believed(tmp_path, small):
    filled(tmp_path, 14)
    with QueueReader(tmp_path) as reader:
        expected = {queue: reader.read(queue, 0, 1000).deliveries for queue in reader}
    random = Random(1)
    for path in [path for path in sorted(tmp_path.iterdir()) if path.name != "lock"]:
        data = path.read_bytes()
        for _ in range(min(150, 8 * len(data))):
            flipped = bytearray(data)
            place = random.randrange(8 * len(data))
            flipped[place // 8] ^= 1 << place % 8
            path.write_bytes(flipped)
            try:
                with QueueReader(tmp_path) as reader:
                    found = {queue: reader.read(queue, 0, 1000).deliveries for queue in reader}
                assert found == expected
            except StoreError:
                pass
        path.write_bytes(data)


def test_a_second_writer_is_refused(tmp_path):
    with Queues(tmp_path), pytest.raises(StoreError, match="at work"):
        Queues(tmp_path)


def test_an_ended_queue_has_ended_also_for_its_successor(tmp_path, small):
    with Queues(tmp_path) as writer:
        before = writer.make("ann")
        writer.commit(1, 1, told([(NOTIFICATION, 1, b"", [(before, 1)])]), meanings)
        writer.end(before)
        after = writer.make("ann")
        assert after.epoch != before.epoch
        for batch in range(2, 9):
            writer.commit(batch, batch, told([(NOTIFICATION, batch, b"", [(after, 1)])]), meanings)
            writer.wait()
        with pytest.raises(StoreError, match="not ended"):
            writer.read(before, 0)
        assert [d.row for d in writer.read(after, 0).deliveries] == list(range(2, 9))
        assert sum(frame.deliveries for frame in writer._frames()) == 7


def test_an_end_that_was_not_committed_costs_nothing(tmp_path, small):
    with Queues(tmp_path) as writer:
        queue = writer.make("ann")
        for batch in range(2):
            writer.commit(batch, batch, told([(NOTIFICATION, batch, b"", [(queue, 1)])]), meanings)
        writer.end(queue)
        assert writer._oldest_kept()[queue.number] == 0
    with Queues(tmp_path) as writer:
        assert [d.row for d in writer.read(queue, 0).deliveries] == [0, 1]


@pytest.mark.parametrize("how", [{"before": 12}, {"size": 1500}])
def test_what_is_too_old_goes_and_numbers_go_on(tmp_path, small, how):
    filled(tmp_path, 14)
    with Queues(tmp_path) as writer:
        queue = writer.queue("p2")
        assert writer.retain(**how) > 0
        oldest = writer.oldest(queue)
        assert 1 < oldest <= 2 * 12 + 1 if "before" in how else oldest > 1
        page = writer.read(queue, 0, 1000)
        assert [d.number for d in page.deliveries] == list(range(oldest, 29))
        writer.end(writer.queue("p0"))
        writer.commit(14, 14, NOTHING, meanings)
        assert writer.retain(size=0) > 0
    with Queues(tmp_path) as writer:
        assert sorted(queue.principal for queue in writer) == ["p1", "p2"]
        new = writer.make("new")
        assert new.number == 3
        writer.commit(15, 15, told([(NOTIFICATION, 1, b"", [(queue, 1), (new, 2)])]), meanings)
        assert writer.last(queue) == 29
        assert writer.last(new) == 1


def test_a_failed_write_changes_nothing(tmp_path, monkeypatch):
    with Queues(tmp_path) as writer:
        queue = writer.make("ann")
        things = told([(NOTIFICATION, 1, b"", [(queue, 1)])])
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            with pytest.raises(StoreError, match="No space left"):
                writer.commit(1, 1, things, meanings)
        assert writer.last(queue) == 0
        assert writer.commit(1, 1, things, meanings)
        assert [d.number for d in writer.read(queue, 0).deliveries] == [1]


@pytest.mark.parametrize("kind", [QueueReader, Queues])
def test_queues_that_were_refused_leave_nothing_open(tmp_path, kind):
    filled(tmp_path)
    data = bytearray((tmp_path / "1.journal").read_bytes())
    data[100] ^= 1
    (tmp_path / "1.journal").write_bytes(data)
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with pytest.raises(StoreError):
            kind(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_closed_queues_say_so(tmp_path):
    filled(tmp_path)
    reader = QueueReader(tmp_path)
    queue = reader.queue("p1")
    reader.close()
    with pytest.raises(StoreError, match="queues that are open; got closed ones"):
        reader.read(queue, 0)


def test_what_cannot_be_meant_is_refused(tmp_path):
    with pytest.raises(StoreError, match="No such file"):
        QueueReader(tmp_path / "none")
    with pytest.raises(SettingError, match="at least 1"):
        Queues(tmp_path, most=0)
    with Queues(tmp_path) as writer:
        with pytest.raises(StoreError, match="'nobody'"):
            writer.queue("nobody")
        for after, limit, said in (
            (-1, 1, "from 0 up"),
            (True, 1, "from 0 up"),
            (0, 0, "from 1 up"),
            (0, "9", "limit"),
        ):
            with pytest.raises(SettingError, match=said):
                writer.read(writer.make("ann"), after, limit)
        with pytest.raises(SettingError, match="before or size"):
            writer.retain()
