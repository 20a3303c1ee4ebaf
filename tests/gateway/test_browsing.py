"""Looking at what is published, as somebody may read it; an obvious reading of all that was sent is the oracle."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.broker import client_of, opened, token
from tests.parts.profiles import examples
from tidegate.broker import recent_publications
from tidegate.gateway.opaque_positions import OpaquePositions
from tidegate.gateway.problems import RequestError

BASE = {"time": "2026-11-01T08:00:00Z"}


def told(broker, work, **token_settings):
    """What ``work`` returns, given a function that gets a path as JSON and one that publishes."""

    async def asked():
        async with client_of(broker) as client:

            async def get(path, status=200, **query):
                answer = await client.get(path, params=query, headers=reader)
                assert answer.status_code == status, answer.text
                return answer.json()

            async def publish(items):
                answer = await client.post("/v1/publications", json=items, headers=publisher)
                assert answer.status_code == 202, answer.text

            async def unpublish(source, id):
                query = {"source": source, "id": id}
                answer = await client.delete("/v1/publications", params=query, headers=publisher)
                assert answer.status_code == 204, answer.text

            return await work(get, publish, unpublish)

    reader, publisher = token(broker, "ann", ["subscriber"], **token_settings), token(broker, "bob", ["publisher"])
    return anyio.run(asked)


@st.composite
def histories(draw):
    """What is published in some requests, and what is then unpublished."""
    item = st.fixed_dictionaries(
        {"source": st.sampled_from("xyz"), "n": st.integers(0, 9)}, optional={"s": st.just("t")}
    )
    requests = draw(st.lists(st.lists(item, min_size=1, max_size=5), min_size=1, max_size=6))
    items = [[{**one, **BASE, "id": f"{i}-{j}"} for j, one in enumerate(some)] for i, some in enumerate(requests)]
    every = [one for some in items for one in some]
    return items, draw(st.lists(st.sampled_from(every), unique_by=lambda one: one["id"], max_size=3))


@examples(10)
@given(
    histories(),
    st.booleans(),
    st.sampled_from([None, "x"]),
    st.integers(1, 5),
    st.sampled_from([1, 3, 1000]),
    st.sampled_from([1, 200, 1 << 20]),
)
def test_pages_have_what_may_be_read(tmp_path_factory, history, is_limited, source, limit, some, most):
    """Pages, forward and newest first, of what may be read and was not unpublished; also in small parts of the log, and
    of few bytes.
    """
    requests, withdrawn = history

    async def work(get, publish, unpublish):
        for items in requests:
            await publish(items)
        for one in withdrawn:
            await unpublish(one["source"], one["id"])
        query = {} if source is None else {"source": source}
        newest = await get("/v1/publications", limit=limit, **query)
        pages, page = [], await get("/v1/publications", limit=limit, after=first, **query)
        while page["publications"]:
            assert len(page["publications"]) <= limit
            pages += page["publications"]
            page = await get("/v1/publications", limit=limit, after=page["next"], **query)
        assert await get("/v1/publications", after=page["next"], **query) == {"publications": [], "next": page["next"]}
        after_newest = await get("/v1/publications", limit=limit, after=newest["next"], **query)
        assert after_newest["publications"] == [] or not newest["publications"]
        return newest["publications"], pages, await get("/v1/sources"), await get("/v1/attributes", **query)

    seen = [one for items in requests for one in items if one not in withdrawn and (not is_limited or one["n"] < 5)]
    sources = sorted({one["source"] for one in seen})
    seen = [one for one in seen if source in (None, one["source"])]
    with pytest.MonkeyPatch.context() as patch, opened(tmp_path_factory.mktemp("browsing")) as broker:
        patch.setattr(recent_publications, "_SOME", some)
        patch.setattr(recent_publications, "_PAGE", most)
        halves = broker.log._identities._settings.key
        first = (
            OpaquePositions(b"".join(half.to_bytes(8, "little") for half in halves)).shown(-1) if is_limited else "-1"
        )
        newest, pages, all_sources, attributes = told(broker, work, read="n < 5" if is_limited else None)
    assert [one["id"] for one in pages] == [one["id"] for one in seen]
    newest_ids = [one["id"] for one in seen[-limit:]]
    assert [one["id"] for one in newest] == newest_ids[-len(newest) :]
    assert len(newest) == min(limit, len(seen), {1: 1, 200: len(newest) or 1}.get(most, limit))
    assert bool(newest) == bool(seen)
    assert all_sources == {"sources": sources}
    names = {name for one in seen for name in one.keys() - {*BASE, "id", "source"}}
    kinds = {"n": ["number"], "s": ["text"]}
    assert attributes == {"attributes": [{"name": name, "kinds": kinds[name]} for name in sorted(names)]}


def test_what_a_publication_says(tmp_path):
    given = {"id": "a", "source": "z", "valid_until": "2026-11-20T00:00:00+01:00", "location": {"lon": 8, "lat": 46}}
    given |= BASE | {"n": 5, "x": 5.0, "tags": ["p", "q"], "on": True}

    async def work(get, publish, unpublish):
        await publish(given)
        return await get("/v1/publications"), await get("/v1/attributes")

    with opened(tmp_path, clock=lambda: 1_793_520_000_000_000) as broker:
        page, attributes = told(broker, work)
    assert page["publications"] == [
        {
            "id": "a",
            "source": "z",
            "time": "2026-11-01T08:00:00.000000Z",
            "valid_until": "2026-11-19T23:00:00.000000Z",
            "location": {"lon": 8.0, "lat": 46.0},
            "attributes": {"n": 5, "x": 5.0, "tags": ["p", "q"], "on": True},
        }
    ]
    kinds = {one["name"]: one["kinds"] for one in attributes["attributes"]}
    assert kinds == {"n": ["number"], "on": ["truth value"], "tags": ["list of text"], "x": ["number"]}


@pytest.mark.parametrize("name", [".", ".a", "..", "[0]", "[", "a.b", "\\"])
def test_a_name_that_looks_like_a_path_is_that_of_an_attribute(tmp_path, name):
    """A list of integers and other numbers has a mark beside it of which were integers, which is found by its name."""

    async def work(get, publish, unpublish):
        await publish([{"source": "x", "id": "1", **BASE, "attributes": {name: [1, 2.0]}}])
        return await get("/v1/publications")

    with opened(tmp_path) as broker:
        [found] = told(broker, work)["publications"]
    assert found["attributes"] == {name: [1, 2.0]}
    assert list(map(type, found["attributes"][name])) == [int, float]


def test_a_question_looks_at_a_part_of_the_log_only(tmp_path, monkeypatch):
    async def work(get, publish, unpublish):
        await publish([{**BASE, "id": f"{i}", "source": "x" if i else "y", "n": i} for i in range(100)])
        found, after = [], "-1"
        while len(found) < 100:
            page = await get("/v1/publications", after=after)
            assert 0 < len(page["publications"]) <= 30
            found, after = found + page["publications"], page["next"]
        newest = await get("/v1/publications", limit=1000)
        return [one["id"] for one in found], newest["publications"], await get("/v1/sources")

    monkeypatch.setattr(recent_publications, "_MOST", 30)
    monkeypatch.setattr(recent_publications, "_SOME", 8)
    with opened(tmp_path) as broker:
        found, newest, sources = told(broker, work)
    assert found == [f"{i}" for i in range(100)]
    assert [one["id"] for one in newest] == [f"{i}" for i in range(70, 100)]
    assert sources == {"sources": ["x"]}


def test_places_in_the_log_that_are_none(tmp_path):
    async def work(get, publish, unpublish):
        for after in ("x", "-2", "1.5", "9" * 19, "²"):
            assert (await get("/v1/publications", 422, after=after))["code"] == "parameter"
        assert await get("/v1/publications", after="99") == {"publications": [], "next": "99"}
        assert await get("/v1/publications") == {"publications": [], "next": "-1"}

    with opened(tmp_path) as broker:
        told(broker, work)


def test_functions(tmp_path):
    async def work(get, publish, unpublish):
        return await get("/v1/functions")

    with opened(tmp_path) as broker:
        found = told(broker, work)["functions"]
    by_kind = {
        kind: {one["name"] for one in found if one["kind"] == kind} for kind in ("predicate", "measure", "pattern")
    }
    assert {"=", "s_within"} & by_kind["predicate"]
    assert by_kind["measure"] == {"shape"}
    assert "topk" in by_kind["pattern"]
    assert all(one["example"] for one in found)


@examples(200)
@given(st.integers(-1, 2**48 - 2), st.binary(min_size=16, max_size=16))
def test_opaque_positions(row, key):
    positions = OpaquePositions(key)
    assert positions.read(positions.shown(row)) == row


def test_opaque_positions_that_were_not_shown():
    positions = OpaquePositions(b"k" * 16)
    texts = {positions.shown(row) for row in range(-1, 1000)}
    assert len(texts) == 1001
    assert len({text[:4] for text in texts}) > 900
    for text in ("", "5", "0" * 16, "f" * 17, "-" + "0" * 15, "é" * 16):
        with pytest.raises(RequestError):
            positions.read(text)
