"""Answers are compressed for clients that take it, and mean the same; httpx and curl are the clients."""

from __future__ import annotations

import gzip
import subprocess
import threading

import anyio
import orjson
import pyarrow as pa
import pytest
from starlette.responses import Response

from tests.gateway.broker import client_of, opened, token
from tests.gateway.clients import events
from tests.gateway.live_broker import live
from tests.gateway.test_notifications import publications
from tidegate.gateway import application
from tidegate.gateway.answer_encodings import accepted_encoding, is_compressible, without_encoding
from tidegate.gateway.api import routes
from tidegate.gateway.preconditions import EntityTags

#: Its subscription is long enough to be compressed.
LONG = {"where": " OR ".join(f"kind = 'something {n}'" for n in range(100))}


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        (None, None),
        ("", None),
        ("gzip", "gzip"),
        ("GZIP;q=0.5", "gzip"),
        ("x-gzip", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("zstd;q=0.1, gzip", "gzip"),
        ("deflate, br", None),
        ("*", "gzip"),
        ("*;q=0", None),
        ("gzip;q=0, *", None),
        ("gzip;q=0", None),
        ("gzip;q=0.000, zstd;q=0.001", "zstd"),
        ("identity, gzip;q=0.5", None),
        ("identity;q=0.5, gzip", "gzip"),
        ("identity", None),
        ("gzip;q=x, ;;", None),
    ],
)
def test_what_a_client_takes(header, encoding):
    assert accepted_encoding(header) == encoding


@pytest.mark.parametrize(
    ("media_type", "is_text"),
    [
        ("application/json", True),
        ("application/problem+json", True),
        ("application/x-ndjson", True),
        ("text/plain; version=1.0.0; charset=utf-8", True),
        ("text/event-stream", False),
        ("application/vnd.apache.arrow.stream", False),
        ("image/png", False),
    ],
)
def test_what_is_worth_it(media_type, is_text):
    assert is_compressible(Response(b"x" * 1400, media_type=media_type), 1400) is is_text
    assert not is_compressible(Response(b"x" * 1399, media_type=media_type), 1400)
    encoded = Response(b"x" * 1400, headers={"Content-Encoding": "br"}, media_type=media_type)
    assert not is_compressible(encoded, 1400)


def test_tags_of_an_encoding_name_the_same_state():
    assert [without_encoding(tag) for tag in ('"1f-gzip"', 'W/"1f-zstd"', '"1f"', '"1f-br"')] == [
        '"1f"',
        'W/"1f"',
        '"1f"',
        '"1f-br"',
    ]
    tags = EntityTags('"1f-gzip", W/"2e-zstd"', "If-None-Match")
    assert (tags.has('"1f"'), tags.has('"2e"'), tags.has_weakly('"2e"')) == (True, False, True)
    assert (tags.given('"1f"'), tags.given('"2e"')) == ('"1f-gzip"', '"2e-zstd"')
    assert EntityTags("*", "If-None-Match").given('"1f"') == '"1f"'


def test_what_tells_a_secret_is_never_compressed(tmp_path):
    with_secret = {(route.method, route.path) for route in routes().all if route.has_secret}
    of_webhooks = {("PUT", "/v1/webhooks/{name}"), ("POST", "/v1/webhooks/{name}/rotate")}
    assert with_secret == {("POST", "/v1/tokens"), *of_webhooks}

    async def asked():
        with opened(tmp_path, "[serve]\ncompress_from = 1\n") as broker:
            root = token(broker, "root", ["administrator"])
            async with client_of(broker, headers=root) as client:
                made = await client.post("/v1/tokens", json={"principal": "ann", "roles": ["subscriber"]})
                return made, await client.get("/v1/tokens")

    made, listed = anyio.run(asked)
    assert "content-encoding" not in made.headers
    assert "token" in made.json()
    assert listed.headers["content-encoding"] == "gzip"


def test_a_broker_that_shall_compress_nothing(tmp_path):
    async def asked():
        with opened(tmp_path, "[serve]\ncompress_from = 0\n") as broker:
            async with client_of(broker) as client:
                return await client.get("/openapi.json")

    assert not {"content-encoding", "vary"} & anyio.run(asked).headers.keys()


# --- clients --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with live(tmp_path_factory.mktemp("encodings"), '[serve]\norigins = ["https://a.example"]\n') as found:
        yield found


@pytest.fixture(scope="module")
def ann(broker):
    broker.register("ann")
    with broker.client("ann") as client:
        client.put("/v1/subscriptions/all", json={"where": "n >= 0"})
        client.post("/v1/publications", json=publications(0, 1000))
        broker.run()
        yield client


def curl(broker, client, path, *options):
    """What curl gets: the headers by name, and the body."""
    given = ["-H", f"Authorization: {client.headers['Authorization']}", *options, f"{broker.url}{path}"]
    command = ["curl", "--silent", "--fail", "--include", "--max-time", "60", *given]
    head, _, body = subprocess.run(command, check=True, capture_output=True).stdout.partition(b"\r\n\r\n")
    return dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:]), body


