"""Publishing over HTTP: what becomes of each item, in all forms of bodies, and what is refused as a whole."""

from __future__ import annotations

import anyio

from tests.gateway.broker import client_of, opened, token


def posting(broker, *bodies, **token_settings):
    """The answers to some posts, each a dict of arguments of httpx or something to send as JSON."""

    async def asked():
        async with client_of(broker) as client:
            found = []
            for body in bodies:
                sent = body if isinstance(body, dict) and "content" in body else {"json": body}
                more = {"headers": headers | sent.pop("headers", {})}
                found.append(await client.post("/v1/publications", **sent, **more))
            return found

    headers = token(broker, "ann", ["publisher"], **token_settings)
    return anyio.run(asked)


def test_what_is_new_known_and_wrong(tmp_path):
    one = {"id": "a", "source": "z1", "time": "2026-11-01T08:00:00Z", "no2": 41}
    with opened(tmp_path) as broker:
        answers = posting(broker, one, one, {**one, "no2": 42}, [{"source": "z1", "no2": 41}, one, 5])
        found = [answer.json() for answer in answers]
        assert [answer.status_code for answer in answers] == [202, 202, 422, 202]
        assert found[0] == {"accepted": 1, "duplicates": 0, "refused": [], "ids": {}, "position": 0}
        assert found[1] == {"accepted": 0, "duplicates": 1, "refused": [], "ids": {}, "position": None}
        [refused] = found[2]["refused"]
        assert (refused["index"], refused["code"]) == (0, "conflict")
        assert (found[3]["accepted"], found[3]["duplicates"], found[3]["position"]) == (1, 1, 1)
        assert [(one["index"], one["code"]) for one in found[3]["refused"]] == [(2, "publication")]
        assert list(found[3]["ids"]) == ["0"]
        assert broker.counts.items() == [
            ("published", "accepted", 2),
            ("published", "duplicate", 2),
            ("refused", "conflict", 1),
            ("refused", "publication", 1),
        ]


def test_unpublishing(tmp_path):
    async def asked():
        async with client_of(broker) as client:
            await client.post("/v1/publications", json=[{"id": "a/.b", "source": "z/1"}], headers=headers)
            places = ("/v1/publications/z%2F1/a%2F.b", "/v1/publications?source=y1&id=..", "/v1/publications/x/a")
            return [(await client.delete(place, headers=headers)).status_code for place in (places[0], *places)]

    with opened(tmp_path) as broker:
        headers = token(broker, "ann", ["publisher"], sources=["y*", "z*"])
        assert anyio.run(asked) == [204, 404, 404, 403]
