"""Subscriptions that look at the past, in a lane without Spark: however it is cut and killed, what an engine tells."""

from __future__ import annotations

import shutil

import pytest

import tidegate as tg
from tests.patterns.oracle import World
from tests.patterns.past_events import counted
from tests.patterns.strategies import Action, lasting, looks_back, pieces, thrown, unruly
from tests.pipeline.lane import rows
from tests.pipeline.past_twins import TROUBLES, Twins, part, subscriptions
from tidegate.kernels.past_records import LIST_ORDINAL, REFUSALS
from tidegate.patterns import past_storage
from tidegate.pipeline import flow as flow_module
from tidegate.runs.sources import LogSource
from tidegate.stages import combine, live_shard
from tidegate.testing import as_table

# --- the lane without Spark -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_the_lane_tells_what_an_engine_tells(tmp_path, seed):
    """One shard or three; batches of any size; killed, rebuilt and run again; subscriptions come and go."""
    dice = thrown(seed)
    lateness, count, most_parts = dice([0, 0, 2, 4.5]), (1, 3)[seed % 2], dice([0, 2, 100])
    keep = dice([None, None, 3, 8])
    script = looks_back(dice, lasting(dice, 40, 60, disorder=dice([0, 2])), most=12, ends=False)
    with Twins(tmp_path, lateness, count, keep, most_parts) as twins:
        twins.follow(script, dice)
        twins.assert_same()


@pytest.mark.parametrize("count", [1, 3])
def test_the_lane_equals_the_oracle(tmp_path, count):
    """Each kind of condition, with events that run across batches."""
    dice, world, wanted = thrown(41), World(), []
    stream = lasting(dice, 120, 120, disorder=0)
    script = [Action("subscribe", one) for one in subscriptions()]
    script += [Action("publish", batch) for batch in pieces(stream, [dice(range(120)) for _ in range(9)])]
    with Twins(tmp_path, count=count) as twins:
        for number, action in enumerate(script):
            wanted += getattr(world, action.what)(action.operand) or []
            if twins.act(action):
                twins.batch(TROUBLES[number % len(TROUBLES)])
        found = [
            (r["subscription_id"].removeprefix("ann/"), r["time"], tuple(r["publication_ids"]))
            for r in rows(twins.lane.told)
        ]
        assert sorted(found) == sorted((t.subscription, t.time, t.publications) for t in wanted)
        assert {id for id, _, _ in found} == {one.id for one in subscriptions()}
        assert twins.refused == [{}] * len(twins.refused)
        assert world.refused == {}


@pytest.mark.parametrize("seed", range(20, 24))
def test_little_room(tmp_path, monkeypatch, seed):
    """What is forgotten makes room at once, in arrays on the heap and in files that were longer before."""
    monkeypatch.setattr(past_storage, "_FEW", 4)
    dice = thrown(seed)
    script = looks_back(dice, lasting(dice, 150, 150, disorder=0), most=12, depth=2, ends=False)
    with Twins(tmp_path, count=(1, 3)[seed % 2], keep=dice([2, 6])) as twins:
        twins.follow(script, dice)
        twins.assert_same()


def test_many_events_end_in_one_batch(tmp_path):
    """More than a list has room for anyway: of filters that knew them as running, as values only, and not at all."""
    some = range(300)
    with Twins(tmp_path) as twins:
        twins.act(Action("subscribe", tg.Subscription("values", "ann", "n < past(n, k = 1)")))
        twins.act(Action("subscribe", tg.Subscription("steady", "ann", "T_DURING(time, past(k = 0))")))
        twins.act(Action("publish", [part("START", f"e{i}", 1, k=i % 3, n=i) for i in some]))
        twins.batch("another process")
        twins.act(Action("subscribe", tg.Subscription("times", "ann", "T_AFTER(time, past(k = 1))")))
        twins.act(Action("publish", [part("END", f"e{i}", 2, n=-1) for i in some]))
        twins.batch("another machine")
        twins.act(Action("publish", [part("START", f"f{i}", 3, k=1) for i in some]))
        twins.act(Action("publish", [part("END", f"f{i}", 4) for i in some]))
        twins.act(Action("publish", [part("INSTANT", "after", 5)]))
        twins.batch()
        twins.assert_same()
        assert {row["subscription_id"] for row in rows(twins.expected)} == {"ann/values", "ann/steady", "ann/times"}


