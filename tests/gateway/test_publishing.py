"""Publishing over HTTP: what becomes of each item, in all forms of bodies, and what is refused as a whole."""

from __future__ import annotations

import base64
import gc
import io
from functools import partial
from itertools import pairwise
from time import monotonic

import anyio
import orjson
import pyarrow as pa
import pytest

from tests.gateway.broker import client_of, opened, token
from tidegate.gateway.api_request import ApiRequest
from tidegate.gateway.free_room import FreeRoom
from tidegate.gateway.publication_bodies import items_of
from tidegate.store.log_rows import LogRows

ONE = {"id": "a", "source": "z1", "time": "2026-11-01T08:00:00Z", "no2": 41}
NDJSON, EVENT = "application/x-ndjson", "application/cloudevents+json"
EVENTS, ARROW = "application/cloudevents-batch+json", "application/vnd.apache.arrow.stream"
NOW = 1_793_520_000_000_000  # 2026-11-01T08:00:00Z


@pytest.fixture
def post(tmp_path):
    """Post some bodies, as JSON or as pairs of a media type and bytes; the answers, then all rows of the log."""

    def posted(*bodies, text="", headers=None, quotas=None, **token_settings):
        async def asked():
            async with client_of(broker) as client:
                for body in bodies:
                    kind, content = body if isinstance(body, tuple) else ("application/json", orjson.dumps(body))
                    more = who | {"Content-Type": kind} | (headers or {})
                    yielded.append(await client.post("/v1/publications", content=content, headers=more))

        yielded = []
        with opened(tmp_path, text, clock=lambda: NOW) as broker:
            who = token(broker, "ann", ["publisher"], **token_settings)
            if quotas is not None:
                broker.principals.put("ann", quotas=quotas)
            anyio.run(asked)
            with LogRows(broker.data.log) as rows:
                yielded.append(rows.publications(range(broker.log.end)))
            yielded.append(broker.counts.items())
        return yielded

    return posted


def refused(answer):
    return [(one["index"], one["code"]) for one in answer.json()["refused"]]


def problem(answer, status, code):
    found = answer.json()
    assert (answer.status_code, found["status"], found["code"]) == (status, status, code), found


def test_what_is_new_known_and_wrong(post):
    *answers, rows, counts = post(ONE, ONE, {**ONE, "no2": 42}, [{"source": "z1", "no2": 41}, ONE, 5])
    found = [answer.json() for answer in answers]
    assert [answer.status_code for answer in answers] == [202, 202, 422, 202]
    assert found[0] == {"accepted": 1, "duplicates": 0, "refused": [], "ids": {}, "position": 0}
    assert found[1] == {"accepted": 0, "duplicates": 1, "refused": [], "ids": {}, "position": None}
    assert refused(answers[2]) == [(0, "conflict")]
    assert (found[3]["accepted"], found[3]["duplicates"], found[3]["position"]) == (1, 1, 1)
    assert refused(answers[3]) == [(2, "publication")]
    assert list(found[3]["ids"]) == ["0"]
    assert rows[1] == {
        "id": found[3]["ids"]["0"],
        "source": "z1",
        "time": "2026-11-01T08:00:00.000000Z",
        "attributes": {"no2": 41},
    }
    expected = {("published", "accepted", 2), ("published", "duplicate", 2), ("refused", "conflict", 1)}
    assert expected | {("refused", "publication", 1)} <= set(counts)


def test_a_missing_time_equals_a_missing_time(post):
    without = {"id": "a", "source": "z"}
    many = [{"id": f"{i}", "source": "z", "n": i} for i in range(100)]
    first, again, other, one, two, rows, _ = post(without, without, {**ONE, "source": "z"}, many, many)
    assert (first.json()["accepted"], again.json()["duplicates"], refused(other)) == (1, 1, [(0, "conflict")])
    assert (one.json()["accepted"], two.json()["duplicates"], len(rows)) == (100, 100, 101)


