"""Patterns with state in the lane: Spark's combine step tells what an engine tells, however often it is cut off.

Without Spark: ``Lane`` runs a batch as Spark does, select and then a call per shard with the state that Spark
keeps, so that hundreds of batches, failures and moves to other machines take seconds. On a real Spark: see
``test_combine_on_spark``.
"""

import os
import shutil
from datetime import timedelta
from multiprocessing import get_context

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.patterns.strategies import scripts
from tests.pipeline.lane import SECOND, TIME, Lane, Stream, at_seconds, rows, subscription
from tests.registered import registered
from tidegate import array_bundle, checked_json
from tidegate.errors import StoreError
from tidegate.stages import combine, live_shard, log_planner
from tidegate.stages.shard_parts import ShardFiles
from tidegate.testing import as_table


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of this test's own, and no shards that were mapped before."""
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(live_shard, "_MAPPED", {})
    monkeypatch.setattr(log_planner, "_ALONE", 8)  # a batch of few publications has several tasks
    return tmp_path / "cache"


def trouble(cache, kind):
    """What may happen to a machine between two batches."""
    if kind == "another process":
        live_shard._MAPPED.clear()
    elif kind == "another machine":
        shutil.rmtree(cache / "patterns")
        live_shard._MAPPED.clear()
    elif kind == "a foreign token":
        for file in (cache / "patterns").rglob("facts.json"):
            file.write_bytes(checked_json.packed(checked_json.unpacked(file.read_bytes()) | {"token": "x"}))
    elif kind == "a damaged list":
        for file in (cache / "patterns").rglob("facts.json"):
            file.write_bytes(file.read_bytes().replace(b'"clock":', b'"cloak":'))
    elif kind == "a file is gone":  # with the list of arrays still there
        for shard in (cache / "patterns").glob("*/*"):
            arrays = [file for file in shard.iterdir() if file.name not in ("lock", "facts.json")]
            max(arrays, key=lambda file: file.stat().st_size).unlink()


TROUBLES = ("none", "another process", "another machine", "a foreign token", "a damaged list", "a file is gone")


@examples(5, phases=[Phase.explicit, Phase.generate])  # to shrink takes minutes
@given(script=scripts(), lateness=st.sampled_from([0, 0, 2, 4, 4.5]), count=st.integers(1, 3), data=st.data())
def test_whatever_happens_the_lane_tells_what_an_engine_tells(tmp_path_factory, script, lateness, count, data):
    """However batches fall and whatever becomes of the live arrays, with few and with many snapshots of the state."""
    directory = tmp_path_factory.mktemp("lane")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_CACHE", str(directory / "cache"))
        patch.setattr(live_shard, "_MAPPED", {})
        patch.setattr(log_planner, "_ALONE", data.draw(st.sampled_from([4, 1000])))
        patch.setattr(combine, "_MOST_STEPS", data.draw(st.sampled_from([0, 2, 100])))
        lane, engine, expected = Lane(directory, lateness, count), tg.Engine(lateness=lateness * SECOND), []
        for what, operand in script:
            if what == "publish":
                lane.log.append(as_table(operand))
                expected.append(engine.publish(as_table(operand)))
                happens = data.draw(st.sampled_from(["no batch yet", *TROUBLES]))
                if happens != "no batch yet":
                    lane.batch()
                    trouble(directory / "cache", happens)
            elif what != "advance":  # the log has no such thing: see the tests of its clock
                called = registered(operand) if what == "subscribe" else f"ann/{operand}"
                getattr(engine, what)(called)
                getattr(lane.registry, what)(operand if what == "subscribe" else called)
        lane.batch()
        assert rows(lane.told) == rows(expected)