def test_room_is_for_what_may_come(tmp_path):
    """Not as many ends for each filter as a batch has in all."""
    with Twins(tmp_path) as twins:
        for i in range(100):
            twins.act(Action("subscribe", tg.Subscription(f"s{i}", "ann", f"n = 1 AND T_AFTER(time, past(k = {i}))")))
        for second in range(0, 8, 2):
            ids = [f"e{i}-{second}" for i in range(500)]
            twins.act(Action("publish", [part("START", id, second, k=i % 100) for i, id in enumerate(ids)]))
            twins.act(Action("publish", [part("END", id, second + 1) for id in ids]))
            twins.act(Action("publish", [part("INSTANT", f"i{second}", second + 1.5, n=1)]))
            twins.batch()
        twins.assert_same()
        assert sum(table.num_rows for table in twins.expected) == 400
        assert len(live_shard._MAPPED["lane", 0].families["past"].storage.pool.data) < 50_000


def test_its_own_value_is_hidden_after_room_was_made(tmp_path, monkeypatch):
    """An END is not compared with its own START, wherever what is remembered was laid meanwhile."""
    monkeypatch.setattr(past_storage, "_FEW", 4)
    with Twins(tmp_path, keep=5) as twins:
        twins.act(Action("subscribe", tg.Subscription("same", "ann", "n = past(n, TRUE)")))
        for i in range(40):
            some = [part("INSTANT", f"i{i}-{j}", i + j / 20, n=100 * i + j) for j in range(20)]
            twins.act(Action("publish", [*some[:10], part("START", f"e{i}", i + 0.5, n=-i), *some[10:]]))
            ends = [part("END", f"e{i - 3}", i + 0.99, n=3 - i)] if i > 2 else []
            twins.act(Action("publish", [*ends, part("INSTANT", f"j{i}", i + 0.99, n=-i if i % 7 == 0 else 0.5 + i)]))
            twins.batch(TROUBLES[i % len(TROUBLES)])
        twins.assert_same()
        found = {row["publication_ids"][0] for row in rows(twins.expected)}
        assert found == {f"{what}{i}" for i in range(0, 40, 7) for what in "je"}, "j is as e began, and e ends as j was"
        assert live_shard._MAPPED["lane", 0].families["past"].asked.lists.used[:, LIST_ORDINAL].max() > 400  # laid anew


# --- refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30, 34))
def test_all_shards_refuse_the_same_while_they_have_somebody(tmp_path, seed):
    """Streams that keep no rule, with a subscriber from the first to the last publication wherever there is one."""
    dice = thrown(seed)
    count, stream = (1, 3)[seed % 2], unruly(dice, 60, 60)
    script = [a for a in looks_back(dice, stream, most=6, ends=False) if count == 1 or a.what == "publish"]
    steady = [Action("subscribe", one) for one in subscriptions(100)[: dice([1, 4, 13])]]
    with Twins(tmp_path, dice([0, 3]), count, dice([None, 4])) as twins:
        twins.follow([*steady, *script], dice)
        twins.assert_same()
        wanted = counted(twins.engine.refused)
        assert sum(wanted.values()) > 10
        assert twins.refused == [wanted] * len(twins.refused) != []


@pytest.mark.parametrize("seed", range(40, 43))
def test_no_stream_is_too_unruly(tmp_path, seed):
    """Whoever comes and goes: a shard that was asked later has refused less, or other things, and goes on."""
    dice = thrown(seed)
    script = looks_back(dice, unruly(dice, 60, 60), most=12, ends=False)
    with Twins(tmp_path, dice([0, 3]), 3, dice([None, 4])) as twins:
        twins.follow(script, dice)
        assert all(set(found) <= set(REFUSALS.values()) for found in twins.refused)


# --- what is kept ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", TROUBLES)
def test_an_event_runs_across_a_restart(tmp_path, trouble):
    """From snapshot and parts, and from arrays that another process maps: a new process changes nothing by looking."""
    during = tg.Subscription("during", "ann", "T_DURING(time, past(storm))")
    with Twins(tmp_path) as twins:
        twins.act(Action("subscribe", during))
        for publications in (
            [part("START", "s", 1, storm=True)],
            [part("INSTANT", "a", 2)],
            [part("INSTANT", "b", 3), part("END", "s", 4)],
            [part("INSTANT", "c", 5), part("END", "s", 6)],
        ):
            twins.act(Action("publish", publications))
            twins.batch(trouble)
        twins.assert_same()
        assert sorted(row["publication_ids"][0] for row in rows(twins.lane.told)) == ["a", "b"]
        assert twins.refused == [{"end without start": 1}]


