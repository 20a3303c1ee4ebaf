"""The memory of a shard begins anew whenever nobody asks about the past any more, wherever batches are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.broker.test_process_run import Broker
from tests.parts.profiles import examples
from tests.patterns.past_events import counted
from tests.patterns.strategies import Action, lasting, looking_back, pieces, thrown, unruly
from tests.pipeline.lane import rows
from tests.pipeline.past_twins import TROUBLES, WHERE, Twins, part
from tidegate.runs.history_sink import HistorySink
from tidegate.runs.sinks import Sql
from tidegate.testing import as_table


def turnover(dice, stream):
    """Few subscriptions at a time, with several changes between two publications."""
    script, alive, number = [], [], 0
    for batch in pieces(stream, [dice(range(len(stream))) for _ in range(len(stream))]):
        for _ in range(dice([0, 0, 1, 1, 2, 3])):
            if alive and dice([True, True, False]):
                script.append(Action("unsubscribe", alive.pop(dice(range(len(alive))))))
            elif len(alive) < 3:
                number += 1
                alive.append(f"s{number}")
                where = dice(WHERE[:10]) if dice([True, False]) else looking_back(dice, 2)
                script.append(Action("subscribe", tg.Subscription(alive[-1], "ann", where)))
        script.append(Action("publish", batch))
    return script


def told_of(directory, script, choose, **settings):
    """What a lane tells and refuses if batches are cut where ``choose`` says, and what an engine does."""
    directory.mkdir()
    with Twins(directory, **settings) as twins:
        for number, action in enumerate(script):
            twins.act(action)
            if trouble := choose(number):
                twins.batch(trouble)
        twins.batch()
        refused = twins.lane.total("refused")
        return rows(twins.lane.told), refused, rows(twins.expected), sum(counted(twins.engine.refused).values())


@examples(5)
@given(seed=st.integers(0, 2**32))
def test_wherever_batches_are_cut_the_same_is_told_and_refused(tmp_path_factory, seed):
    """Streams that keep no rule tell what is still remembered; one shard or three, with and without lateness."""
    dice, directory = thrown(seed), tmp_path_factory.mktemp("lanes")
    stream = dice([unruly, lasting])(dice, 6, 20, disorder=dice([0, 2]))
    script = turnover(dice, stream)
    settings = {"lateness": dice([0, 0, 2, 4.5]), "count": dice([1, 1, 3]), "keep": dice([None, None, 6])}
    told, refused, by_engine, refused_by_engine = told_of(directory / "each", script, lambda _: "none", **settings)
    often = dice([0, 0.1, 0.4])

    def seldom(_):
        return dice(TROUBLES) if often and dice(range(100)) < 100 * often else ""

    assert told_of(directory / "some", script, seldom, **settings)[:2] == (told, refused)
    if settings["count"] == 1:
        assert (by_engine, refused_by_engine) == (told, refused)


LASTING = "T_DURING(time, past(n > 1))"
#: The first ends and the second comes; a is an event of both, and still ends once.
AGAIN = (
    Action("subscribe", tg.Subscription("first", "ann", LASTING)),
    Action("publish", [part("START", "a", 1, n=2)]),
    Action("unsubscribe", "first"),
    Action("publish", [part("INSTANT", "x", 2)]),
    Action("subscribe", tg.Subscription("second", "ann", LASTING)),
    Action("publish", [part("START", "a", 3, n=2)]),
    Action("publish", [part("INSTANT", "c", 4)]),
)


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("dropped", [None, 3])
def test_who_comes_after_the_last_has_gone_begins_anew_within_a_batch(tmp_path, trouble, dropped):
    """Also with no publication between the two, and when the batch is done again."""
    script = [action for number, action in enumerate(AGAIN) if number != dropped]
    for cut in (1, len(script) - 2):
        told, refused, *by_engine = told_of(tmp_path / str(cut), script, lambda n, cut=cut: trouble if n == cut else "")
        assert [row["publication_ids"][0] for row in told] == ["c"]
        assert refused == 0
        assert by_engine == [told, refused]


@pytest.mark.parametrize("dropped", [None, 3])
def test_the_runner_in_process_does_so_too(tmp_path, dropped):
    """And its history has both events, and nothing refused."""
    written = []
    for is_run_each_time in (True, False):
        (directory := tmp_path / str(is_run_each_time)).mkdir()
        broker = Broker(directory)
        sinks = [Sql(broker.store), HistorySink(directory / "events.db", directory / "log")]
        for number, (what, operand) in enumerate(AGAIN):
            if what == "publish" and number != dropped:
                broker.log.append(as_table(operand))
            elif what == "subscribe":
                broker.registry.subscribe(operand)
            elif what == "unsubscribe":
                broker.registry.unsubscribe(f"ann/{operand}")
            if is_run_each_time or number == len(AGAIN) - 1:
                assert broker.run(sinks=sinks)
        assert [row["publication_ids"] for row in broker.told()] == [["c"]]
        with tg.History(directory / "events.db") as history:
            written.append([one.start for one in history.events(10)])
            assert counted(history.refused_counts()) == {}
    assert written[0] == written[1]
    assert len(written[0]) == 2
