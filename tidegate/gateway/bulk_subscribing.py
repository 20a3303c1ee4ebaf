"""Putting thousands of subscriptions as one change of the registry, a line of JSON for each.

A line is the body of a subscription with its ``id``, and with ``if_match`` if it may replace another. One bad line
refuses itself only. Knows neither HTTP nor WebSocket.
"""

from __future__ import annotations

from collections import Counter
from time import sleep
from typing import Annotated

import msgspec
from anyio.to_thread import run_sync
from msgspec import Meta

from tidegate.errors import TidegateError
from tidegate.gateway.access import Caller
from tidegate.gateway.bodies import decoded
from tidegate.gateway.open_broker import OpenBroker
from tidegate.gateway.problems import RequestError
from tidegate.gateway.subscribing import expectation, put_all, refusal, threads_of
from tidegate.gateway.subscription_bodies import SubscriptionBody, subscription_of
from tidegate.gateway.webhooks import expect_deliverable
from tidegate.language import DEFAULT_LIMITS
from tidegate.store.replacing import Outcome, Put, Wanted
from tidegate.store.subscribing import checked

__all__ = ["BulkAnswer", "BulkLine", "subscribe_lines"]

_MOST_LINES = 10_000


class BulkLine(SubscriptionBody, kw_only=True):
    """One of many subscriptions: as its body, with its id."""

    id: str
    if_match: Annotated[str | None, Meta(description="The ETag of the one to replace, or * for any.")] = None


class RefusedLine(msgspec.Struct, omit_defaults=True):
    """A line that was refused: its place, counted from 0 and without empty lines, and why."""

    index: int
    code: str
    detail: str
    expected: str
    got: str
    at: str = ""
    caret: str = ""


class BulkAnswer(msgspec.Struct):
    """What became of the lines, and by index the doubts whether some are meant as they are written."""

    made: int
    same: int
    replaced: int
    refused: list[RefusedLine]
    warnings: dict[int, list[str]]


async def subscribe_lines(broker: OpenBroker, caller: Caller, body: bytes) -> BulkAnswer:
    """Put the subscriptions of all lines that can be taken, and return once they apply."""
    if (count := body.count(b"\n")) > 2 * _MOST_LINES:
        raise RequestError(413, "too_large", f"at most {_MOST_LINES:,} lines", f"{count:,}")
    lines = [line for line in body.split(b"\n") if line and not line.isspace()]
    if len(lines) > _MOST_LINES:
        raise RequestError(413, "too_large", f"at most {_MOST_LINES:,} lines", f"{len(lines):,}")
    answer = await run_sync(_put, broker, caller, lines, limiter=threads_of(broker, caller))
    for outcome in (Outcome.MADE, Outcome.SAME, Outcome.REPLACED):
        broker.counts.add("subscriptions", outcome, getattr(answer, outcome))
    for refused in answer.refused:
        broker.counts.add("subscriptions_refused", refused.code)
    return answer


def _put(broker: OpenBroker, caller: Caller, lines: list[bytes]) -> BulkAnswer:
    wanted, refused = dict[int, Wanted](), dict[int, TidegateError]()
    for index, line in enumerate(lines):
        try:
            wanted[index] = _wanted(broker, caller, line)
        except TidegateError as error:
            refused[index] = error
        sleep(0)  # the event loop need not wait for the interpreter
    puts = dict(zip(wanted, put_all(broker, caller, list(wanted.values())), strict=True)) if wanted else {}
    counts, warnings = Counter[Outcome](), dict[int, list[str]]()
    for index, put in puts.items():
        found = wanted[index].checked
        if (why := refusal(caller, found.subscription.id, put)) is not None:
            refused[index] = why
            continue
        assert isinstance(put, Put), "what was not refused"
        counts[put.outcome] += 1
        if found.doubts:
            warnings[index] = list(found.doubts)
    made, same, replaced = (counts[outcome] for outcome in (Outcome.MADE, Outcome.SAME, Outcome.REPLACED))
    return BulkAnswer(made, same, replaced, [_refused(index, refused[index]) for index in sorted(refused)], warnings)


def _wanted(broker: OpenBroker, caller: Caller, line: bytes) -> Wanted:
    body = decoded(line, BulkLine)
    wanted = subscription_of(caller.name, body.id, body)
    expect_deliverable(broker, caller.name, wanted.deliver)
    return Wanted(checked(wanted, DEFAULT_LIMITS), expectation(body.if_match))


def _refused(index: int, error: TidegateError) -> RefusedLine:
    caret = getattr(error, "caret", "")
    return RefusedLine(index, error.code, str(error), error.expected, error.got, error.at, caret)