def test_a_process_that_still_maps_files_that_were_removed(tmp_path):
    """As a worker does that has outlived a flow: the next flow's files have the same names, and are others."""
    dice = thrown(3)
    with Twins(tmp_path, most_parts=100) as twins:
        for one in subscriptions():
            twins.act(Action("subscribe", one))
        for number, batch in enumerate(pieces(lasting(dice, 90, 90, disorder=0), [15, 30, 45, 60, 75])):
            twins.act(Action("publish", batch))
            if number == 2:  # the flow is closed; another process has the first batch of the next one
                shutil.rmtree(twins.cache / "patterns")
                first, live_shard._MAPPED = live_shard._MAPPED, {}
            elif number == 3:
                live_shard._MAPPED = first
            twins.batch()
            twins.act(Action("unsubscribe", f"s{number}"))
        twins.assert_same()


def test_facts_are_part_of_the_state(tmp_path):
    """Since when events are known, and what was refused: of a state that is read, and of one that is mapped."""
    with Twins(tmp_path, most_parts=0) as twins:
        twins.act(Action("publish", [part("START", "before", 0)]))
        twins.act(Action("subscribe", tg.Subscription("s", "ann", "T_DURING(time, past(TRUE))")))
        twins.act(Action("publish", [part("START", "s", 1), part("END", "before", 2)]))
        twins.batch()
        live = live_shard._MAPPED["lane", 0]
        known = twins.lane.known(0)
        built = live_shard.built(combine.Combine(), known, twins.lane.files)
        assert known.snapshot
        assert known.steps == ()
        for state in (live, built):
            facts = state.arrays.facts
            assert facts.born == twins.lane.registry.version
            assert facts.refused == {"end without start": 1}
            assert not facts.remembers
        assert live.arrays.copied().keys() == built.arrays.copied().keys()
        adopted = combine.Combine(0, twins.cache / "patterns" / "lane" / "0")
        assert adopted.adopt(known.token)
        for name, array in built.arrays.copied().items():
            if name != "facts.json":  # the live ones have a token, too
                assert (adopted.arrays.copied()[name] == array).all() or array.dtype.kind == "f", name


def test_keep_may_change_between_batches(tmp_path):
    """Each batch is repeated with what held for it."""
    after = tg.Subscription("after", "ann", "T_AFTER(time, past(y))")
    with Twins(tmp_path, most_parts=100) as twins:
        lane = twins.lane
        twins.act(Action("subscribe", after))
        told = []
        for keep, publication in (
            (60, part("INSTANT", "Y", 0, y=True)),
            (60, part("INSTANT", "a", 9)),
            (5, part("INSTANT", "b", 10)),
            (60, part("INSTANT", "c", 11)),  # forgotten is forgotten
            (60, part("INSTANT", "Z", 12, y=True)),
            (60, part("INSTANT", "d", 13)),
        ):
            lane.set(keep=keep * 1_000_000)
            lane.log.append(as_table([publication]))
            twins.batch("another machine")
            told += [row["publication_ids"][0] for row in lane.told[-1].to_pylist()]
    assert told == ["a", "d"]


def test_keep_in_a_configuration(tmp_path, monkeypatch):
    """Seconds, passed on to the flow; a year and a day if nothing is said."""
    from tidegate.pipeline.from_config import flow_of
    from tidegate.runs.config import load
    from tidegate.stages.shard_state import CombineSettings

    given = []
    monkeypatch.setattr(flow_module.Flow, "__init__", lambda self, *_, **settings: given.append(settings["keep"]))
    for line in ("keep = 2.5", "keep = 90", ""):
        file = tmp_path / "run.toml"
        file.write_text(
            f"""
[source]
type = "log"
path = "log"
[subscriptions]
registry = "registry.db"
[[sinks]]
type = "parquet"
path = "out"
[run]
checkpoint = "checkpoint"
{line}
"""
        )
        flow_of(load(file), None, LogSource(tmp_path / "log"), None)
    assert given == [2.5, 90.0, None]
    file.write_text(file.read_text() + 'keep = "long"')
    with pytest.raises(tg.SettingError, match="a number of 0 or more"):
        load(file)
    assert CombineSettings(0).keep == 366 * 24 * 3600 * 1_000_000
