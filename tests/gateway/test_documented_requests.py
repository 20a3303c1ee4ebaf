"""The requests that pages show in blocks marked ``http`` are answered as they say."""

from __future__ import annotations

import re

import anyio
import orjson
import pytest

from tests.gateway.broker import client_of, opened, token
from tests.test_doc_pages import DOCS

BLOCK = re.compile(r"^```http\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [page for page in sorted((DOCS / "howto").glob("*.md")) if BLOCK.search(page.read_text("utf-8"))]
ANYTHING = "…"


def agrees(shown, found) -> bool:
    """Whether an answer is as it is shown; the dots stand for any value that is there."""
    if shown == ANYTHING:
        return found is not None
    if isinstance(shown, dict) and isinstance(found, dict):
        return shown.keys() == found.keys() and all(agrees(shown[name], found[name]) for name in shown)
    if isinstance(shown, list) and isinstance(found, list):
        return len(shown) == len(found) and all(map(agrees, shown, found))
    return type(shown) is type(found) and shown == found


async def answered(client, block):
    asked, status, shown = re.split(r"^→ (\d+)\n", block, maxsplit=1, flags=re.MULTILINE)
    first, _, body = asked.partition("\n")
    method, path = first.split(" ", 1)
    is_bulk = path == "/v1/subscriptions" and method == "POST"
    headers = {"Content-Type": "application/x-ndjson" if is_bulk else "application/json"}
    answer = await client.request(method, path, content=body, headers=headers if body else {})
    found = answer.json() if answer.content else None
    assert answer.status_code == int(status), found
    wanted = orjson.loads(shown) if shown.strip() else None
    assert agrees(wanted, found), f"{first}: {orjson.dumps(found, option=orjson.OPT_INDENT_2).decode()}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_requests_of_a_page_are_answered_as_it_says(page, tmp_path):
    async def once():
        with opened(tmp_path) as broker:
            headers = token(broker, "ann", ["subscriber", "publisher"])
            async with client_of(broker, headers=headers) as client:
                for block in BLOCK.findall(page.read_text("utf-8")):
                    await answered(client, block)

    anyio.run(once)


def test_what_agrees():
    assert agrees({"a": [1, "…"]}, {"a": [1, {"b": 2}]})
    for shown, found in (({"a": "…"}, {"a": None}), ({"a": 1}, {"a": 1, "b": 2}), ([1], [1, 2]), (1, 1.0), (None, 0)):
        assert not agrees(shown, found)