def test_objects_within_objects_and_integers(post):
    given = {
        **ONE,
        "air": {"no2": 41, "deep": {"pm": 1.0, "at": {"lon": 8.5, "lat": 46}}, "nothing": {}},
        "attributes": {"n": {"m": 2**60}},
        "when": {"timestamp": "2026-11-01T08:00:00Z"},
        "none": None,
        "series": [1, 2.5],
    }
    answer, rows, _ = post(given)
    assert answer.status_code == 202, answer.text
    assert orjson.dumps(rows[0]["attributes"], option=orjson.OPT_SORT_KEYS) == orjson.dumps(
        {
            "no2": 41,
            "air.no2": 41,
            "air.deep.pm": 1.0,
            "air.deep.at": {"lon": 8.5, "lat": 46.0},
            "n.m": 2**60,
            "when": {"timestamp": "2026-11-01T08:00:00.000000Z"},
            "series": [1, 2.5],
        },
        option=orjson.OPT_SORT_KEYS,
    )


def test_one_bad_item_refuses_itself_only(post):
    nest = {"a": 1}
    for _ in range(20):
        nest = {"a": nest}
    bad = {
        "source": [{**ONE, "source": "x1"}],
        "ahead": [{**ONE, "time": "9999-12-31T23:59:59Z"}, {**ONE, "time": "2026-11-01T08:05:00Z"}],
        "validity": [{**ONE, "valid_until": "2026-12-02T08:00:00Z"}],
        "limit": [
            {**ONE, "nest": nest},
            {"wide": {f"n{i}": i for i in range(2000)}},
            {**ONE, **{f"n{i}": 1 for i in range(1001)}},
            {**ONE, "n" * 1025: 1},
        ],
        "publication": [
            {**ONE, "id": ""},
            {**ONE, "id": 5},
            {**ONE, "source": None},
            {**ONE, "time": "2026-11-01T08:00:00"},
            {**ONE, "n": [1, "x", 3]},
            {**ONE, "a": {"b": 1}, "a.b": 2},
            {**ONE, "": 1},
            {**ONE, "location": {"lon": 181, "lat": 0}},
            {**ONE, "id": "x" * 1025},
            None,
            [],
        ],
    }
    for several in (1, 60):  # few are looked at one by one, many as columns first
        expected = [(code, one) for code, some in bad.items() for one in some]
        good = [{**ONE, "id": f"{several}-{i}"} for i in range(several)]
        answer, rows, counts = post([*good, *(one for _, one in expected)], sources=["z*"])
        assert refused(answer) == [(several + i, code) for i, (code, _) in enumerate(expected)], answer.text
        assert {one["id"] for one in rows} >= {one["id"] for one in good}
        assert ("refused", "ahead", 2) in counts


# --- forms ------------------------------------------------------------------------------------------------------------


def test_lines(post):
    lines = b'{"id":"a","source":"z"}\n\n{"id":"b","source"\r\n{"id":"c\xff","source":"z"}\r\n {"id":"d","source":"z"}'
    answer, none, rows, _ = post((NDJSON, lines), (NDJSON, b"{\n[\n"))
    assert refused(answer) == [(1, "json"), (2, "json")]
    assert [one["id"] for one in rows] == ["a", "d"]
    problem(none, 400, "json")


