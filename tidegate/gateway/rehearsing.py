"""``POST /v1/rehearse``: what a subscription would have sent over the log of the last hours or days.

The log is matched anew in a process of its own (``rehearsal_process``), which ends with the request, whether that is
answered or given up. Of a rehearsal that takes too long the answer says how far it came.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Coroutine
from contextlib import suppress
from typing import Annotated, Any, TypeVar

import msgspec
from anyio.to_thread import run_sync
from msgspec import Meta, to_builtins
from starlette.requests import Request
from starlette.responses import Response

from tidegate.broker.supervised import message
from tidegate.errors import TidegateError
from tidegate.gateway.access import Caller
from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.asked_subscriptions import AskedSubscription, asked_subscription
from tidegate.gateway.bodies import whole
from tidegate.gateway.open_broker import OpenBroker
from tidegate.gateway.problems import RequestError
from tidegate.gateway.rehearsal_states import RehearsalState, RehearsalTask
from tidegate.gateway.routes import BodyForm, Route
from tidegate.gateway.subscription_bodies import SubscriptionBody, Time
from tidegate.model import moment

__all__ = ["ROUTES", "Rehearsal", "RehearsalBody", "computed", "rehearse", "task_of", "while_wanted"]

T = TypeVar("T")
_HOUR, _SECOND, _MINUTE = 3_600_000_000, 1_000_000, 60_000_000
#: Hours of a week, for which a data directory keeps its log.
_MOST_HOURS = 168
#: Seconds that a process may take to start beyond those for the rehearsal.
_STARTS = 15.0
_LINE = 16 << 20


class RehearsalBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to be rehearsed, over how much of the log."""

    subscription: Annotated[str | SubscriptionBody, Meta(description="The id of one of the caller's, or one itself.")]
    hours: Annotated[float, Meta(gt=0, le=_MOST_HOURS)] = 24.0
    samples: Annotated[int, Meta(ge=0, le=100)] | Annotated[float, Meta(ge=0, le=100, multiple_of=1)] = 10


class HourCount(msgspec.Struct):
    """How many notifications would have been sent within an hour."""

    begin: Time
    notifications: int


class Rehearsal(msgspec.Struct, kw_only=True):
    """What would have been sent between two moments."""

    begin: Time
    end: Time
    notifications: int
    first: Annotated[Time | None, Meta(description="The earliest event time of a notification.")]
    last: Annotated[Time | None, Meta(description="The latest event time of a notification.")]
    hours: list[HourCount]
    samples: Annotated[list[dict[str, Any]], Meta(description="The first notifications, 4 MiB of them at most.")]
    complete: Annotated[bool, Meta(description="False if a limit on time or rows ended it before `end`.")]
    reached: Annotated[Time, Meta(description="Up to when the log was looked at, to the minute.")]


async def rehearse(broker: OpenBroker, caller: Caller, body: RehearsalBody) -> Rehearsal:
    """Rehearse a subscription as if the caller had made it before."""
    end = broker.clock()
    asked = await run_sync(asked_subscription, broker, caller, body.subscription, limiter=broker.threads)
    task = task_of(broker, asked, end - round(body.hours * _HOUR), end, samples=whole(body.samples))
    state = await computed(broker, caller, task)
    broker.counts.add("rehearsals", "complete" if state.is_complete else "ended_early")
    return Rehearsal(
        begin=_text(task.begin),
        end=_text(end),
        notifications=state.notifications,
        first=None if state.first is None else _text(state.first),
        last=None if state.last is None else _text(state.last),
        hours=[HourCount(_text(hour), count) for hour, count in sorted(state.hours.items())],
        samples=state.samples,
        complete=state.is_complete,
        reached=_text(end if state.is_complete else state.reached // _MINUTE * _MINUTE),
    )


def task_of(broker: OpenBroker, asked: AskedSubscription, begin: int, end: int, **more: Any) -> RehearsalTask:
    """The task of the process that computes."""
    meant, run, limits = asked.meant, broker.config.run, broker.limits
    named = None if meant.fields == "all" else [] if meant.fields == "none" else list(meant.fields)
    times = (None if when is None else when.isoformat() for when in (meant.active_from, meant.active_until))
    return RehearsalTask(
        log=str(broker.data.log),
        where=asked.bound,
        active_from=next(times),
        active_until=next(times),
        expired=meant.expired,
        fields=named,
        begin=begin,
        end=end,
        lateness=round(run.lateness * _SECOND),
        ahead=None if broker.ahead is None else round(broker.ahead * _SECOND),
        keep=None if run.keep is None else round(run.keep * _SECOND),
        rows=limits.rehearsal_rows,
        seconds=limits.rehearsal_seconds,
        **{"samples": 0, **more},
    )


async def computed(broker: OpenBroker, caller: Caller, task: RehearsalTask) -> RehearsalState:
    """What a process says of a task last: at its end, or when its time is over."""
    with broker.rehearsal_places.taken(caller.name, broker.limits.rehearsals):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tidegate.gateway.rehearsal_process",
            stdin=PIPE, stdout=PIPE, limit=_LINE, start_new_session=True,
        )  # fmt: skip
        try:
            state = await _last_said(process, task)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if state is None:
        raise RequestError(503, "slow", "a rehearsal that begins in time, and with the memory it may take", "none")
    if state.refused is not None:
        raise _Refused(*state.refused)
    return state


class _Refused(TidegateError):
    """What the process says is wrong."""

    def __init__(self, code: str, expected: str, got: str, at: str) -> None:
        super().__init__(expected, got, at)
        self.code = code


async def _last_said(process: Process, task: RehearsalTask) -> RehearsalState | None:
    assert process.stdin is not None, "a pipe"
    assert process.stdout is not None, "a pipe"
    said = None
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(task.seconds + _STARTS):
            process.stdin.write(message(msgspec.json.encode(task)))
            await process.stdin.drain()
            while line := await process.stdout.readline():
                said = msgspec.json.decode(line, type=RehearsalState)
                if said.is_over:
                    break
    return said


async def while_wanted(request: Request, broker: OpenBroker, work: Coroutine[Any, Any, T]) -> T:
    """What some work gives, which ends early if nobody waits for it any more, or the gateway ends."""
    doing, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    ending = asyncio.ensure_future(broker.closing.wait())
    try:
        await asyncio.wait((doing, gone, ending), return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        got = "one that ends" if ending.done() else "a connection that was closed"
        raise RequestError(503, "closing", "a request that is waited for, and a broker that goes on", got)
    finally:
        for one in (doing, gone, ending):
            one.cancel()
        await asyncio.gather(doing, gone, ending, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _text(micros: int) -> str:
    return moment(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")


async def post(request: ApiRequest) -> Response:
    """Rehearse a subscription."""
    body = await request.read(RehearsalBody)
    found = await while_wanted(request, request.broker, rehearse(request.broker, request.caller, body))
    return json_response(to_builtins(found))


ROUTES = (
    Route(
        method="POST",
        path="/v1/rehearse",
        handler=post,
        summary="What a subscription would have sent over the log of the last hours or days.",
        role="subscriber",
        body=(BodyForm("application/json", RehearsalBody),),
        answers={200: (BodyForm("application/json", Rehearsal),)},
        is_long=True,
    ),
)