def test_httpx_reads_what_is_compressed_as_if_it_were_not(broker, ann):
    query = {"after": "0", "limit": "1000"}
    plain = ann.get("/v1/notifications", params=query, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    found = ann.get("/v1/notifications", params=query)
    assert (found.headers["content-encoding"], found.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert plain.headers["vary"] == "Accept-Encoding"
    assert found.json() == plain.json()
    assert len(found.json()["notifications"]) == 1000
    assert int(found.headers["content-length"]) * 4 < len(plain.content)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_curl_reads_what_is_compressed(broker, ann, encoding):
    query = "/v1/notifications?after=0&limit=500"
    _, plain = curl(broker, ann, query)
    headers, body = curl(broker, ann, query, "-H", f"Accept-Encoding: {encoding}")
    assert (headers["content-encoding"], headers["content-length"]) == (encoding, str(len(body)))
    assert (gzip.decompress(body) if encoding == "gzip" else _zstd(body, len(plain))) == plain
    assert len(orjson.loads(plain)["notifications"]) == 500


def _zstd(body, size):
    return pa.Codec("zstd").decompress(body, decompressed_size=size, asbytes=True)


def test_curl_undoes_what_it_offers(broker, ann):
    _, plain = curl(broker, ann, "/openapi.json")
    headers, body = curl(broker, ann, "/openapi.json", "--compressed")
    assert headers["content-encoding"] in ("gzip", "zstd")
    assert body == plain


def test_the_head_is_that_of_the_answer(broker, ann):
    found, head = ann.get("/openapi.json"), ann.head("/openapi.json")
    names = "content-encoding", "content-length", "vary", "content-type"
    assert [head.headers[name] for name in names] == [found.headers[name] for name in names]
    assert head.content == b""


def test_problems_and_answers_of_other_origins(broker, ann):
    wrong = ann.post("/v1/publications", json=[{}] * 50, headers={"Origin": "https://a.example"})
    assert wrong.headers["vary"] == "Origin, Accept-Encoding"
    assert wrong.headers["content-encoding"] == "gzip"
    assert (wrong.status_code, len(wrong.json()["refused"])) == (422, 50)
    small = ann.get("/v1/subscriptions/all")
    assert not {"content-encoding", "vary"} & small.headers.keys()


def test_an_etag_of_an_encoding_replaces_and_is_not_modified(broker, ann):
    made = ann.put("/v1/subscriptions/long", json=LONG)
    assert made.headers["content-encoding"] == "gzip"
    plain = ann.get("/v1/subscriptions/long", headers={"Accept-Encoding": "identity"})
    etag, own = made.headers["etag"], plain.headers["etag"]
    assert (etag, plain.json()["etag"]) == (f'{own[:-1]}-gzip"', own)
    for tag in (etag, own, f"W/{etag}"):
        kept = ann.get("/v1/subscriptions/long", headers={"If-None-Match": tag})
        assert (kept.status_code, kept.headers["etag"]) == (304, tag.removeprefix("W/"))
        assert kept.headers["vary"] == "Accept-Encoding"
    page = {"If-None-Match": etag, "Origin": "https://a.example"}
    kept = ann.get("/v1/subscriptions/long", headers=page)
    assert (kept.status_code, kept.headers["vary"]) == (304, "Accept-Encoding, Origin")
    weak = ann.put("/v1/subscriptions/long", json={"where": "n > 1"}, headers={"If-Match": f"W/{etag}"})
    assert weak.status_code == 412
    replaced = ann.put("/v1/subscriptions/long", json={"where": "n > 1"}, headers={"If-Match": etag})
    assert replaced.status_code == 200
    assert ann.put("/v1/subscriptions/long", json=LONG, headers={"If-Match": etag}).status_code == 412
    assert ann.delete("/v1/subscriptions/long", headers={"If-Match": etag}).status_code == 412


def test_events_come_one_by_one_and_are_not_compressed(broker, ann):
    with ann.stream("GET", "/v1/stream", params={"after": "0"}) as answer:
        assert not {"content-encoding", "vary"} & answer.headers.keys()
    with events(ann, params={"after": "999"}) as found:
        assert next(found)[2]["number"] == 1000


def test_what_is_compressed_is_counted(broker, ann):
    ann.get("/openapi.json")
    root = broker.client("root", "administrator")
    with root:
        lines = root.get("/metrics").text.splitlines()
    counted = dict(line.rsplit(" ", 1) for line in lines if "gzip" in line)
    assert float(counted['tidegate_gateway_answers_compressed_total{cause="gzip"}']) > 0
    assert float(counted['tidegate_gateway_bytes_saved_total{cause="gzip"}']) > 10_000


def test_a_large_answer_is_compressed_beside_the_event_loop(tmp_path, monkeypatch):
    """The function runs in a thread, where it may take as long as it needs."""
    seen = []

    def noting(body, encoding):
        seen.append((len(body), threading.current_thread()))
        return gzip.compress(body)

    monkeypatch.setattr(application, "compressed", noting)
    monkeypatch.setattr(application, "LARGE", 1000)

    async def asked():
        with opened(tmp_path, "[serve]\ncompress_from = 1\n") as broker:
            async with client_of(broker, headers=token(broker, "ann", ["subscriber"])) as client:
                await client.get("/openapi.json")
                await client.get("/v1/sources")
                return threading.current_thread()

    loop = anyio.run(asked)
    (large, beside), (small, within) = seen
    assert large > 1000 > small
    assert beside is not loop
    assert within is loop