def test_events(post):
    event = {"specversion": "1.0", "id": "e/1", "source": "urn:z", "type": "seen", "subject": "s", "extra": True}
    event |= {"time": "2026-11-01T07:00:00Z", "validuntil": "2026-11-02T08:00:00Z", "datacontenttype": "x/y"}
    batch = [
        {**event, "id": "b", "data": [1.5, 2.5]},
        {
            **event,
            "id": "c",
            "data_base64": base64.b64encode(b'{"n": 1}').decode(),
            "datacontenttype": "application/json",
        },
        {**event, "id": "d", "data_base64": base64.b64encode("é".encode()).decode(), "datacontenttype": "text/plain"},
        {**event, "id": "f", "data": {"n": 1}, "data_base64": ""},
        {**event, "id": "f", "data_base64": "?"},
        {**event, "specversion": "0.3"},
        {**event, "id": ""},
        {name: value for name, value in event.items() if name != "type"},
        5,
    ]
    first = {**event, "data": {"no2": 41, "location": {"lon": 8.5, "lat": 46.0}, "type": "not this"}}
    one, many, rows, _ = post((EVENT, orjson.dumps(first)), (EVENTS, orjson.dumps(batch)))
    assert (one.status_code, refused(many)) == (202, [(i, "cloudevents") for i in range(3, 9)])
    said = {"type": "seen", "subject": "s", "extra": True}
    assert rows[0] == {
        "id": "e/1",
        "source": "urn:z",
        "time": "2026-11-01T07:00:00.000000Z",
        "valid_until": "2026-11-02T08:00:00.000000Z",
        "location": {"lon": 8.5, "lat": 46.0},
        "attributes": {"no2": 41, **said},
    }
    assert [one["attributes"] for one in rows[1:]] == [
        {"value": [1.5, 2.5], **said},
        {"n": 1, **said},
        {"value": "é", **said},
    ]


def test_events_in_binary_mode(post):
    headers = {"ce-specversion": "1.0", "ce-id": "Euro%20%E2%82%AC%20%F0%9F%98%80", "ce-source": '"a \\"quoted\\" one"'}
    headers |= {"ce-type": "seen", "ce-validuntil": "2026-11-01T09:00:00Z", "ce-level": "5"}
    json, text, wrong, no_json, rows, _ = [
        *post(("application/json", b'{"n": 1}'), ("text/plain", "é".encode()), headers=headers)[:2],
        post(("text/plain", b""), headers=headers | {"ce-type": "%FF"})[0],
        *post(("application/json", b"{"), headers=headers),
    ]
    assert (json.status_code, refused(text), refused(wrong)) == (202, [(0, "conflict")], [(0, "cloudevents")])
    problem(no_json, 400, "json")
    [row] = rows
    assert (row["id"], row["source"], row["attributes"]) == (
        "Euro € 😀",
        'a "quoted" one',
        {"n": 1, "type": "seen", "level": "5"},
    )


def stream_of(table, **options):
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return ARROW, out.getvalue()


def test_arrow(post):
    when = pa.array([NOW * 1000 + 999, NOW * 1000, None, NOW * 1000], pa.timestamp("ns", "Europe/Zurich"))
    table = pa.table(
        {
            "id": ["a", "b", None, "a"],
            "source": pa.array(["z", "z", "z", "z"]).dictionary_encode(),
            "time": when,
            "n": pa.array([1, 2**60, None, 2], pa.int64()),
            "x": pa.array([1.0, 2.5, float("nan"), None]),
            "air": [{"no2": 41, "tags": ["p"]}, None, None, {"no2": None, "tags": None}],
        }
    )
    answer, rows, _ = post(stream_of(table))
    assert refused(answer) == [(2, "publication"), (3, "conflict")], answer.text
    assert [one["attributes"] for one in rows] == [
        {"n": 1, "x": 1.0, "air.no2": 41, "air.tags": ["p"]},
        {"n": 2**60, "x": 2.5},
    ]


def test_arrow_that_is_none_or_too_much(post):
    good = pa.table({"id": ["a"], "source": ["z"]})
    whole = stream_of(good)[1]
    bombs = [
        pa.table({"source": pa.array(["z"] * 9, pa.string_view())}),
        pa.table({"source": ["z"], "n": pa.array([[None] * 9])}),
        pa.table({"source": ["z"], "n": pa.array([b"x"])}),
        pa.table({"source": pa.RunEndEncodedArray.from_arrays([1000], ["z"])}),
    ]
    large = pa.DictionaryArray.from_arrays(pa.array([0] * 200, pa.int32()), ["x" * (1 << 20)])
    few = "[serve]\nmax_publications = 1000\n"
    answers = post(
        (ARROW, b"x"),
        (ARROW, whole[:-20]),
        (ARROW, b""),
        stream_of(good, compression="zstd"),
        stream_of(pa.table({"source": ["z"] * 1001})),
        stream_of(pa.table({f"n{i}": pa.array([True] * 1000) for i in range(60)})),
        stream_of(pa.table({"source": large})),
        *map(stream_of, bombs),
        text=few,
    )
    expected = [(400, "arrow")] * 3 + [(415, "encoding")] + [(413, "too_large")] * 3 + [(422, "arrow")] * 4
    for answer, (status, code) in zip(answers[:-2], expected, strict=True):
        problem(answer, status, code)
    assert answers[-2] == []


