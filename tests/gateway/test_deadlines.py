"""Deadlines end what takes too long, as ``asyncio.timeout`` does, and nothing else."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

import pytest

from tidegate.gateway.deadlines import Deadlines

_LONG = 60.0


class _Timeouts:
    """The same by ``asyncio.timeout``: what deadlines are held against."""

    def within(self, seconds):
        return _Timeout(asyncio.timeout(seconds or None))


class _Timeout:
    def __init__(self, inner):
        self.inner = inner

    async def __aenter__(self):
        await self.inner.__aenter__()

    async def __aexit__(self, *error):
        return await self.inner.__aexit__(*error)


class _Deadline(_Timeout):
    async def __aenter__(self):
        self.inner.__enter__()

    async def __aexit__(self, *error):
        return self.inner.__exit__(*error)


@pytest.fixture(params=["deadlines", "asyncio"])
def within(request):
    """``async with within(seconds)``, by ours and by asyncio's."""
    if request.param == "asyncio":
        return _Timeouts().within
    of_loops = WeakKeyDictionary()
    return lambda seconds: _Deadline(
        of_loops.setdefault(asyncio.get_running_loop(), Deadlines()).within(seconds),
    )


async def outcome(work):
    """What becomes of a task: its value, or the name of what it raises; and whether it can go on."""
    try:
        found = await work
    except (TimeoutError, asyncio.CancelledError, ValueError) as error:
        found = type(error).__name__
    task = asyncio.current_task()
    return found, task.cancelling()


def run(work):
    return asyncio.run(outcome(work))


async def _sleeps(within, outer, inner, seconds=_LONG):
    async with within(outer):
        try:
            async with within(inner):
                await asyncio.sleep(seconds)
        except TimeoutError:
            return "inner"
    return "in time"


def test_the_deadline_that_is_over_ends_its_own_statement(within):
    assert run(_sleeps(within, _LONG, 0.05)) == ("inner", 0)
    assert run(_sleeps(within, 0.05, _LONG)) == ("TimeoutError", 0)
    assert run(_sleeps(within, 0.05, None)) == ("TimeoutError", 0)
    assert run(_sleeps(within, 0, 0.05)) == ("inner", 0)
    assert run(_sleeps(within, _LONG, _LONG, 0.01)) == ("in time", 0)
    assert run(_sleeps(within, None, 0, 0.01)) == ("in time", 0)


def test_both_may_be_over_at_once(within):
    async def work():
        async with within(0.02):
            try:
                async with within(0.02):
                    await asyncio.sleep(_LONG)
            except TimeoutError:
                await asyncio.sleep(_LONG)  # cancelled as well

    assert run(work()) == ("TimeoutError", 0)


def test_an_error_of_its_own_stays_what_it_is(within):
    async def work():
        async with within(0.02):
            try:
                await asyncio.sleep(_LONG)
            except asyncio.CancelledError:
                raise ValueError from None

    assert run(work()) == ("ValueError", 0)


def test_somebody_elses_cancellation_goes_on(within):
    async def work():
        async with within(_LONG):
            await asyncio.sleep(_LONG)

    async def cancelled():
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        return await asyncio.gather(task, return_exceptions=True)

    [found] = asyncio.run(cancelled())
    assert isinstance(found, asyncio.CancelledError)


def test_many_are_ended_each_in_its_time():
    every = Deadlines()

    async def one(number):
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            with every.within(0.05 * (number % 5) + 0.05):
                await asyncio.sleep(_LONG if number % 2 else 0.01)
        except TimeoutError:
            return loop.time() - began >= 0.05 * (number % 5) + 0.05
        return not number % 2

    async def work():
        found = await asyncio.gather(*map(one, range(200)))
        await asyncio.sleep(0.25)
        return found

    assert all(asyncio.run(work()))
    assert every._timer is None  # nothing to look at