@pytest.mark.parametrize("lateness", [0, 3])
def test_what_becomes_of_the_live_arrays_changes_nothing(tmp_path, cache, monkeypatch, lateness):
    monkeypatch.setattr(combine, "_MOST_STEPS", 3)
    lane, engine, stream = Lane(tmp_path, lateness), tg.Engine(lateness=lateness * SECOND), Stream(3, lateness)
    expected = []
    for step in range(8):
        for number in (2 * step, 2 * step + 1):
            lane.registry.subscribe(subscription(number))
            engine.subscribe(registered(subscription(number)))
        if step in (5, 6):
            lane.registry.unsubscribe(f"ann/s{step}")
            engine.unsubscribe(f"ann/s{step}")
        frames = [stream.frame(20, late=step % 2), stream.frame(15)]
        lane.publish(*frames)
        expected += [engine.publish(frame) for frame in frames]
        trouble(cache, TROUBLES[step % len(TROUBLES)])
    lane.publish(last := stream.last())
    expected.append(engine.publish(last))
    assert rows(lane.told) == rows(expected)
    assert lane.known(0).snapshot
    assert len(lane.known(0).steps) <= 3
    assert lane.total("unscored") == engine.unscored
    assert lane.total("state_bytes") > 0


def test_who_ended_is_not_told_of_what_still_waited(tmp_path, cache):
    """A publication waits while its time is the clock's; batches that begin before and end after must not know it."""
    told = []
    for together in (True, False):
        (tmp_path / str(together)).mkdir()
        live_shard._MAPPED.clear()
        shutil.rmtree(cache, ignore_errors=True)
        lane = Lane(tmp_path / str(together), lateness=2)
        lane.registry.subscribe(tg.Subscription("best", "ann", "topk(3, 'PT5S', n)"))
        lane.log.append(at_seconds(0, 1, 2, 4))
        if not together:
            lane.batch()
        lane.registry.unsubscribe("ann/best")
        lane.publish(at_seconds(10))
        told.append(rows(lane.told))
    assert told[0] == told[1]


@pytest.mark.parametrize("where", ["topk(3, 'PT5S', n)", "together('PT5S', n >= 0, n >= 1)", "absent('PT2S', n > 90)"])
def test_who_ended_within_a_batch_does_not_see_what_came_later(tmp_path, cache, where):
    """Also if it is of the time before: it would have waited for it."""
    lane, engine = Lane(tmp_path, lateness=5), tg.Engine(lateness=5 * SECOND)
    lane.registry.subscribe(one := tg.Subscription("s", "ann", where))
    engine.subscribe(registered(one))
    frames = at_seconds(0, 1, 10), at_seconds(8, 9, 30)
    lane.log.append(frames[0])
    expected = [engine.publish(frames[0])]
    lane.registry.unsubscribe("ann/s")
    engine.unsubscribe("ann/s")
    lane.publish(frames[1])
    expected.append(engine.publish(frames[1]))
    assert rows(lane.told) == rows(expected)


# --- the token ------------------------------------------------------------------------------------------------------


@pytest.fixture
def lane(tmp_path, cache):
    """Two batches are done; ``lane.parts`` are those of the second."""
    lane = Lane(tmp_path)
    lane.registry.subscribe(*(subscription(number) for number in range(16)))
    stream = Stream(5)
    lane.stream = stream
    lane.publish(stream.frame(), stream.frame())
    lane.publish(stream.frame())
    return lane


@pytest.fixture
def reads(monkeypatch):
    """The names of the files that were read."""
    names, read = [], ShardFiles.read
    monkeypatch.setattr(ShardFiles, "read", lambda self, name: (names.append(name), read(self, name))[1])
    return names


def third(lane):
    """Have the parts of a third batch ready, with subscriptions coming and going in it."""
    start = {"row": lane.row}
    lane.registry.subscribe(*(subscription(number) for number in range(16, 20)))
    lane.log.append(lane.stream.frame())
    lane.registry.unsubscribe("ann/s3", "ann/s5")
    lane.log.append(lane.stream.frame())
    lane.row, lane.number = lane.log.end, lane.number + 1
    lane.parts = lane.selected(start, lane.cut(lane.row))


def without_parts(reads):
    """What was read besides the parts of the batch itself and its changes."""
    return [name for name in reads if not name.startswith(("part-000000000002", "change-000000000002"))]


def test_the_live_arrays_are_used_from_batch_to_batch(lane, reads):
    third(lane)
    states, receipts = lane.combined()
    assert receipts.flat.num_rows > 50
    assert without_parts(reads) == []
    assert states != lane.states