# --- what is too large ------------------------------------------------------------------------------------------------


def sized(size, id, **more):
    """An item of so many bytes."""
    item = {"id": id, "source": "z1", "text": "", **more}
    item["text"] = "x" * (size - len(orjson.dumps(item)))
    return orjson.dumps(item)


def test_a_publication_that_is_too_large_refuses_itself_only(post):
    fits, large, event = partial(sized, 200), partial(sized, 201), {"specversion": "1.0", "type": "t"}
    spaced = b'{"id": "c",' + 200 * b" " + b'"source": "z1"}'
    binary = {"ce-specversion": "1.0", "ce-id": "j", "ce-source": "z1", "ce-type": "t"}
    rows = pa.table({"id": ["h", "i"], "source": ["z1", "z1"], "t": [200 * "x", 10 * "x"]})
    bodies = [
        ("application/json", b"[ %b ,%b, %b]" % (large("a"), fits("b"), spaced)),
        ("application/json", large("a")),
        ("application/json", fits("d")),
        (NDJSON, b"\n".join([large("a"), b"{", fits("e")])),
        (NDJSON, large("a") + b"\n{"),
        (EVENTS, b"[%b,%b]" % (large("a", **event), fits("f", **event))),
        (EVENT, large("a", **event)),
        (EVENT, fits("g", **event)),
        stream_of(rows),
    ]
    *answers, logged, _ = post(*bodies, text="[serve]\nmax_publication = 200\n")
    assert [(answer.status_code, refused(answer)) for answer in answers] == [
        (202, [(0, "limit"), (2, "limit")]),
        (422, [(0, "limit")]),
        (202, []),
        (202, [(0, "limit"), (1, "json")]),
        (422, [(0, "limit"), (1, "json")]),
        (202, [(0, "limit")]),
        (422, [(0, "limit")]),
        (202, []),
        (202, [(0, "limit")]),
    ]
    assert answers[1].json()["refused"][0]["detail"] == "expected a publication of at most 200 bytes; got 201"
    assert [row["id"] for row in logged] == ["b", "d", "e", "f", "g", "i"]
    answer, *_ = post(("application/json", 201 * b" " + b"5"), headers=binary, text="[serve]\nmax_publication = 200\n")
    assert (answer.status_code, refused(answer)) == (422, [(0, "limit")])


# --- what is refused as a whole ---------------------------------------------------------------------------------------


def test_bodies_that_are_none(post):
    answers = post(
        ("application/json", b""),
        ("application/json", b'{"id":'),
        ("application/json", b'[{"id":"\xff","source":"z"}]'),
        ("application/json", b"[" * 100_000),
        ("application/json", b'{"a":' * 100_000),
        ("application/json", b'[{"n": NaN}]'),
        (EVENT, b"x"),
        (EVENTS, b"[" * 100_000),
    )
    for answer in answers[:-2]:
        problem(answer, 400, "json")
    *answers, rows, _ = post((EVENTS, b"{}"), ("text/csv", b"id,source\n"), 5, "text", [])
    problem(answers[0], 422, "cloudevents")
    problem(answers[1], 415, "content_type")
    assert [answer.status_code for answer in answers[2:]] == [422, 422, 202]
    assert rows == []


