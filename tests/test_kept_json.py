"""What is kept as JSON takes the memory of its bytes."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.broker.test_delivered_items import SUBSCRIPTIONS
from tidegate.broker.encoded_content import EncodedContent, Matched
from tidegate.kept_json import kept_json

MAKERS = {
    "a value": lambda i: kept_json({"n": i}),
    "what matched": lambda i: SUBSCRIPTIONS[0]._replace(id=f"s{i}").packed(),
    "a publication": lambda i: EncodedContent({"id": f"p{i}"}).ending(None),
    "subscriptions": lambda i: Matched.of((SUBSCRIPTIONS[0]._replace(id=f"t{i}").packed(),)).ids,
}


@pytest.mark.parametrize("name", MAKERS)
def test_it_takes_hardly_more_than_its_bytes(name):
    make = MAKERS[name]
    make(-1)
    tracemalloc.start()
    try:
        kept = [make(number) for number in range(200)]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 200 * 1000 + sum(map(len, kept))
