"""What every request goes through: routes by raw paths, who calls, limits, and errors as problem details."""

from __future__ import annotations

import gzip

import anyio
import httpx
import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response

from tests.gateway.broker import opened, token
from tidegate.gateway.access import Access
from tidegate.gateway.api_request import json_response
from tidegate.gateway.application import Application
from tidegate.gateway.bodies import BodyBudget, read_body
from tidegate.gateway.deadlines import Deadlines
from tidegate.gateway.parameters import LIMIT
from tidegate.gateway.problems import RequestError
from tidegate.gateway.rates import Rates
from tidegate.gateway.routes import Route, Routes


class Body(msgspec.Struct, forbid_unknown_fields=True):
    number: int
    name: str = ""


async def shown(request):
    return json_response({"named": request.named, "query": request.query, "who": request.caller.name})


async def read(request):
    return json_response({"number": (await request.read(Body)).number})


async def failing(request):
    raise RuntimeError("secret detail")


async def slow(request):
    await anyio.sleep(5)
    return Response()


def route(method, path, handler, role="any", **more):
    return Route(method=method, path=path, handler=handler, summary="", role=role, answers={}, **more)


ROUTES = Routes(
    [
        route("GET", "/v1/things", shown, query=(LIMIT,)),
        route("GET", "/v1/things/{id}", shown),
        route("DELETE", "/v1/things/{source}/{id}", shown, ids_in_query=True),
        route("POST", "/v1/things", read, "publisher"),
        route("GET", "/v1/failing", failing, None),
        route("GET", "/v1/slow", slow, None),
    ]
)


@pytest.fixture
def ask(tmp_path):
    """Ask a broker whose file has some lines more; as ann, who may subscribe and publish."""

    def asked(method, path, text="", roles=("subscriber", "publisher"), **more):
        async def once():
            with opened(tmp_path, text) as broker:
                headers = token(broker, "ann", roles) | more.pop("headers", {})
                transport = httpx.ASGITransport(Application(broker, ROUTES))
                async with httpx.AsyncClient(transport=transport, base_url="http://broker") as client:
                    return await client.request(method, path, headers=headers, **more)

        return anyio.run(once)

    return asked


def problem_of(answer, status, code):
    found = answer.json()
    assert (answer.status_code, found["status"], found["code"]) == (status, status, code), found
    assert answer.headers["content-type"] == "application/problem+json"
    assert found["detail"].startswith(f"expected {found['expected']}; got {found['got']}")
    return found


def test_a_path_is_split_before_it_is_decoded(ask):
    assert ask("GET", "/v1/things/a%2Fb%20%C3%A9").json()["named"] == {"id": "a/b é"}
    assert ask("DELETE", "/v1/things/x/%252e").json()["named"] == {"source": "x", "id": "%2e"}
    found = ask("DELETE", "/v1/things?source=x%2Fy&id=..").json()
    assert (found["named"], found["query"]) == ({}, {"source": "x/y", "id": ".."})


def test_paths_that_are_none(ask):
    problem_of(ask("GET", "/v1/nothing"), 404, "not_found")
    problem_of(ask("GET", "/v1/things/%2e%2e"), 400, "path")
    problem_of(ask("GET", "/v1/things/%ff"), 400, "path")
    answer = ask("PUT", "/v1/things")
    problem_of(answer, 405, "method")
    assert answer.headers["allow"] == "DELETE, GET, POST"


