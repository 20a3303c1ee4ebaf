"""What is said of a subscription that is checked: mistakes with places, doubts, and the expression in both forms."""

from __future__ import annotations

import json
import warnings

import anyio
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tidegate as tg
from tests.gateway.broker import client_of, opened, token
from tests.parts.profiles import examples
from tests.strategies import CONDITIONS, expressions
from tidegate.gateway.checking import _checked
from tidegate.gateway.subscription_bodies import SubscriptionBody
from tidegate.language import to_json, to_text


@pytest.fixture
def check(tmp_path):
    """Check some bodies."""

    async def checked(bodies):
        with opened(tmp_path) as broker:
            async with client_of(broker, headers=token(broker, "ann", ["subscriber"])) as client:
                found = [await client.post("/v1/check", json=body) for body in bodies]
                assert broker.registry.version == 0
                return found

    return lambda *bodies: anyio.run(checked, bodies)


def test_both_forms_and_what_is_used(check):
    text = "no2>40 and S_DWITHIN(location, POINT(16 46), 500)"
    (answer,) = check({"where": text})
    found = answer.json()
    assert answer.status_code == 200
    assert (found["mistakes"], found["warnings"], found["kind"]) == ([], [], "filter")
    assert (found["attributes"], found["fields"], found["functions"]) == (
        ["no2"],
        ["location"],
        [">", "and", "s_dwithin"],
    )
    again = check({"where": found["text"]}, {"where": found["json"]})
    assert [one.json() for one in again] == [found, found]
    (pattern,) = check({"where": "topk(3, 'PT1H', no2) AND state = 'x'"})
    assert (pattern.json()["kind"], pattern.json()["attributes"]) == ("topk", ["no2", "state"])


def test_mistakes_and_doubts(check):
    bodies = [
        {"where": "no2 > 40 AND\nno2 > > 50"},
        {"where": {"op": "nonsense", "args": []}},
        {"where": "no2 > 40", "deliver": "mqtt"},
        {"where": "no2 > 40", "active_from": "2027-01-01T00:00:00Z", "active_until": "2026-01-01T00:00:00Z"},
        {"where": "no2 > 4 AND no2 < 3"},
        {"where": "name = \"x\""},
        {"where": "false"},
    ]  # fmt: skip
    found = [answer.json() for answer in check(*bodies)]
    (first,) = found[0]["mistakes"]
    assert (first["code"], first["at"]) == ("parse", "line 2, column 7")
    assert first["caret"].splitlines()[-1].strip() == "^"
    assert [one["mistakes"][0]["code"] for one in found[1:4]] == ["function", "undeliverable", "subscription"]
    assert [len(one["mistakes"]) for one in found[4:]] == [0, 0, 0]
    assert [one["warnings"][0].split(",")[0].split("; ")[-1] for one in found[4:6]] == [
        "can never match", "a text has single quotes"
    ]  # fmt: skip
    assert found[6]["warnings"] == ["can never match"]


def test_a_text_that_cannot_be_kept_is_a_mistake():
    [mistake] = _checked("ann", SubscriptionBody(where="t = 'a\0'")).mistakes
    assert mistake.code == "subscription"
    assert "NUL" in mistake.detail


WRITTEN = expressions([op for op in CONDITIONS if op not in ("about", "shape")]).flatmap(
    lambda node: st.sampled_from([to_text(node), to_json(node)])
)


@examples(40)
@given(where=WRITTEN | st.text(max_size=20))
def test_it_is_wrong_if_and_only_if_it_cannot_be_taken(where):
    assume(r"\u0000" not in json.dumps(where))  # which databases cannot keep, so it is refused where it is put
    found = _checked("ann", SubscriptionBody(where=where))
    codes = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tg.SubscriptionWarning)
            tg.Engine([tg.Subscription("s", "ann", where)])
    except tg.TidegateError as error:
        codes = [error.code]
    assert [one.code for one in found.mistakes] == codes
    if not codes:
        again = _checked("ann", SubscriptionBody(where=found.text))
        assert (again.json, again.kind, again.functions) == (found.json, found.kind, found.functions)
