"""Subscriptions over HTTP against a dict: drawn requests of two principals, with and without ETags, one by one and in
bulk, over two gateways on one directory.
"""

from __future__ import annotations

from itertools import count
from urllib.parse import quote

import anyio
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.broker import client_of, opened, token
from tests.parts.profiles import examples

IDS = ["s", "S", "a/b", "%2F", "ž ☃", "a?b=c&d#e"]
BODIES = [
    {"where": "no2 > 40"},
    {"where": "no2 > 41"},
    {"where": {"op": ">", "args": [{"property": "no2"}, 40]}},
    {"where": "no2 > 40", "initial": True, "fields": ["no2"], "expired": True},
    {"where": "no2 > 40", "active_from": "2026-11-15T08:00:00Z"},
    {"where": "no2 > 40", "active_from": "2026-11-15T09:00:00+01:00"},
]
#: What is equal to a body that is kept: the two times are one.
MEANING = [0, 1, 2, 3, 4, 4]

names = {"who": st.integers(0, 1), "id": st.sampled_from(IDS)}
body = st.integers(0, len(BODIES) - 1)
match = st.sampled_from(["", "", "*", "now", "old"])
lines = st.lists(st.tuples(st.sampled_from(IDS), body), max_size=4)
step = st.one_of(
    st.fixed_dictionaries({"do": st.just("put"), **names, "body": body, "match": match}),
    st.fixed_dictionaries({"do": st.just("new"), **names, "body": body}),
    st.fixed_dictionaries({"do": st.just("get"), **names}),
    st.fixed_dictionaries({"do": st.just("delete"), **names, "match": match}),
    st.fixed_dictionaries({"do": st.just("list"), **names, "limit": st.integers(1, 4)}),
    st.fixed_dictionaries({"do": st.just("bulk"), **names, "lines": lines}),
)  # fmt: skip
numbers = count()


class Model:
    """The subscriptions of one principal by id, in the order in which they were made, as the answers must be."""

    def __init__(self):
        self.kept: dict[str, tuple[int, str]] = {}  # the meaning of the body, and the ETag
        self.old = '"none"'

    def put(self, id, body, match):
        """The status, and whether what is there is another now."""
        there = self.kept.get(id)
        if match and not self.has(id, match):
            return 412, False
        if there is None:
            return 201, True
        if there[0] == MEANING[body]:
            return 200, False
        return (200, True) if match else (409, False)

    def has(self, id, match):
        there = self.kept.get(id)
        return there is not None and (match == "*" or match == there[1])

    def header(self, id, match):
        there = self.kept.get(id)
        return {"": "", "*": "*", "now": there[1] if there else '"never"', "old": self.old}[match]

    def note(self, id, body, etag):
        before = self.kept.pop(id, None)
        if before is not None:
            self.old = before[1]
        self.kept[id] = MEANING[body], etag


async def done(model, client, step):
    path = f"/v1/subscriptions/{quote(step['id'], safe='')}"
    match step["do"]:
        case "put" | "new":
            header = model.header(step["id"], step["match"]) if step["do"] == "put" else ""
            headers = {"If-Match": header} if header else {}
            status, changes = model.put(step["id"], step["body"], header)
            if step["do"] == "new":
                headers = {"If-None-Match": "*"}
                status, changes = (412, False) if step["id"] in model.kept else (201, True)
            answer = await client.put(path, json=BODIES[step["body"]], headers=headers)
            assert answer.status_code == status
            if changes:
                assert answer.headers["etag"] not in (model.old, *(etag for _, etag in model.kept.values()))
                model.note(step["id"], step["body"], answer.headers["etag"])
            there = model.kept.get(step["id"])
            assert answer.headers.get("etag") == (there[1] if there else None)
        case "get":
            answer = await client.get(path)
            check(model, step["id"], answer)
        case "delete":
            header = model.header(step["id"], step["match"])
            answer = await client.delete(path, headers={"If-Match": header} if header else {})
            if step["id"] not in model.kept:
                assert answer.status_code == 404
            elif header and not model.has(step["id"], header):
                assert answer.status_code == 412
            else:
                assert answer.status_code == 204
                model.old = model.kept.pop(step["id"])[1]
        case "list":
            found, after = [], {}
            while after is not None:
                params = {"limit": step["limit"], **after}
                page = (await client.get("/v1/subscriptions", params=params)).json()
                assert len(page["subscriptions"]) <= step["limit"]
                found += page["subscriptions"]
                after = None if page["next"] is None else {"after": page["next"]}
            assert [(one["id"], one["etag"]) for one in found] == [(id, etag) for id, (_, etag) in model.kept.items()]
        case "bulk":
            await bulk(model, client, step["lines"])


async def bulk(model, client, lines):
    content = b"\n".join(orjson.dumps({"id": id, **BODIES[body]}) for id, body in lines)
    answer = await client.post("/v1/subscriptions", content=content, headers={"Content-Type": "application/x-ndjson"})
    counts, refused, made = {"made": 0, "same": 0, "replaced": 0}, [], {}
    for index, (id, body) in enumerate(lines):
        status, _ = model.put(id, body, "")
        if id in made or status == 409:
            refused.append((index, "conflict"))
        elif status == 201:
            counts["made"] += 1
            made[id] = body
        else:
            counts["same"] += 1
    found = answer.json()
    assert answer.status_code == (422 if lines and len(refused) == len(lines) else 200)
    assert {name: found[name] for name in counts} == counts
    assert [(one["index"], one["code"]) for one in found["refused"]] == refused
    for id, body in made.items():
        shown = await client.get("/v1/subscriptions", params={"id": id})
        model.note(id, body, shown.headers["etag"])


def check(model, id, answer):
    there = model.kept.get(id)
    if there is None:
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown")
        return
    meaning, etag = there
    assert (answer.status_code, answer.headers["etag"], answer.json()["etag"]) == (200, etag, etag)
    usual = {"initial": False, "fields": "all", "expired": False, "active_from": None, "active_until": None}
    wanted = {**usual, "deliver": "stream", "id": id, "etag": etag, "cost": None, **BODIES[meaning]}
    if wanted["active_from"] is not None:
        wanted["active_from"] = "2026-11-15T08:00:00.000000Z"
    assert answer.json() == wanted


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("model")


@examples(12)
@given(st.lists(step, min_size=5, max_size=25))
def test_as_a_dict_would(directory, steps):
    async def once():
        with opened(directory) as here, opened(directory) as there:
            who = [f"p{next(numbers)}" for _ in range(2)]
            models = {name: Model() for name in who}
            headers = {name: token(here, name, ["subscriber"]) for name in who}
            async with client_of(here) as first, client_of(there) as second:
                for number, step in enumerate(steps):
                    name, client = who[step["who"]], (first, second)[number % 2]
                    client.headers.update(headers[name])
                    await done(models[name], client, step)
                for name, model in models.items():
                    first.headers.update(headers[name])
                    for id in IDS:
                        check(model, id, await first.get("/v1/subscriptions", params={"id": id}))
                    await done(model, first, {"do": "list", "id": "", "limit": 2})
                assert {f"{s.subscriber}/{s.id}" for s in there.registry if s.subscriber in who} == {
                    f"{name}/{id}" for name, model in models.items() for id in model.kept
                }

    anyio.run(once)
