"""Rows of the log: every publication that a notification names is the one at the row that its references name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from pyarrow.parquet import write_table

import tidegate as tg
from tests.parts.profiles import examples
from tests.patterns.strategies import lasting, looks_back, scripts, thrown
from tests.pipeline.lane import SECOND, Lane, Stream, at_seconds, rows, subscription
from tests.pipeline.references import Referred, check
from tests.pipeline.test_combine import TROUBLES, trouble
from tidegate import array_bundle
from tidegate.broker.process_run import ProcessRun
from tidegate.patterns import memory
from tidegate.runs.sources import FilesSource
from tidegate.sealed_directory import seal
from tidegate.stages import combine, feed, live_shard, log_planner
from tidegate.store.log_check import damaged, drop
from tidegate.testing import as_table


class ReferringLane(Lane):
    """A lane whose only sink takes references."""

    def __init__(self, directory, lateness=0.0, count=2, ahead=None):
        super().__init__(directory, lateness, count, ahead)
        self.sink, self.names = Referred(), {}
        halves = (self.sink.half,)
        self.work = replace(self.work, outlet=replace(self.work.outlet, halves=halves))
        self.combining = replace(self.combining, halves=halves)

    def accept(self, receipts):
        self.sink.commit(self.number, receipts)

    def subscribe(self, *subscriptions):
        for one in subscriptions:
            self.registry.subscribe(one)
            self.names[self.registry.version] = f"{one.subscriber}/{one.id}"

    def checked(self):
        return check(self.sink.told, self.log, self.names)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(live_shard, "_MAPPED", {})
    return tmp_path / "cache"


#: Every family: those of ``scripts``, and what looks back.
SCRIPTS = scripts() | st.builds(lambda dice: looks_back(dice, lasting(dice)), st.integers(0, 1 << 32).map(thrown))


@examples(8, phases=[Phase.explicit, Phase.generate])  # to shrink takes minutes
@given(
    script=SCRIPTS, lateness=st.sampled_from([0, 0, 2, 4.5]), count=st.integers(1, 3),
    ahead=st.sampled_from([None, None, 6, 12]), data=st.data(),
)  # fmt: skip
def test_rows_are_those_of_the_publications_that_are_named(
    tmp_path_factory, script, lateness, count, ahead, data
):  # fmt: skip
    directory = tmp_path_factory.mktemp("rows")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_CACHE", str(directory / "cache"))
        patch.setattr(live_shard, "_MAPPED", {})
        patch.setattr(log_planner, "_ALONE", data.draw(st.sampled_from([4, 1000])))
        patch.setattr(combine, "_MOST_STEPS", data.draw(st.sampled_from([0, 2, 100])))
        patch.setattr(feed, "SIZE", data.draw(st.sampled_from([1, 5, 65_536])))
        lane = ReferringLane(directory, lateness, count, ahead)
        for what, operand in script:
            if what == "publish":
                lane.log.append(as_table(operand))
                happens = data.draw(st.sampled_from(["no batch yet", *TROUBLES]))
                if happens != "no batch yet":
                    lane.batch()
                    trouble(directory / "cache", happens)
            elif what == "subscribe":
                lane.subscribe(operand)
            elif what == "unsubscribe":
                lane.registry.unsubscribe(f"ann/{operand}")
        lane.batch()
        lane.checked()


def test_what_is_forgotten_and_what_waits_keeps_its_rows(tmp_path, cache, monkeypatch):
    """Hundreds of publications, of which memory keeps few, snapshots and live arrays that are lost."""
    monkeypatch.setattr(memory, "_FEW", 32)
    monkeypatch.setattr(combine, "_MOST_STEPS", 3)
    lane, stream = ReferringLane(tmp_path, lateness=2), Stream(5, disorder=2)
    for step in range(12):
        lane.subscribe(subscription(step), tg.Subscription(f"shape{step}", "ann", "shape(n, (1, 2, 1), 'stream') <= 1"))
        lane.publish(stream.frame(40, late=step % 2), stream.frame(30))
        trouble(cache, TROUBLES[step % len(TROUBLES)])
    lane.publish(stream.last())
    matches, raised = lane.checked()
    assert matches > 0
    assert raised > 1000
    kept = [len(live.memory) for live in live_shard._MAPPED.values()]
    assert max(kept) < lane.log.end / 2


def test_rows_behind_those_that_were_lost_keep_their_numbers(tmp_path, cache):
    lane, stream = ReferringLane(tmp_path), Stream(5)
    lane.subscribe(*(subscription(number) for number in range(8)))
    for _ in range(5):
        lane.log.append(stream.frame(20))
    (part,) = lane.log.slices(0, 100, 1)
    (file,) = (tmp_path / "log").glob("*.log")
    content = bytearray(file.read_bytes())
    content[part.last_byte // 2] ^= 1
    file.write_bytes(content)
    for frame in damaged(tmp_path / "log"):
        lost = range(frame.first_row, frame.first_row + frame.rows)
        drop(tmp_path / "log", frame)
    lane.batch()
    lane.publish(stream.last())
    matches, raised = lane.checked()
    assert matches > 0
    assert raised > 100
    told = {row for one in lane.sink.told for row in one["fields"]["row"]}
    assert len(lost) == 20
    assert not told & set(lost)
    assert max(told - {100}) > max(lost)


def test_rows_beside_those_that_are_dated_ahead(tmp_path, cache):
    lane = ReferringLane(tmp_path, ahead=10)
    lane.subscribe(tg.Subscription("all", "ann", "n >= 0"), tg.Subscription("best", "ann", "topk(2, 'PT1M', -n)"))
    for seconds in ((1, 60, 2, 61), (62, 3), (63,), (4, 5, 64)):
        lane.log.append(at_seconds(*seconds))
    lane.batch()
    assert lane.checked() == (5, 5)
    assert {row for one in lane.sink.told for row in one["fields"]["row"]} == {0, 2, 5, 7, 8}
    lane.log.append(at_seconds(65, 66))
    lane.batch()  # which has nothing that is not dated ahead
    assert lane.checked() == (5, 5)


def test_sources_without_rows_have_none(tmp_path, cache):
    (tmp_path / "in").mkdir()
    write_table(Stream(1).frame(300), tmp_path / "in" / "a.parquet")
    sink = Referred()
    with tg.Registry(tmp_path / "registry.db") as registry:
        registry.subscribe(*(subscription(number) for number in range(8)))
        source, checkpoint = FilesSource(str(tmp_path / "in")), tmp_path / "checkpoint"
        run = ProcessRun(source, registry, [sink], checkpoint=checkpoint, lateness=0.0)
        run.start(available_now=True)
        run.wait()
        run.close()
    assert [one["plain"] for one in sink.told] == [True, False]
    for one in sink.told:
        assert one["count"] > 0
        assert set(one["fields"]["row"]) == {-1}
        assert set(one["fields"].get("rows", [-1])) == {-1}


def test_snapshots_from_before_there_were_rows_are_read(tmp_path, monkeypatch):
    """With publications in memory, soon forgotten, and others that wait: an engine has no rows, but arrays for them."""
    monkeypatch.setattr(memory, "_FEW", 8)
    engine, stream = tg.Engine(map(subscription, range(7)), lateness=SECOND), Stream(5)
    engine.publish(stream.frame(60))
    engine.save(tmp_path / "saved")
    lost = 0
    for file in (tmp_path / "saved").glob("shard-*.bundle"):
        arrays, facts = array_bundle.read(file)
        kept = {name: array for name, array in arrays.items() if name not in ("row", "waiting-row")}
        lost += sum(len(arrays[name]) for name in arrays.keys() - kept.keys())
        file.write_bytes(array_bundle.packed(kept, facts))
    assert lost > 60
    record = tmp_path / "saved" / "shards.json"
    record.write_bytes(record.read_bytes().replace(b'"format":3', b'"format":2'))
    seal(tmp_path / "saved")
    older = tg.Engine.load(tmp_path / "saved")
    for frame in (stream.frame(60), stream.last()):
        told = rows([engine.publish(frame)])
        assert rows([older.publish(frame)]) == told
        assert told
