"""Explanations and rehearsals of drawn subscriptions, of those who may read a drawn part of drawn publications: what is
answered is what the oracle says of both together, and nothing is said of what may not be read.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawn_publications import publications
from tests.gateway.broker import opened
from tests.oracle import holds
from tests.parts.profiles import examples
from tests.strategies import CONDITIONS, expressions
from tidegate.gateway.asked_subscriptions import asked_subscription
from tidegate.gateway.caller import Caller
from tidegate.gateway.explaining import ExplanationBody, NamedPublication, explain
from tidegate.gateway.problems import RequestError
from tidegate.gateway.rehearsal import rehearsed
from tidegate.gateway.rehearsing import task_of
from tidegate.gateway.subscription_bodies import SubscriptionBody
from tidegate.language import to_json

OPS = [op for op in CONDITIONS if op not in ("isA", "equivalent", "moreSpecific", "lessSpecific", "related", "shape")]
numbers = count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("read"), 'ahead = "off"\n') as broker:
        yield broker


def reading_only(broker, read):
    """A caller who may read what an expression says."""
    name = f"p{next(numbers)}"
    broker.principals.put(name, read=read)
    return Caller(broker.principals.holder(broker.principals.make_token(name, ["subscriber"]).secret))


def without_numbers(text):
    return re.sub(r"'p\d+-\d+'", "", text)


@examples(20)
@given(expressions(OPS, 3), expressions(OPS, 3), st.lists(publications(), min_size=1, max_size=3))
def test_what_may_not_be_read_is_as_if_it_were_not_there(broker, where, read, drawn):
    assert broker.ahead is None
    some = [
        replace(one, id=f"p{next(numbers)}-{place}", valid_until=None)
        for place, one in enumerate(one for part in drawn for one in part)
    ]
    begin = broker.clock()
    begins_at = broker.log.end
    for one in some:
        broker.log.append([one])
    caller = reading_only(broker, to_json(read))
    body = SubscriptionBody(where=to_json(where), expired=True)
    wanted = [one for one in some if holds(where, one) and holds(read, one)]

    asked = asked_subscription(broker, caller, body)
    *_, found = rehearsed(task_of(broker, asked, begin, broker.clock() + 1, samples=100))
    assert [one["publication"]["id"] for one in found.samples] == [one.id for one in wanted]
    assert found.notifications == len(wanted)

    async def explained(one):
        named = NamedPublication(source=one.source, id=one.id)
        return await explain(broker, caller, ExplanationBody(subscription=body, named=named))

    async def each():
        absent = SimpleNamespace(source=some[0].source, id="p0-999999")
        with pytest.raises(RequestError) as nothing:
            await explained(absent)
        for one in some:
            if holds(read, one):
                assert (await explained(one)).matches is (one in wanted)
                continue
            with pytest.raises(RequestError) as hidden:
                await explained(one)
            assert hidden.value.status == 404
            assert one.id in hidden.value.got
            assert (
                without_numbers(str(hidden.value)).split(" of source")[0]
                == without_numbers(str(nothing.value)).split(" of source")[0]
            )

    anyio.run(each)
    assert broker.log.end == begins_at + len(some)
