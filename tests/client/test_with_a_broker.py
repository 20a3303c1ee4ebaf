"""Everything that a client can ask, of a real broker, with asyncio and without."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import aclosing, closing
from datetime import UTC, datetime, timedelta

import pytest

import tidegate as tg

pytestmark = pytest.mark.xdist_group("client of a broker")


def test_a_day_without_asyncio(broker, token_of):
    reader, publisher = token_of("ann", "subscriber"), token_of("north", "publisher", sources=["z*"])
    with tg.connect(broker.url, token=reader) as ann, tg.connect(broker.url, token=publisher) as north:
        until = datetime.now(UTC) + timedelta(days=1)
        made = ann.subscribe("s1", "no2 > 40", initial=True, fields=["no2"], active_until=until)
        assert (made.is_new, made.fields, made.active_until) == (True, ("no2",), until)
        assert not ann.subscribe("s1", "no2 > 40", initial=True, fields=["no2"], active_until=until).is_new
        with pytest.raises(tg.ConflictError):
            ann.subscribe("s1", "no2 > 50")
        assert ann.subscribe("s1", "no2 > 50", if_match=made.etag).etag != made.etag
        assert [one.where for one in ann.subscriptions()] == ["no2 > 50"] == [ann.subscription("s1").where]
        with pytest.raises(tg.ParseError, match="line 1, column 7") as caught:
            ann.subscribe("s2", "no2 > > 40")
        assert caught.value.caret.endswith("^")
        assert ann.check("no2 > > 40")["mistakes"]

        answer = north.publish({"source": f"z{n}", "no2": 2**62 + n, "text": "long"} for n in range(3))
        assert (answer.accepted, len(answer.ids)) == (3, 3)
        assert [one.code for one in north.publish([{"source": "another", "no2": 60}]).refused] == ["source"]
        with pytest.raises(tg.TidegateError):
            north.publish({"source": "another", "no2": 60})
        with closing(ann.notifications()) as items:
            found = [next(items) for _ in range(3)]
            assert [item.publication.attributes for item in found] == [
                {"no2": 2**62 + n, "text": "long"} for n in range(3)
            ]
            assert north.unpublish("z0", answer.ids[0])
            assert not north.unpublish("z0", answer.ids[0])
            retracted = next(items)
            assert (type(retracted), retracted.retracts) == (tg.Retraction, found[0].number)
        with closing(ann.notifications()) as items:
            assert next(items) == retracted  # the one that was not come back from
        with closing(ann.notifications(after=0, acknowledge="manual")) as items:
            skipped, second = next(items), next(items)
            assert (type(skipped), skipped.first, skipped.number, skipped.reason) == (tg.Skipped, 1, 1, "unpublished")
            assert second == found[1]

        explained = ann.explain({"id": "p", "source": "z", "time": datetime.now(UTC), "no2": 60}, id="s1")
        assert explained["matches"]
        assert ann.rehearse("no2 > 0", hours=1)["notifications"] >= 2
        ann.unsubscribe("s1")
        with pytest.raises(tg.UnknownSubscription):
            ann.unsubscribe("s1")
        many = ann.subscribe_all(
            [{"id": "a/b ", "where": "x = 1"}, tg.Subscription("..b", "any", "x = 2"), {"id": "c"}]
        )
        assert (many.made, [one.index for one in many.refused]) == (2, [2])
        ann.unsubscribe("a/b ")
        with pytest.raises(tg.AccessError):
            ann.publish({"source": "z"})
    with pytest.raises(tg.AccessError), tg.connect(broker.url, token="no-token-of-anybody") as nobody:
        nobody.subscriptions()


def test_a_token_that_may_only_publish_reads_nothing(broker, token_of):
    with tg.connect(broker.url, token=token_of("pub", "publisher")) as publisher, pytest.raises(tg.AccessError):
        next(iter(publisher.notifications()))


def test_announcing_and_administration(broker, token_of):
    with tg.connect(broker.url, token=broker.token) as administrator:
        put = administrator.put_principal("bob", read="public = true", issuer="https://login.example")
        assert (put["name"], put["issuer"]) == ("bob", "https://login.example")
        made = administrator.make_token("bob", ["publisher", "subscriber"])
        assert made.id in [one["id"] for one in administrator.tokens()]
        assert "bob" in [one["name"] for one in administrator.principals()]
        with tg.connect(broker.url, token=made.secret) as bob:
            announced = bob.announce({"source": "b1", "attributes": {"no2": {"min": 0, "max": 500}}})
            assert announced["id"] in [one["id"] for one in bob.announcements()]
            assert (bob.revoke(announced["id"]), bob.revoke(announced["id"])) == (True, False)
            bob.subscribe("s", "no2 > 40")
            assert "bob" in [one["principal"] for one in administrator.sessions()]
            assert administrator.unregister("bob")
        assert administrator.revoke_token(made.id)
        assert isinstance(administrator.status(), dict)


def test_with_asyncio_two_readers_share_one_cursor(broker, token_of):
    token = token_of("carl", "subscriber", "publisher")

    async def run():
        async with tg.connect(broker.url, token=token) as client:
            await client.subscribe("s", "carl = true")
            async with aclosing(client.notifications()) as one, aclosing(client.notifications(room=1)) as other:
                waiting = asyncio.gather(anext(one), anext(other))
                await client.publish([{"source": "c", "id": f"p{n}", "carl": True} for n in range(200)])
                first = await waiting
                rest = [[await anext(items) for _ in range(199)] for items in (one, other)]
            return [[item.number for item in (begun, *more)] for begun, more in zip(first, rest, strict=True)]

    assert asyncio.run(run()) == [list(range(1, 201))] * 2


async def killed(broker, times: int, count: int, token: str) -> tuple[list[str], list[str], int]:
    """What was published and accepted, and what was read, while the gateway is killed so many times."""

    async def publications():
        for n in range(count):
            yield {"source": f"k{times}", "id": f"{times}.{n}", "n": n}
            if n % 20 == 0:
                await asyncio.sleep(0.01)

    async def read(client):
        async with aclosing(client.notifications()) as items:
            return [await anext(items) for _ in range(count)]

    async def publish(client):
        async for answer in client.publish_in_batches(publications()):
            answers.append(answer)  # noqa: PERF401  (looked at meanwhile)

    answers, settings = [], {"token": token, "heartbeat": 1.0, "deadline": 120.0}
    async with tg.connect(broker.url, **settings) as publisher, tg.connect(broker.url, **settings) as reader:
        await reader.subscribe("k", f"source = 'k{times}'")
        async with asyncio.timeout(200):
            reading, publishing = asyncio.create_task(read(reader)), asyncio.create_task(publish(publisher))
            for _ in range(times):
                before = len(answers)
                while len(answers) <= before + 1 and not publishing.done():
                    await asyncio.sleep(0.01)
                os.kill(await asyncio.to_thread(broker.processes.__getitem__, "gateway 1"), signal.SIGKILL)
            await publishing
            found = await reading
    assert not any(answer.refused for answer in answers)
    assert [item.number for item in found] == list(range(1, count + 1))
    done = sum(answer.accepted + answer.duplicates for answer in answers)
    return [item.publication.id for item in found], [f"{times}.{n}" for n in range(count)], done


@pytest.mark.parametrize(("times", "count"), [(1, 500), pytest.param(8, 5_000, marks=pytest.mark.thorough)])
def test_a_gateway_is_killed_while_one_publishes_and_another_reads(broker, token_of, monkeypatch, times, count):
    monkeypatch.setattr("tidegate.client.publication_batches._ROWS", 25)
    token = token_of(f"killed-{times}", "subscriber", "publisher")
    read, published, done = asyncio.run(killed(broker, times, count, token))
    assert read == published
    assert done == count
