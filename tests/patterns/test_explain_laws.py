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
from tests.patterns.strategies import at, looking_back_scripts, scripts
from tidegate.instant import render_instant
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
    """Explained for every subscription."""
    found = {s.id: engine.explain(s.id, publication) for s in engine}
    for explanation in found.values():
        assert str(explanation)
        orjson.dumps(explanation.to_json())
    return found


def changes_nothing(engine, publication):
    """The state is the same to the last bit, and so is the answer."""
    engine._stage.settle()
    before = states(engine)
    found = asked_of(engine, publication)
    assert states(engine) == before
    assert asked_of(engine, publication) == found


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
    """Of every second batch all publications one at a time, of the others the first alone and then the rest."""
    engine = tg.Engine(lateness=lateness, keep=keep)
    with TemporaryDirectory() as directory:
        for i, action in enumerate(script):
            if i == restart:
                engine.save(directory)
                engine = tg.Engine.load(directory, keep=keep)
            if action.what != "publish":
                act(engine, action)
                continue
            changes_nothing(engine, action.operand[0])
            alone = action.operand if i % 2 else action.operand[:1]
            for publication in alone:
                check(engine, publication, lateness)
            if rest := action.operand[len(alone) :]:
                engine.publish(rest)


@examples(8)
@given(script=scripts(), lateness=latenesses)
def test_what_is_told_is_explained(script, lateness):
    play(script, lateness)


@examples(8)
@given(
    script=looking_back_scripts() | looking_back_scripts(ordered=False),
    lateness=latenesses,
    keep=st.sampled_from([None, timedelta(seconds=3), timedelta(seconds=8)]),
)
def test_what_is_told_of_the_past_is_explained(script, lateness, keep):
    play(script, lateness, keep=keep)


@examples(5)
@given(script=scripts(mixed=True) | looking_back_scripts(mixed=True), restart=st.integers(0, 8))
def test_after_a_restart(script, restart):
    play(script, timedelta(0), restart)


# --- against loops --------------------------------------------------------------------------------------------------


@examples(30)
@given(
    scores=st.lists(st.sampled_from([1, 2, 2, 3, 5, None]), min_size=1, max_size=14),
    gaps=st.lists(st.integers(0, 2), min_size=14, max_size=14),
    k=st.integers(1, 3),
    window=st.sampled_from([3, 6]),
    counted=st.booleans(),
)
def test_ranks_in_obvious_loops(scores, gaps, k, window, counted):
    width = str(window) if counted else f"'PT{window}S'"
    engine, seen, second = tg.Engine([tg.Subscription("s", "ann", f"topk({k}, {width}, n)")]), [], 0
    for i, score in enumerate(scores):
        second += gaps[i]
        publication = tg.Publication(f"p{i}", "x", at(second), {"n": score})
        facts = engine.explain("s", publication).facts
        others = seen[1 - window :] if counted else [one for one in seen if second - one[0] < window]
        ranked = sorted(other for _, other in others if other is not None)
        assert facts["ranked"] == len(ranked)
        assert facts["to_beat"] == (ranked[k - 1] if len(ranked) >= k else None)
        assert facts["rank"] == (None if score is None else 1 + sum(other < score for other in ranked))
        engine.publish([publication])
        seen.append((second, score))


@examples(20)
@given(kinds=st.lists(st.sampled_from("abcx"), min_size=1, max_size=12), gaps=st.lists(st.integers(0, 3), min_size=12))
def test_readings_that_miss_in_obvious_loops(kinds, gaps):
    where, seen, second = "together('PT4S', t = 'a', t = 'b', t = 'c')", [], 0
    engine = tg.Engine([tg.Subscription("s", "ann", where)])
    for i, kind in enumerate(kinds):
        second += gaps[i]
        publication = tg.Publication(f"p{i}", "x", at(second), {"t": kind})
        facts = engine.explain("s", publication).facts
        last = {other: id for id, when, other in seen if second - when < 4}
        if kind == "x":
            assert facts == {}
        else:
            assert facts["readings"] == [None if filter == kind else last.get(filter) for filter in "abc"]
            assert facts["missing"] == [n for n, filter in enumerate("abc", 1) if filter not in {kind, *last}]
        engine.publish([publication])
        seen.append((publication.id, second, kind))


@examples(20)
@given(
    heard=st.lists(st.booleans(), min_size=1, max_size=10), gaps=st.lists(st.integers(0, 5), min_size=10, max_size=10)
)
def test_silences_are_told_when_they_are_due(heard, gaps):
    engine, second = tg.Engine([tg.Subscription("s", "ann", "absent('PT4S', n > 0)")]), 0
    last, begin = None, None
    for i, is_heard in enumerate(heard):
        second += gaps[i]
        begin = second if begin is None else begin
        found = engine.explain("s", tg.Publication(f"p{i}", "x", at(second), {"n": int(is_heard)}))
        assert found.facts["last"] == last
        assert found.facts["due"] == render_instant(micros(at(begin + 4)))
        assert found.facts["told"] is (second >= begin + 4)
        assert found.facts.get("next_due") == (render_instant(micros(at(second + 4))) if is_heard else None)
        engine.publish([tg.Publication(f"p{i}", "x", at(second), {"n": int(is_heard)})])
        if is_heard:
            last, begin = f"p{i}", second


@examples(4)
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


@examples(3)
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
