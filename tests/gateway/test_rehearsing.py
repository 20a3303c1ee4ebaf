"""Rehearsals: what would have been sent equals what a loop over the publications says, and nobody learns more."""

from __future__ import annotations

import asyncio
import signal
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.gateway.broker import client_of, opened, token
from tests.gateway.test_application import problem_of
from tests.parts.profiles import examples
from tidegate.engine import Engine
from tidegate.gateway import rehearsal
from tidegate.gateway.access import Caller
from tidegate.gateway.asked_subscriptions import asked_subscription
from tidegate.gateway.rehearsal_states import RehearsalTask
from tidegate.gateway.rehearsing import RehearsalBody, rehearse, task_of, while_wanted
from tidegate.gateway.subscription_bodies import SubscriptionBody
from tidegate.language import to_json
from tidegate.language.parse import parse
from tidegate.model import micros
from tidegate.subscriptions.readable import readable

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
MINUTE, HOUR = 60_000_000, 3_600_000_000


def reading(number, minutes, **attributes):
    return tg.Publication(f"p{number}", "z7", NOW - timedelta(minutes=minutes), attributes)


def task(directory, where, **more):
    settings = {
        "log": str(directory / "log"), "where": where, "active_from": None,
        "active_until": None, "expired": False, "fields": None, "begin": micros(NOW) - 24 * HOUR, "end": micros(NOW),
        "lateness": 0, "ahead": None, "keep": None, "rows": 10**6, "seconds": 60.0, "samples": 3,
    }  # fmt: skip
    return RehearsalTask(**{**settings, **more})