def test_a_query_has_only_what_the_route_knows(ask):
    assert ask("GET", "/v1/things").json()["query"] == {"limit": 100}
    assert ask("GET", "/v1/things?limit=7").json()["query"] == {"limit": 7}
    for query in ("limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "lmit=1", "limit=%C2%B2"):
        problem_of(ask("GET", f"/v1/things?{query}"), 422, "parameter")
    problem_of(ask("GET", "/v1/things?limit=%ff"), 400, "parameter")
    problem_of(ask("GET", "/v1/things?limit"), 400, "parameter")


def test_who_calls_and_whether_they_may(ask):
    assert ask("GET", "/v1/things").json()["who"] == "ann"
    answer = ask("GET", "/v1/things", headers={"Authorization": "Bearer tdg_wrong"})
    problem_of(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"] == 'Bearer realm="tidegate"'
    problem_of(ask("GET", "/v1/things", headers={"Authorization": "Basic x"}), 401, "unauthorized")
    problem_of(ask("GET", "/v1/things?access_token=x", headers={"Authorization": "Bearer"}), 401, "unauthorized")
    found = problem_of(ask("POST", "/v1/things", json={"number": 1}, roles=["subscriber"]), 403, "forbidden")
    assert found["expected"] == "a token with the role publisher"


def test_bodies_within_limits(ask):
    assert ask("POST", "/v1/things", json={"number": 1}).json() == {"number": 1}
    packed = gzip.compress(b'{"number": 2}')
    assert ask("POST", "/v1/things", content=packed, headers={"Content-Encoding": "gzip"}).json() == {"number": 2}
    problem_of(ask("POST", "/v1/things", content=packed[:-4], headers={"Content-Encoding": "gzip"}), 400, "body")
    problem_of(ask("POST", "/v1/things", content=b"x", headers={"Content-Encoding": "gzip"}), 400, "body")
    problem_of(ask("POST", "/v1/things", content=packed + packed, headers={"Content-Encoding": "gzip"}), 400, "body")
    problem_of(ask("POST", "/v1/things", content=b"x", headers={"Content-Encoding": "br"}), 415, "encoding")
    objects = "[serve]\nmax_publications = 3\n"
    problem_of(ask("POST", "/v1/things", objects, content=b"[" * 100_000), 413, "too_large")
    assert ask("POST", "/v1/things", json={"number": 3, "name": 70_000 * "x"}).json() == {"number": 3}
    few = "[serve]\nmax_body = 100\n"
    problem_of(ask("POST", "/v1/things", few, content=b" " * 101), 413, "too_large")
    bomb = gzip.compress(b" " * 10_000_000)
    problem_of(
        ask("POST", "/v1/things", few, content=bomb[:99], headers={"Content-Encoding": "gzip"}), 413, "too_large"
    )
    busy = "[serve]\nmax_bodies = 100\n"
    answer = ask("POST", "/v1/things", busy, content=b" " * 101)
    problem_of(answer, 503, "busy")
    assert answer.headers["retry-after"] == "1"


def test_others_have_their_turn_while_a_body_is_decompressed(tmp_path):
    async def turns():
        async def take_turns():
            while True:
                taken.append(None)
                await anyio.sleep(0)

        async def receive():
            return {"type": "http.request", "body": packed}

        request = Request({"type": "http", "headers": [(b"content-encoding", b"gzip")]}, receive)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_turns)
            with BodyBudget(1 << 30).lent() as loan:
                assert len(await read_body(request, loan, 1 << 24, Deadlines(), 30)) == 1 << 24
            tasks.cancel_scope.cancel()

    packed, taken = gzip.compress(bytes(1 << 24)), []
    anyio.run(turns)
    assert len(taken) > 100


def test_bodies_that_are_not_as_they_should_be(ask):
    problem_of(ask("POST", "/v1/things", content=b"{"), 400, "json")
    problem_of(ask("POST", "/v1/things", content=b'{"number": 1, "name": "\xff"}'), 400, "json")
    problem_of(ask("POST", "/v1/things", content=b"[" * 100_000), 422, "body")
    problem_of(ask("POST", "/v1/things", content=b'{"x":' * 100_000), 422, "body")
    problem_of(ask("POST", "/v1/things", content=b'{"number":' * 100_000), 422, "body")
    found = problem_of(ask("POST", "/v1/things", json={"number": "1"}), 422, "body")
    assert (found["expected"], found["at"]) == ("an object with number, name", "number")


def test_what_fails_tells_nothing_of_itself(ask, caplog):
    found = problem_of(ask("GET", "/v1/failing"), 500, "internal")
    assert "secret" not in str(found)
    assert "secret detail" in caplog.text


def test_a_request_that_takes_too_long(ask):
    problem_of(ask("GET", "/v1/slow", "[serve]\nrequest_seconds = 0.01\n"), 503, "slow")


def test_pages_of_other_origins(ask):
    text, there = '[serve]\norigins = ["https://a.example"]\n', {"Origin": "https://a.example"}
    assert ask("GET", "/v1/things", text, headers=there).headers["access-control-allow-origin"] == "https://a.example"
    assert (
        "access-control-allow-origin"
        not in ask("GET", "/v1/things", text, headers={"Origin": "https://b.example"}).headers
    )
    answer = ask("OPTIONS", "/v1/things/x", text, headers=there)
    assert (answer.status_code, answer.headers["access-control-allow-methods"]) == (204, "GET, OPTIONS")
    assert "access-control-allow-methods" not in ask("OPTIONS", "/v1/things/x", text).headers


def test_rates_owe_what_was_taken_beyond_them():
    moment = 0.0
    rates = Rates(lambda: moment, most=2)
    assert rates.take("a", 10, 25) == 0
    assert rates.take("a", 10) == pytest.approx(1.6)
    moment = 1.55
    assert rates.take("a", 10) == 0
    assert rates.take("b", 10, 11) == rates.take("c", 10) == 0
    assert rates.take("a", 10) == 0  # forgotten for b and c


def test_what_is_known_of_a_token_is_believed_for_less_than_a_second(tmp_path):
    async def asked():
        with opened(tmp_path) as broker:
            made = broker.principals.make_token("ann", ["subscriber"])
            moment = 0.0
            access = Access(broker.principals, clock=lambda: moment)
            assert (await access.caller(made.secret, "here")).name == "ann"
            broker.principals.revoke(made.id)
            assert access.find(made.secret).name == "ann"
            moment = 0.75
            assert access.find(made.secret) is None
            with pytest.raises(RequestError, match="Bearer"):
                await access.caller(made.secret, "here")

    anyio.run(asked)