def test_too_much_at_once(post):
    text = "[serve]\nmax_publications = 3\nmax_body = 200000\n"
    many = post(
        [ONE] * 4,
        ("application/json", b"[" + b"{}," * 60_000 + b"{}]"),
        (NDJSON, b"\n" * 7),
        ("application/json", b"[" * 190_000),
        text=text,
    )
    for answer in many[:-2]:
        problem(answer, 413, "too_large")
    problem(post(("application/json", b" " * 200_001), text=text)[0], 413, "too_large")
    headers = {f"ce-{name}": "1.0" for name in ("specversion", "id", "source", "type")}
    problem(
        post(("application/json", b"[" + b"[]," * 60_000 + b"[]]"), text=text, headers=headers)[0], 413, "too_large"
    )


def test_others_are_served_while_a_few_bytes_of_arrow_become_many_objects(tmp_path):
    empty = pa.StructArray.from_buffers(pa.struct([]), 50_000, [None])
    kind, body = stream_of(pa.table({f"c{i}": empty for i in range(20)}))
    turns = list[float]()

    async def take_turns():
        while True:
            turns.append(monotonic())
            await anyio.sleep(0.001)

    async def asked():
        request = ApiRequest({"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode())]}, receive)
        request.broker = broker
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_turns)
            await anyio.sleep(0.01)
            with broker.budget.lent() as request.loan:
                began = monotonic()
                assert len(await items_of(request)) == 50_000
                took = monotonic() - began
            await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        assert len(body) < 10_000
        assert max(after - before for before, after in pairwise(turns)) < took / 2

    async def receive():
        return {"type": "http.request", "body": body}

    gc.disable()  # gateways look for cycles seldom
    try:
        with opened(tmp_path) as broker:
            anyio.run(asked)
    finally:
        gc.enable()


def test_as_many_in_a_second_as_the_quota_says(post):
    first, second, rows, counts = post(
        [{**ONE, "id": f"{i}"} for i in range(9)], ONE, quotas={"publications_per_second": 5}
    )
    assert first.status_code == 202
    problem(second, 429, "rate")
    assert 0 < int(second.headers["retry-after"]) <= 2
    assert len(rows) == 9
    assert ("refused", "rate", 1) in counts


def test_a_disk_that_is_nearly_full(tmp_path):
    free, moment, asked = [0.04, 0.06], 0.0, []

    def share(path):
        asked.append(path)
        return free[len(asked) - 1]

    async def twice():
        nonlocal moment
        async with client_of(broker) as client:
            answers = [await client.post("/v1/publications", json=ONE, headers=headers) for _ in range(2)]
            answers.append(await client.delete("/v1/publications/z1/a", headers=headers))
            moment = 1.0
            return [*answers, await client.post("/v1/publications", json=ONE, headers=headers)]

    with opened(tmp_path) as broker:
        headers = token(broker, "ann", ["publisher"])
        broker.free_room = FreeRoom(broker.data.path, share, lambda: moment)
        *full, last = anyio.run(twice)
        for answer in full:
            problem(answer, 507, "full")
        assert last.status_code == 202
        assert asked == [broker.data.path] * 2
        assert ("refused", "full", 3) in broker.counts.items()


# --- unpublishing -----------------------------------------------------------------------------------------------------


def test_unpublishing(tmp_path):
    async def asked():
        async with client_of(broker) as client:
            await client.post("/v1/publications", json=[{"id": "a/.b", "source": "z/1"}], headers=headers)
            await client.post("/v1/publications", json=[{"id": "..", "source": "y"}], headers=headers)
            places = ("/v1/publications/z%2F1/a%2F.b", "/v1/publications?source=y&id=..", "/v1/publications/x/a")
            return [(await client.delete(place, headers=headers)).status_code for place in (*places, *places)]

    with opened(tmp_path) as broker:
        headers = token(broker, "ann", ["publisher"], sources=["y*", "z*"])
        assert anyio.run(asked) == [204, 204, 403, 404, 404, 403]