def test_a_process_adopts_what_another_has_left(lane, reads):
    third(lane)
    live_shard._MAPPED.clear()
    lane.combined()
    assert without_parts(reads) == []


def test_another_process_really_takes_it_further(lane):
    """The second batch of these here, the third in a process that is started anew, the fourth here again."""
    third(lane)
    with get_context("spawn").Pool(1) as pool:
        lane.states, tables = pool.apply(_elsewhere, (lane.combining, lane.parts, lane.states, lane.number))
    told = [*lane.told, *tables]
    lane.told = []
    lane.publish(lane.stream.frame())
    told += lane.told
    engine, stream = tg.Engine(registered(subscription(number)) for number in range(16)), Stream(5)
    expected = [engine.publish(stream.frame()) for _ in range(3)]
    for number in range(16, 20):
        engine.subscribe(registered(subscription(number)))
    expected.append(engine.publish(stream.frame()))
    for id in ("ann/s3", "ann/s5"):
        engine.unsubscribe(id)
    expected += [engine.publish(stream.frame()) for _ in range(2)]
    assert rows(told) == rows(expected)


def _elsewhere(combining, parts, states, number):
    """The second stage of a batch, in another process. Only without plain subscriptions is that all that is told."""
    lane = Lane.__new__(Lane)
    lane.combining, lane.parts, lane.states, lane.number = combining, parts, states, number
    fresh, receipts = lane.combined()
    return fresh, [receipts.flat]


def test_a_failed_attempt_leaves_no_trace(lane, cache, reads, monkeypatch):
    """What it began to change is not to be trusted; the attempt after it begins from what Spark has."""
    third(lane)
    apply = combine.stepped

    def fails(live, step, files, ids=False):
        apply(live, step, files, ids)
        raise OSError("no more disk")

    monkeypatch.setattr(combine, "stepped", fails)
    with pytest.raises(OSError, match="no more disk"):
        lane.combined()
    assert without_parts(reads) == []  # it had the live arrays
    assert not (cache / "patterns" / "lane" / "0" / "facts.json").exists()
    monkeypatch.setattr(combine, "stepped", apply)
    found = lane.combined()[1].flat
    assert without_parts(reads) != []  # built again
    trouble(cache, "another machine")
    assert lane.combined()[1].flat.equals(found)


def test_a_batch_that_is_run_again_is_built_from_what_spark_has(lane, reads):
    """The arrays are one batch ahead of a Spark that did not get as far as to commit."""
    third(lane)
    first, second = lane.combined()[1].flat, lane.combined()[1].flat
    assert first.equals(second)
    assert without_parts(reads) != []


def test_arrays_of_another_state_are_not_used(lane, cache, reads):
    third(lane)
    expected = lane.combined()[1].flat
    lane.combined()
    trouble(cache, "a foreign token")
    reads.clear()
    assert lane.combined()[1].flat.equals(expected)
    assert without_parts(reads) != []


def test_a_task_that_still_runs_keeps_the_files(lane, cache):
    """One that was given up holds the lock; whoever comes works on its own heap and touches nothing."""
    import fcntl

    third(lane)
    expected = lane.combined()[1].flat
    before = {path: path.read_bytes() for path in (cache / "patterns").rglob("*") if path.is_file()}
    locks = [(cache / "patterns" / "lane" / str(shard) / "lock").open("w") for shard in range(2)]
    for lock in locks:
        fcntl.flock(lock, fcntl.LOCK_EX)
    states, receipts = lane.combined()
    assert receipts.flat.equals(expected)
    assert before == {path: path.read_bytes() for path in (cache / "patterns").rglob("*") if path.is_file()}
    for lock in locks:
        lock.close()
    lane.states = states
    lane.publish(lane.stream.frame())  # and whoever comes then finds no arrays of its state


