"""The history that a run writes says which events began, ended and were refused, whatever is killed on the way."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.broker.history_oracle import ASKED, WHERE, Account, Stream, in_order, second, written
from tests.broker.test_process_run import Broker, killed
from tests.parts.databases import DATABASES
from tests.parts.mariadb import mariadb
from tests.parts.postgres import postgres
from tests.parts.profiles import examples
from tidegate.errors import SettingError, StoreError
from tidegate.kernels.past_records import BEGINS_EVENT, ENDS_EVENT
from tidegate.runs.config import load
from tidegate.runs.history_sink import HistorySink, united
from tidegate.stages.combine import CombineStep
from tidegate.store.run_history import RunHistory

__all__ = ["mariadb", "postgres"]


# --- laws -----------------------------------------------------------------------------------------------------------


class World(Broker):
    """A broker whose runs write a history."""

    def __init__(self, directory, lateness=0.0, url=None, **settings):
        super().__init__(directory, lateness, **settings)
        self.url = url or directory / "events.db"

    def run(self, rows_of_batch=65_536, sinks=None):
        sinks = [HistorySink(self.url, self.directory / "log")] if sinks is None else sinks
        return super().run(rows_of_batch, sinks)

    def written(self):
        with tg.History(self.url) as history:
            return written(history)


STEPS = (HistorySink, "commit"), (RunHistory, "remember_batch")


@given(seed=st.integers(0, 1 << 32))
@examples(4)
def test_a_run_writes_what_loops_say_for_any_cuts_and_kills(tmp_path_factory, seed):
    random = Random(seed)
    lateness, keep = random.choice([0.0, 2.0]), random.choice([None, 4.0])
    world = World(tmp_path_factory.mktemp("run"), lateness, keep=keep)
    stream, frames, versions = Stream(random, random.choice([0, 1, 3])), [], []
    lives = {0: [world_version(world, 0), None]}
    is_run_at_changes = random.random() < 0.5
    with pytest.MonkeyPatch.context() as patch:
        for number in range(1, random.randrange(4, 12)):
            frames.append(stream.frame(random.randrange(1, 12)))
            versions.append(world.registry.version)
            world.log.append(frames[-1])
            change = random.choice(["come", "go", None, None])
            if is_run_at_changes or random.random() < 0.6:
                while not killed(patch, random, world, random.choice([3, 20, 65_536]), STEPS):
                    pass
            if change == "come":
                lives[number] = [world_version(world, number), None]
            going = [one for one, (_, until) in lives.items() if one and until is None]
            if change == "go" and going:
                lives[gone := random.choice(going)][1] = world.registry.version + 1
                world.registry.unsubscribe(f"ann/s{gone}")
    frames.append(stream.last())
    versions.append(world.registry.version)
    world.log.append(frames[-1])
    assert world.run()
    begun, ended, refused = world.written()
    account = judged(frames, versions, lives, lateness, keep, is_exact=True)
    most = judged(frames, versions, lives, lateness, keep, is_exact=False)
    assert ended == account.ended
    assert refused == sorted(account.refused)
    assert account.begun.items() <= begun.items() <= most.begun.items()
    if is_run_at_changes and not lateness and all(until is None for _, until in lives.values()):
        assert begun == account.begun


def world_version(world, number):
    world.registry.subscribe(tg.Subscription(f"s{number}", "ann", WHERE[number % len(WHERE)]))
    return world.registry.version


def judged(frames, versions, lives, lateness, keep, is_exact):
    """The account of all frames: with ``is_exact`` of what must be remembered, else also of what may be.

    In the batch in which a subscription comes or goes, patterns may remember what it wants all along; and what waits
    when it goes they may not.
    """
    account = Account(None if keep is None else timedelta(seconds=keep))
    for frame, p in in_order(frames, timedelta(seconds=lateness)):
        wanted = False
        for number, (since, until) in lives.items():
            is_there = since <= versions[frame] and (until is None or (versions[frame] < until and not lateness))
            if (is_there or not is_exact) and ASKED[WHERE[number % len(WHERE)]](p.attributes["n"]):
                wanted = True
        account.judge(p, wanted)
    return account


@given(seed=st.integers(0, 1 << 32))
@examples(2)
def test_a_run_writes_what_an_engine_writes(tmp_path_factory, seed):
    random, directory = Random(seed), tmp_path_factory.mktemp("run")
    subscriptions = [tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(WHERE)]
    world, stream = World(directory), Stream(random, random.choice([0, 2]))
    world.registry.subscribe(*subscriptions)
    with tg.History(directory / "other.db") as history, tg.Engine(subscriptions, history=history) as engine:
        for _ in range(random.randrange(1, 12)):
            frame = stream.frame(random.randrange(1, 9))
            engine.publish(frame)
            world.log.append(frame)
            if random.random() < 0.4:
                with pytest.MonkeyPatch.context() as patch:
                    while not killed(patch, random, world, random.choice([3, 65_536]), STEPS):
                        pass
        assert world.run()
        assert world.written() == written(history)
        with tg.History(world.url) as mine:
            assert bodies(mine) == bodies(history)


def bodies(history):
    """What the tables say of each publication, but for its number."""

    def read(body):
        told = {} if body is None else orjson.loads(body)
        told["attributes"] = {name: float(value) for name, value in told.get("attributes", {}).items()}
        return sorted(told.items())

    events = [
        (*one[1:7], read(one.body), one.end_time, read(one.end_body), one.end_seq is None)
        for one in history.events(9999)
    ]
    refused = [(*one[:4], read(one.body)) for one in history.refused(9999)]
    return sorted(map(str, events)), sorted(map(str, refused))


# --- by hand --------------------------------------------------------------------------------------------------------


def publication(id, when, phase=None, source="x", **attributes):
    return tg.Publication(id, source, second(when), {"k": when, "n": 9.0, **attributes}, phase=phase)


@pytest.mark.contract
@pytest.mark.parametrize("kind", DATABASES)
def test_it_goes_on_where_it_was(kind, tmp_path, request):
    fixture = {"postgresql": "postgres", "mariadb": "mariadb"}.get(kind)
    world = World(tmp_path, url=None if fixture is None else request.getfixturevalue(fixture)())
    world.registry.subscribe(tg.Subscription("s", "ann", WHERE[0]))
    world.log.append([publication("a\0é", 1, "START"), publication("b", 2, "START"), publication("c", 3)])
    assert world.run()
    world.log.append([publication("a\0é", 4, "END"), publication("b", 5, "START"), publication("b", 6, "END", "y")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CombineStep, "receipts", broken(CombineStep.receipts))
        with pytest.raises(RuntimeError, match="broken"):
            world.run()
    assert world.run()
    assert world.run()
    start, end = second(1), second(4)
    assert world.written() == (
        {1: (start, None), 2: (second(2), None), 3: (second(3), second(3))},
        {1: (4, end)},
        [("end without start", 6), ("second start", 5)],
    )
    with tg.History(world.url) as history:
        assert history.event("a\0é", "x").end == end
        assert [one.id for one in history.events(running=True)] == ["b"]


def broken(method):
    def called(*arguments):
        method(*arguments)
        raise RuntimeError("broken")

    return called


def test_a_history_belongs_to_one_checkpoint(tmp_path):
    world = World(tmp_path)
    world.registry.subscribe(tg.Subscription("s", "ann", WHERE[0]))
    world.log.append(publication("a", 1))
    assert world.run()
    sink = HistorySink(world.url, tmp_path / "log")
    with pytest.raises(StoreError, match="or that of this run; got one of another checkpoint"):
        sink.begin("another")
    sink.close()
    engine = tg.Subscription("s", "ann", WHERE[0])
    with tg.History(world.url) as history, pytest.raises(StoreError, match="engines write; got one that a run writes"):
        tg.Engine([engine], history=history)
    assert world.run()
    with tg.History(tmp_path / "engine.db") as history, tg.Engine([engine], history=history) as made:
        made.publish([publication("a", 1)])
    sink = HistorySink(tmp_path / "engine.db", tmp_path / "log")
    with pytest.raises(StoreError, match="or that of this run; got one that engines write"):
        sink.begin("q")
    sink.close()
    with tg.History(tmp_path / "engine.db") as history, tg.Engine([engine], history=history):
        assert len(history) == 1


def test_one_run_at_a_time_and_people_may_look(tmp_path):
    sink, other = (HistorySink(tmp_path / "events.db", tmp_path / "log") for _ in range(2))
    tg.Log(tmp_path / "log").close()
    sink.begin("q")
    with pytest.raises(StoreError, match="nobody else writes to"):
        other.begin("q")
    with tg.History(tmp_path / "events.db") as history:
        assert (len(history), history.events(), history.refused_counts()) == (0, [], {})
    sink.close()
    other.begin("q")
    other.close()


def test_an_event_that_nobody_remembered_ends_all_the_same(tmp_path):
    """When the last subscription goes patterns forget; the event may begin once more, and its END ends both."""
    world = World(tmp_path)
    world.registry.subscribe(tg.Subscription("s", "ann", WHERE[0]))
    world.log.append(publication("a", 1, "START"))
    world.run()
    world.registry.unsubscribe("ann/s")
    world.log.append(publication("b", 2, n=0.0))
    world.run()
    world.registry.subscribe(tg.Subscription("t", "ann", WHERE[0]))
    world.log.append([publication("a", 3, "START"), publication("a", 4, "END")])
    world.run()
    with tg.History(world.url) as history:
        assert [(one.id, one.start, one.end) for one in history.events()] == [
            ("a", second(3), second(4)), ("a", second(1), second(4)),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("keep", "most", "kept"),
    [
        (None, None, ["r", "o", "p0", "p1", "p2", "p3"]),
        (2, None, ["r", "p1", "p2", "p3"]),
        (None, 3, ["r", "p1", "p2", "p3"]),
        (2, 1, ["r", "p3"]),
        (6, 5, ["r", "o", "p0", "p1", "p2", "p3"]),
    ],
)
def test_what_is_old_is_forgotten_but_what_runs(tmp_path, keep, most, kept):
    world = World(tmp_path)
    world.registry.subscribe(tg.Subscription("s", "ann", WHERE[0]))
    first = [publication("r", 0, "START"), publication("o", 1, "START"), publication("o", 2, "END")]
    world.log.append([*first, *(publication(f"p{i}", 5 + i) for i in range(4))])
    age = None if keep is None else timedelta(seconds=keep)
    sink = HistorySink(world.url, tmp_path / "log", keep=age, most=most)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink, "close", lambda: None)  # it is tidied while the run goes on
        world.run(sinks=[sink])
    for _ in range(2):
        sink.tidy()
        with tg.History(world.url) as history:
            assert [one.id for one in history.events()][::-1] == kept
    sink.close()
    world.log.append(publication("r", 30, "END"))
    world.run()
    with tg.History(world.url) as history:
        assert history.event("r").end == second(30)


def test_shards_are_united():
    def part(*rows):
        row, fate = (np.array(column, np.int64) for column in zip(*rows, strict=True))
        times = np.stack([row.astype(float), np.full(len(row), np.nan)], axis=1)
        return {"hash": np.zeros((len(row), 2), np.uint64), "row": row, "time": 10 - row, "fate": fate, "times": times}

    found = united([
        part((1, BEGINS_EVENT), (2, -1), (3, -1), (4, -2), (5, -1)),
        part((1, -2), (2, ENDS_EVENT), (3, -6), (4, BEGINS_EVENT), (5, -1)),
        part((7, BEGINS_EVENT)),
    ])  # fmt: skip
    assert found.row.tolist() == [7, 5, 4, 3, 2, 1]
    assert found.fate.tolist() == [BEGINS_EVENT, -1, BEGINS_EVENT, -6, ENDS_EVENT, BEGINS_EVENT]


TOML = """
source = { type = "%s", path = "%s" }
subscriptions = { registry = "r.db" }
sinks = [{ type = "console" }, { type = "history", url = "events.db", most = 7 }]
run = { checkpoint = "c", patterns = %s }
"""


@pytest.mark.parametrize(
    ("source", "patterns", "said"),
    [("log", "true", None), ("files", "true", "a log as source for a sink of type history; got 'files'"),
     ("log", "false", "patterns = true for a sink of type history")],
)  # fmt: skip
def test_the_section_of_a_file(tmp_path, source, patterns, said):
    file = tmp_path / "run.toml"
    file.write_text(TOML % (source, "in", patterns))
    if said is None:
        assert load(file).sinks[1].most == 7
        return
    with pytest.raises(SettingError, match=said) as error:
        load(file)
    assert f"sinks[1] of {file}" in str(error.value)


@pytest.mark.parametrize("is_one_run", [True, False])
def test_a_batch_hands_on_its_own_fates_only(tmp_path, is_one_run):
    """Not those of an earlier batch, where nothing is ready in it or its shard was built again from parts."""
    world = World(tmp_path, lateness=2.0)
    world.registry.subscribe(tg.Subscription("s", "ann", WHERE[0]))
    for i in range(6):
        world.log.append(publication(f"a{i}", i + 1, (None, "END", "START")[i % 3]))
        for j in range(2):
            world.log.append(publication(f"quiet{i}{j}", i + 1, n=0.0))
            if not is_one_run:
                world.run()  # the live arrays are forgotten at its end
    world.log.append(publication("last", 99, n=0.0))
    world.run(1)
    begun, ended, refused = world.written()
    assert (sorted(begun), ended, refused) == ([1, 3, 4, 6], {}, [("end without start", 2), ("end without start", 5)])