def written(directory, publications, minutes=lambda one: (NOW - one.time) // timedelta(minutes=1)):
    """A log with a frame for each publication, appended at its time."""
    stamp = 0
    with tg.Log(directory / "log", clock=lambda: stamp) as log:
        for one in publications:
            stamp = micros(NOW) - minutes(one) * MINUTE
            log.append([one])


def over(wanted):
    *_, last = rehearsal.rehearsed(wanted)
    assert last.is_over
    return last


readings = st.lists(
    st.tuples(st.integers(1, 3000), st.integers(0, 9), st.sampled_from([None, 0, 5])),
    max_size=40,
).map(lambda some: sorted(some, key=lambda one: -one[0]))  # fmt: skip


@examples(25)
@given(readings, st.integers(0, 9), st.integers(0, 9), st.booleans(), st.integers(1, 50))
def test_a_filter_would_have_sent_what_a_loop_says(tmp_path_factory, some, least, most, expired, hours):
    directory = tmp_path_factory.mktemp("log")
    made = []
    for number, (minutes, n, valid) in enumerate(some):
        when = NOW - timedelta(minutes=minutes)
        until = None if valid is None else when + timedelta(minutes=valid)
        made.append(tg.Publication(f"p{number}", "z7", when, {"n": n}, valid_until=until))
    written(directory, made)
    bound = to_json(readable(parse(f"n >= {least}"), parse(f"n <= {most}")))
    found = over(task(directory, bound, begin=micros(NOW) - hours * HOUR, expired=expired, samples=5))
    sent = [
        one for one, (minutes, n, valid) in zip(made, some, strict=True)
        if least <= n <= most and minutes <= 60 * hours and (expired or valid != 0)
    ]  # fmt: skip
    assert found.notifications == len(sent) == sum(found.hours.values())
    assert [one["publication"]["id"] for one in found.samples] == [one.id for one in sent[:5]]
    by_hour = {}
    for one in sent:
        hour = micros(one.time) // HOUR * HOUR
        by_hour[hour] = by_hour.get(hour, 0) + 1
    assert found.hours == by_hour
    times = [micros(one.time) for one in sent]
    assert (found.first, found.last) == ((min(times), max(times)) if times else (None, None))
    assert found.is_complete


@pytest.mark.parametrize("where", ["topk(2, 'PT1H', n)", "together('PT30M', n > 6, n < 3)", "absent('PT2H', n = 5)"])
def test_a_pattern_would_have_sent_what_an_engine_says(tmp_path, where):
    made = [reading(number, 1400 - 7 * number, n=number * 7919 % 11) for number in range(190)]
    written(tmp_path, made)
    found = over(task(tmp_path, where, samples=1000))
    with Engine([tg.Subscription("s", "ann", where)]) as engine:
        told = engine.publish(made) + engine.advance(NOW)
    assert found.notifications == len(told) > 0
    assert sorted(one["publications"] for one in found.samples) == sorted(list(one.publications) for one in told)
    assert (found.first, found.last) == (min(micros(one.time) for one in told), max(micros(one.time) for one in told))


def test_what_is_dated_ahead_or_was_unpublished_is_left_out(tmp_path):
    with opened(tmp_path, clock=lambda: micros(NOW)) as broker:
        broker.log.append([reading(0, 5, n=1), reading(1, -10, n=1), reading(2, 5, n=1)])
        files = tmp_path / "data"
        assert over(task(files, True, end=micros(NOW) + 1)).notifications == 3
        assert over(task(files, True, end=micros(NOW) + 1, ahead=5 * MINUTE)).notifications == 2
        assert broker.log.unpublish([("z7", "p2")]) == [True]
        assert over(task(files, True, end=micros(NOW) + 1, ahead=5 * MINUTE)).notifications == 1
        assert over(task(files, "topk(9, 'PT1H', n)", end=micros(NOW) + 1, ahead=5 * MINUTE)).notifications == 2


def test_limits_of_rows_and_time_say_how_far_it_came(tmp_path, monkeypatch):
    monkeypatch.setattr(rehearsal, "_TOGETHER", 10)
    written(tmp_path, [reading(number, 100 - number, n=1) for number in range(100)], lambda one: int(one.id[1:]) * -1)
    everything = task(tmp_path, True, begin=0, end=micros(NOW) + HOUR * 9)
    found = over(everything)
    assert (found.notifications, found.is_complete, found.reached) == (100, True, everything.end)
    everything.rows = 35
    found = over(everything)
    assert (found.is_complete, found.notifications, found.reached) == (False, 40, micros(NOW) + 39 * MINUTE)
    everything.rows = 1000
    seconds = iter([0, 0, 0, 0, 61])
    *_, found = rehearsal.rehearsed(everything, lambda: next(seconds))
    assert (found.is_complete, found.notifications) == (False, 30)


def test_samples_are_as_many_as_there_is_room_for(tmp_path, monkeypatch):
    large = [reading(n, 100 - n, n=n, text=(1_000_000 if n < 7 else 1) * "x") for n in range(9)]
    written(tmp_path, large)
    monkeypatch.setattr(rehearsal, "_TOGETHER", 1)
    found = over(task(tmp_path, "n >= 0", samples=9))
    assert found.notifications == 9
    assert [one["publication"]["id"] for one in found.samples] == ["p0", "p1", "p2", "p3"]


def test_where_a_moment_is_in_a_log(tmp_path):
    stamps = [5, 5, 7, 7, 7, 9, 20]
    with tg.Log(tmp_path / "log", segment_bytes=600, clock=lambda: stamps[0]) as log:
        assert log.since(0) == 0
        for number in range(len(stamps) - 1):
            log.append([reading(2 * number, 0), reading(2 * number + 1, 0)])
            stamps.pop(0)
        assert len(list((tmp_path / "log").glob("*.log"))) > 2
        found = [log.since(moment) for moment in (0, 5, 6, 7, 8, 9, 10, 99)]
    assert found == [0, 0, 4, 4, 10, 10, 12, 12]


def caller_of(client, broker):
    return Caller(broker.principals.holder(client.headers["authorization"].removeprefix("Bearer ")))


@pytest.fixture
def ask(tmp_path):
    """Call a function with a client of ann, who may read n below 5 only, and the broker, whose log has readings."""

    def asked(work, text=""):
        async def once():
            with opened(tmp_path, text) as broker:
                headers = token(broker, "ann", ["subscriber"], read="n < 5")
                when = datetime.now(UTC)
                broker.log.append([
                    tg.Publication(f"p{n}", "z7", when - timedelta(seconds=n), {"n": n, "o": 1}) for n in range(10)
                ])  # fmt: skip
                async with client_of(broker, headers=headers) as client:
                    return await work(client, broker)

        return anyio.run(once)

    return asked


def test_over_http_only_what_may_be_read(ask):
    async def work(client, broker):
        body = {"subscription": {"where": "n >= 3", "fields": ["n"]}, "hours": 1, "samples": 9.0}
        found = (await client.post("/v1/rehearse", json=body)).json()
        assert (found["notifications"], found["complete"]) == (2, True)
        assert [one["publication"]["attributes"] for one in found["samples"]] == [{"n": 3}, {"n": 4}]
        assert sum(one["notifications"] for one in found["hours"]) == 2
        await client.put("/v1/subscriptions/s", json={"where": "NOT (n < 4)"})
        asked = asked_subscription(broker, caller_of(client, broker), "s")
        assert over(task_of(broker, asked, 0, broker.clock())).notifications == 1
        problem_of(await client.post("/v1/rehearse", json={"subscription": "nothing"}), 404, "unknown")
        problem_of(await client.post("/v1/rehearse", json={"subscription": {"where": "n >"}}), 422, "parse")
        problem_of(await client.post("/v1/rehearse", json={"subscription": "s", "hours": 200}), 422, "body")
        with broker.rehearsal_places.taken("ann", 1):
            problem_of(await client.post("/v1/rehearse", json={"subscription": "s"}), 429, "busy")
        with broker.rehearsal_places.taken("bob", 1), broker.rehearsal_places.taken("cy", 2):
            problem_of(await client.post("/v1/rehearse", json={"subscription": "s"}), 503, "busy")

    ask(work)


def test_a_rehearsal_that_nobody_waits_for_is_killed(ask, monkeypatch):
    started, start = [], asyncio.create_subprocess_exec

    async def slow(*args, **more):
        started.append(await start("sleep", "1000", **more))
        return started[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slow)

    class Request:
        async def receive(self):
            while not started:
                await asyncio.sleep(0)
            return {"type": "http.disconnect"}

    async def work(client, broker):
        caller = caller_of(client, broker)
        body = RehearsalBody(subscription=SubscriptionBody(where=True))
        with pytest.raises(tg.TidegateError, match="a connection that was closed"):
            await while_wanted(Request(), broker, rehearse(broker, caller, body))
        assert started[0].returncode == -signal.SIGKILL
        with broker.rehearsal_places.taken("ann", 1):
            started.clear()
        monkeypatch.setattr("tidegate.gateway.rehearsing._STARTS", 0.0)
        body = {"subscription": {"where": "true"}}
        problem_of(await client.post("/v1/rehearse", json=body), 503, "slow")
        assert started[0].returncode == -signal.SIGKILL

    ask(work, "[serve]\nrehearsal_seconds = 0.05\n")