def test_files_that_no_state_needs_go_with_the_next_snapshot(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(combine, "_MOST_STEPS", 2)
    lane, stream = Lane(tmp_path), Stream(5)
    lane.registry.subscribe(*(subscription(number) for number in range(8)))
    for _ in range(12):
        lane.publish(stream.frame(20))
        before = lane.states
        lane.combined()  # an attempt whose files nobody names
    there = set(os.listdir(tmp_path / "patterns"))
    named = {name for shard in range(2) for name in lane.known(shard).files}
    assert named <= there
    assert len(there) < 40
    lane.states = before
    shutil.rmtree(cache / "patterns")
    live_shard._MAPPED.clear()
    lane.combined()  # the batch before the last is still there to begin from


def test_state_at_a_url(tmp_path, cache):
    """As a checkpoint on a cluster is."""
    files = ShardFiles(f"file://{tmp_path}/state")
    files.write("part-000000000000-0-1-a", array_bundle.packed({"x": np.arange(3)}, ["fact"]))
    arrays, facts = files.read("part-000000000000-0-1-a")
    assert (arrays["x"].tolist(), facts) == ([0, 1, 2], ["fact"])
    arrays["x"][0] = 7  # its own
    with pytest.raises(StoreError, match="a file with a bundle of arrays; got none"):
        files.read("part-000000000000-0-1-b")
    files.tidy(0, 1, set())
    files.tidy(1, 0, set())
    files.tidy(1, 1, {"part-000000000000-0-1-a"})
    assert os.listdir(tmp_path / "state") == ["part-000000000000-0-1-a"]
    files.tidy(1, 1, set())
    assert os.listdir(tmp_path / "state") == []


# --- the clock of the log -------------------------------------------------------------------------------------------


def microseconds(seconds):
    return int((TIME + seconds * SECOND).timestamp() * 1e6)


def test_the_time_of_day_moves_the_clock(tmp_path, cache):
    """As ``Engine.advance`` does; what comes then with an older time is late."""
    lane, engine, expected = Lane(tmp_path), tg.Engine(), []
    for where in ("absent('PT2S', n >= 0)", "topk(1, 'PT2S', n)", "absent('PT3S', n >= 0, source)"):
        one = tg.Subscription(where, "ann", where)
        lane.registry.subscribe(one)
        engine.subscribe(registered(one))
    for seconds, now in (((0, 1), 2), ((), 3), ((), 4), ((2, 5), 6), ((), 60)):
        frame = at_seconds(*seconds)
        if seconds:
            lane.log.append(frame)
            expected.append(engine.publish(frame))
        lane.batch(microseconds(now))
        trouble(cache, "another machine")
        expected.append(_as_rows(engine.advance(TIME + now * SECOND)))
    assert rows(lane.told) == rows(expected)
    assert engine.late == 1


class _as_rows:
    """Notifications as objects, with the rows that a table of them has."""

    def __init__(self, notifications):
        self._notifications = notifications

    def to_pylist(self):
        return [
            {
                "notification_id": n.id, "subscription_id": n.subscription, "subscriber": n.subscriber, "time": n.time,
                "publication_ids": list(n.publications), "score": n.score, "distance": n.distance,
            }
            for n in self._notifications
        ]  # fmt: skip


def test_ticks_bring_and_end_subscriptions(tmp_path):
    def at(seconds):
        return int((TIME + timedelta(seconds=seconds)).timestamp() * 1e6)

    def told(lane):
        return sorted((row["time"].second, row["subscription_id"]) for row in rows(lane.told))

    lane = Lane(tmp_path)
    lane.registry.subscribe(tg.Subscription("never", "ann", "absent('PT2S', n >= 0)"))
    lane.batch(at(0))
    lane.batch(at(1))
    assert told(lane) == []
    lane.batch(at(10))
    assert told(lane) == [(2, "ann/never")]  # nothing was ever published
    lane.registry.subscribe(tg.Subscription("new", "ann", "absent('PT3S', n >= 0)"))
    lane.batch(at(11))
    lane.batch(at(20))
    assert told(lane) == [(2, "ann/never"), (13, "ann/new")]  # from the tick before it was made
    one = {"id": ["p"], "source": ["z"], "time": pa.array([TIME + timedelta(seconds=21)], pa.timestamp("us", "UTC"))}
    lane.publish(pa.table({**one, "n": [1.0]}))
    lane.batch(at(22))
    lane.registry.unsubscribe("ann/never", "ann/new")
    lane.batch(at(40))
    assert told(lane) == [(2, "ann/never"), (13, "ann/new")]  # both had ended before their silences
