"""The requests and messages that pages show in blocks marked ``http``, ``sse`` and ``websocket`` are answered as they
say. ``docs/API.md`` is asked of a whole broker and has every request and message; the how-tos are asked of a gateway.
"""

from __future__ import annotations

import re
from time import monotonic, sleep

import anyio
import httpx
import orjson
import pytest
from websockets.sync.client import connect

from tests.gateway.broker import client_of, opened, token
from tests.gateway.served import served
from tests.test_doc_pages import DOCS
from tidegate.gateway.api import routes

API = DOCS / "API.md"
BLOCK = re.compile(r"^```(http|sse|websocket)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [page for page in sorted((DOCS / "howto").glob("*.md")) if BLOCK.search(page.read_text("utf-8"))]
HEADER = re.compile(r"[A-Za-z-]+: .")
#: Any value that is there; as the name of a member, that there are more of them.
ANYTHING = "…"
_PATIENCE = 30.0


def agrees(shown, found) -> bool:
    """Whether an answer is as it is shown."""
    if shown == ANYTHING:
        return found is not None
    if isinstance(shown, dict) and isinstance(found, dict):
        names = shown.keys() - {ANYTHING}
        has_all = names <= found.keys() if ANYTHING in shown else names == found.keys()
        return has_all and all(agrees(shown[name], found[name]) for name in names)
    if isinstance(shown, list) and isinstance(found, list):
        return len(shown) == len(found) and all(map(agrees, shown, found))
    return type(shown) is type(found) and shown == found


def expect(block, shown, answer):
    found = answer.json() if answer.content else None
    wanted = orjson.loads(shown) if shown.strip() else None
    assert agrees(wanted, found), f"{block}: {orjson.dumps(found, option=orjson.OPT_INDENT_2).decode()}"


def asked(block):
    """The method, the path, headers and body of a block, the status that it promises, and the answer that it shows."""
    request, status, shown = re.split(r"^→ (\d+)\n", block, maxsplit=1, flags=re.MULTILINE)
    first, *rest = request.strip().splitlines()
    headers = dict(line.split(": ", 1) for line in rest if HEADER.match(line))
    body = "\n".join(line for line in rest if not HEADER.match(line)).strip()
    method, path = first.split(" ", 1)
    if body and "Content-Type" not in headers:
        is_bulk = (method, path) == ("POST", "/v1/subscriptions")
        headers["Content-Type"] = "application/x-ndjson" if is_bulk else "application/json"
    return method, path, headers, body, int(status), shown


async def answered(client, block):
    method, path, headers, body, status, shown = asked(block)
    answer = await client.request(method, path, content=body, headers=headers)
    assert answer.status_code == status, answer.text
    expect(block, shown, answer)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_requests_of_a_page_are_answered_as_it_says(page, tmp_path):
    async def once():
        with opened(tmp_path) as broker:
            headers = token(broker, "ann", ["subscriber", "publisher"])
            async with client_of(broker, headers=headers) as client:
                for _, block in BLOCK.findall(page.read_text("utf-8")):
                    await answered(client, block)

    anyio.run(once)


# --- the page of the API --------------------------------------------------------------------------------------------


def streamed(client, block):
    """The events of a stream, as many as are shown."""
    _, path, headers, _, status, shown = asked(block)
    lines = shown.strip().splitlines()
    with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == status
        for wanted, found in zip(lines, answer.iter_lines(), strict=False):
            if wanted.startswith("data: "):
                assert agrees(orjson.loads(wanted[6:]), orjson.loads(found[6:])), found
            else:
                assert re.fullmatch(re.escape(wanted).replace(ANYTHING, ".*"), found), (wanted, found)


def talked(url, headers, block):
    """Send what is sent. What is answered before something is sent again may come in any order."""
    with connect(f"ws{url.removeprefix('http')}/v1/ws?after=0", additional_headers=headers) as socket:
        for part in re.split(r"^> ", block, flags=re.MULTILINE):
            first, _, rest = part.partition("\n")
            if first.startswith("{"):
                socket.send(first)
            lines = rest.splitlines() if first.startswith("{") else part.splitlines()
            wanted = [orjson.loads(line.removeprefix("< ")) for line in lines]
            for _ in lines:
                found = orjson.loads(socket.recv(_PATIENCE))
                same = [one for one in wanted if agrees(one, found)]
                assert same, (wanted, found)
                wanted.remove(same[0])


def test_the_page_of_the_api_says_what_is_answered(tmp_path):
    with (
        served(tmp_path) as broker,
        httpx.Client(base_url=broker.url, headers=broker.headers, timeout=60) as client,
    ):
        for kind, block in BLOCK.findall(API.read_text("utf-8")):
            if kind == "sse":
                streamed(client, block)
            elif kind == "websocket":
                talked(broker.url, broker.headers, block)
            else:
                requested(client, block)


def requested(client, block):
    """What only reads is asked again until the runner has come to what was published."""
    method, path, headers, body, status, shown = asked(block)
    until = monotonic() + _PATIENCE
    while True:
        answer = client.request(method, path, content=body, headers=headers)
        try:
            assert answer.status_code == status, (block, answer.text)
            expect(block, shown, answer)
            return
        except AssertionError:
            if method != "GET" or monotonic() > until:
                raise
        sleep(0.05)


def test_the_page_of_the_api_has_every_request_and_message():
    text = API.read_text("utf-8")
    shown = {tuple(asked(block)[:2]) for kind, block in BLOCK.findall(text) if kind == "http"}
    shown = {(method, path.partition("?")[0]) for method, path in shown}
    told = set(re.findall(r"`(GET|POST|PUT|DELETE) (/[^`?]*)[^`]*`", text))
    for route in routes().all:
        pattern = re.compile("^" + re.sub(r"\\{\w+\\}", "[^/]+", re.escape(route.path)) + "$")
        is_shown = any(method == route.method and pattern.match(path) for method, path in shown)
        assert is_shown or (route.method, route.path) in told, (route.method, route.path)
    for message in ["publish", "unpublish", "subscribe", "unsubscribe", "ack", "announce", "revoke", "ping"]:
        assert f'> {{"type": "{message}"' in text, message
    for message in ["hello", "accepted", "error", "notification", "retracted", "skipped"]:
        assert re.search(rf'^< .*"type": "{message}"', text, re.MULTILINE), message
    assert all(f"`{message}`" in text for message in ("lagging", "gap", "activate", "deactivate"))


def test_what_agrees():
    assert agrees({"a": [1, "…"]}, {"a": [1, {"b": 2}]})
    assert agrees({"a": 1, "…": "…"}, {"a": 1, "b": None})
    for shown, found in (({"a": "…"}, {"a": None}), ({"a": 1}, {"a": 1, "b": 2}), ([1], [1, 2]), (1, 1.0), (None, 0)):
        assert not agrees(shown, found)
