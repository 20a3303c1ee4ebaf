"""A function as token: it is asked when a token is needed first, when one is refused, and for each new connection."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing

import pytest

import tidegate as tg
from tests.client.fake_broker import FakeBroker, Fault
from tests.client.in_thread import broker_in_thread
from tidegate.client.token_source import TokenSource

ONE, TWO = "a-token-of-a-test", "another-token-of-a-test"


class Tokens:
    """A function that gives one token after the other, the last for good; an error is raised in its turn."""

    def __init__(self, *given):
        self.left, self.asked = deque(given), 0

    def __call__(self):
        self.asked += 1
        found = self.left.popleft() if len(self.left) > 1 else self.left[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def later(self):
        return self()


def test_it_is_asked_once_and_again_when_its_token_is_refused():
    async def run():
        async with FakeBroker() as broker:
            tokens = Tokens(ONE, TWO)
            async with tg.connect(broker.url, token=tokens) as client:
                assert tokens.asked == 0
                for number in range(3):
                    assert (await client.publish({"id": f"p{number}", "source": "a"})).accepted == 1
                assert tokens.asked == 1
                broker.token = TWO
                assert (await client.publish({"id": "p3", "source": "a"})).accepted == 1
                assert tokens.asked == 2

    asyncio.run(run())


def test_a_token_that_is_refused_and_comes_again_is_an_error():
    async def run():
        async with FakeBroker() as broker:
            tokens = Tokens(TWO)
            async with tg.connect(broker.url, token=tokens.later) as client:
                with pytest.raises(tg.AccessError) as refused:
                    await client.publish({"id": "p", "source": "a"})
                assert (refused.value.status, tokens.asked, len(broker.requests)) == (401, 2, 1)

    asyncio.run(run())


def test_two_refused_tokens_are_an_error_however_many_there_are():
    async def run():
        async with FakeBroker() as broker:
            tokens = Tokens(*(f"wrong-{number}" for number in range(9)))
            async with tg.connect(broker.url, token=tokens) as client:
                with pytest.raises(tg.AccessError):
                    await client.publish({"id": "p", "source": "a"})
                assert len(broker.requests) == 2

    asyncio.run(run())


def test_many_requests_at_once_ask_for_a_token_once():
    async def run():
        async with FakeBroker() as broker:
            tokens = Tokens(ONE, TWO)
            async with tg.connect(broker.url, token=tokens.later) as client:
                some = [client.publish({"id": f"p{number}", "source": "a"}) for number in range(8)]
                await asyncio.gather(*some)
                broker.token = TWO
                some = [client.publish({"id": f"q{number}", "source": "a"}) for number in range(8)]
                await asyncio.gather(*some)
                assert tokens.asked == 2

    asyncio.run(run())


def test_reading_goes_on_with_another_token_where_a_connection_ended():
    async def run():
        async with FakeBroker(websocket_faults=deque([Fault(items=1)])) as broker:
            tokens = Tokens(ONE, TWO)
            async with tg.connect(broker.url, token=tokens) as client, aclosing(client.notifications()) as items:
                await broker.tell(2)
                assert (await anext(items)).number == 1
                broker.token = TWO
                assert (await anext(items)).number == 2
                assert tokens.asked == 2

    asyncio.run(run())


def test_reading_ends_if_the_token_is_refused_twice():
    async def run():
        async with FakeBroker() as broker:
            tokens = Tokens(TWO)
            async with tg.connect(broker.url, token=tokens) as client, aclosing(client.notifications()) as items:
                with pytest.raises(tg.AccessError):
                    await anext(items)
                assert tokens.asked == 2

    asyncio.run(run())


def test_a_function_that_fails_for_a_while_is_asked_again():
    async def run():
        async with FakeBroker() as broker:
            tokens = Tokens(OSError("secret-of-the-issuer"), OSError("secret-of-the-issuer"), ONE)
            async with tg.connect(broker.url, token=tokens) as client:
                assert (await client.publish({"id": "p", "source": "a"})).accepted == 1
                assert tokens.asked == 3
            tokens = Tokens(OSError("secret-of-the-issuer"))
            async with tg.connect(broker.url, token=tokens, deadline=0.3) as client:
                with pytest.raises(tg.BrokerError, match="an error, OSError; at the function that gives") as failed:
                    await client.publish({"id": "p", "source": "a"})
                assert "secret" not in str(failed.value)

    asyncio.run(run())


@pytest.mark.parametrize("wrong", ["", None, "with a space", 5])
def test_what_is_no_token_is_an_error_at_once(wrong):
    async def run():
        async with FakeBroker() as broker:
            async with tg.connect(broker.url, token=Tokens(wrong)) as client:
                with pytest.raises(tg.SettingError, match="a token, which is visible ASCII"):
                    await client.publish({"id": "p", "source": "a"})
            assert not broker.requests

    asyncio.run(run())


def test_without_asyncio():
    with broker_in_thread() as (broker, _):
        tokens = Tokens(ONE, TWO)
        with tg.connect(broker.url, token=tokens) as client:
            assert client.publish({"id": "p", "source": "a"}).accepted == 1
            broker.token = TWO
            assert client.publish({"id": "q", "source": "a"}).accepted == 1
        assert tokens.asked == 2


def test_no_token_is_in_any_text():
    assert ONE not in repr(TokenSource(ONE, 1.0))
    assert ONE not in repr(tg.connect("http://127.0.0.1:1", token=lambda: ONE))
