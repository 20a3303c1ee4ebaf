"""``explain`` of patterns tells exactly what publishing would tell, whatever came before, and changes nothing."""

from __future__ import annotations

from datetime import timedelta
from tempfile import TemporaryDirectory

import orjson
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.oracle_identity import list_hash, notification_id
from tests.parts.profiles import examples
from tests.patterns.following_oracle import act, latenesses
from tests.patterns.strategies import looking_back_scripts, scripts
from tidegate.model import micros


def states(engine):
    return [{name: array.tobytes() for name, array in shard.snapshot().items()} for shard in engine._stage._shards]


def root(explanation):
    """The node of the pattern; of conditions on the past, the whole expression."""
    patterns = [node for node in nodes(explanation) if node.is_pattern]
    return patterns[0] if len(patterns) == 1 and "past(" not in patterns[0].text else explanation


def nodes(explanation):
    yield explanation
    for part in explanation.parts:
        yield from nodes(part)


def asked_of(engine, publication):
    """Explained for every subscription, twice; asking changes nothing."""
    engine._stage.settle()
    before = states(engine)
    found = {s.id: engine.explain(s.id, publication) for s in engine}
    assert states(engine) == before
    assert {s.id: engine.explain(s.id, publication) for s in engine} == found
    for explanation in found.values():
        assert str(explanation)
        orjson.dumps(explanation.to_json())
    return found


def check(engine, publication, lateness):
    """Explain a publication, publish it, and compare."""
    explained = asked_of(engine, publication)
    sent = engine.publish([publication])
    for id, found in explained.items():
        told = [n for n in sent if n.subscription == id]
        if not found.has_pattern:
            assert found.held is bool(told)
            continue
        assert list(found.told) == told
        if not lateness:
            check_verdict(root(found), publication, found, told)


def check_verdict(pattern, publication, found, told):
    """Without a lateness, a pattern holds if and only if the publication itself raises a notification."""
    family = pattern.text.split("(")[0] if "past(" not in pattern.text else "past"
    if family == "absent":
        assert not found.held
        assert not told or pattern.facts["told"] or ", source" in pattern.text
    elif family == "topk":
        mine = [n for n in told if n.id == told_of(n.subscription, publication)]
        assert found.held is bool(mine)
        if mine:
            assert pattern.facts["rank"] <= pattern.facts["k"]
            assert pattern.facts["score"] == mine[-1].score
    else:
        assert found.held is bool(told), (found, told)


def told_of(subscription, publication):
    """The id of a notification of one publication, at its time."""
    return notification_id(subscription, list_hash([publication]), micros(publication.time))


def play(script, lateness, restart=None, keep=None):
    engine = tg.Engine(lateness=lateness, keep=keep)
    with TemporaryDirectory() as directory:
        for i, action in enumerate(script):
            if i == restart:
                engine.save(directory)
                engine = tg.Engine.load(directory, keep=keep)
            if action.what == "publish":
                check(engine, action.operand[0], lateness)
                if rest := action.operand[1:]:
                    engine.publish(rest)
            else:
                act(engine, action)


@examples(20)
@given(script=scripts(), lateness=latenesses)
def test_what_is_told_is_explained(script, lateness):
    play(script, lateness)


@examples(16)
@given(
    script=looking_back_scripts() | looking_back_scripts(ordered=False),
    lateness=latenesses,
    keep=st.sampled_from([None, timedelta(seconds=3), timedelta(seconds=8)]),
)
def test_what_is_told_of_the_past_is_explained(script, lateness, keep):
    play(script, lateness, keep=keep)


@examples(10)
@given(script=scripts(mixed=True) | looking_back_scripts(mixed=True), restart=st.integers(0, 8))
def test_after_a_restart(script, restart):
    play(script, timedelta(0), restart)


@examples(6)
@given(script=scripts(disorder=0, plain=False))
def test_what_waits_is_told_as_explained_if_nothing_else_comes(script):
    lateness, engine = timedelta(seconds=3), tg.Engine(lateness=timedelta(seconds=3))
    for action in script:
        if action.what != "publish":
            act(engine, action)
            continue
        publication, *rest = action.operand
        explained = asked_of(engine, publication)
        engine.publish([publication])
        with TemporaryDirectory() as directory:
            engine.save(directory)
            alone = tg.Engine.load(directory)
        later = publication.time + lateness + timedelta(microseconds=1)
        sent = alone.advance(later) if alone._now is None or alone._now <= later else []
        for id, found in explained.items():
            if found.held and sent:
                assert [n for n in sent if n.subscription == id and n.time == publication.time], (id, str(found))
        if rest:
            engine.publish(rest)


@examples(8)
@given(script=looking_back_scripts(ordinary=False), memory=st.sampled_from([1, 3]))
def test_with_a_history_whose_events_leave_memory(script, memory):
    with (
        TemporaryDirectory() as directory,
        tg.History(f"{directory}/events.db", memory=memory) as history,
        tg.Engine(history=history) as engine,
    ):
        for action in script:
            if action.what != "publish":
                act(engine, action)
                continue
            for publication in action.operand:
                check(engine, publication, None)
