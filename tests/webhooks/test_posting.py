"""One request, whatever is at the other end: every ending has a cause, comes in time, and reads little of an answer."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_network

import httpcore
import pytest

from tests.webhooks.receiver import receiving
from tidegate.broker.webhook_url import PortRange, UrlRules, parsed
from tidegate.errors import SettingError
from tidegate.runs.webhooks_section import WebhooksSection
from tidegate.webhooks.pinned_connections import PinnedBackend
from tidegate.webhooks.posting import OUTCOMES, Patience, Poster
from tidegate.webhooks.sender import _tls

RULES = UrlRules(True, (PortRange(1, 65_535),), (ip_network("127.0.0.0/8"),))


USUAL, CONTEXT = Patience(5, 5), httpcore.default_ssl_context()


def resolve(host, port):
    if host == "unknown.example":
        raise OSError("no such name")
    return ["127.0.0.1"]


@asynccontextmanager
async def serving(talk):
    """A server that treats each connection so; its port."""
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def post(url, *, context=None, patience=USUAL, count=1, talk=None):
    """The outcomes of requests, over one poster."""

    async def once():
        with ThreadPoolExecutor(1) as threads:
            network = PinnedBackend(RULES.allowed, threads, resolve)
            poster = Poster(context or CONTEXT, patience)
            if talk is None:
                found = [await poster.post(parsed(url, RULES), [], b"{}", network) for _ in range(count)]
            else:
                async with serving(talk) as port:
                    there = parsed(url.format(port=port), RULES)
                    found = [await poster.post(there, [], b"{}", network) for _ in range(count)]
            await poster.close()
            return found

    found = asyncio.run(once())
    assert all(one.cause in OUTCOMES for one in found)
    assert all((one.failure is None) == (one.cause == "answered") for one in found)
    return found


def says(answer, *, closes=True):
    """A server that reads a request and answers these bytes."""

    async def talk(reader, writer):
        try:
            while True:
                await reader.readuntil(b"{}")
                writer.write(answer)
                await writer.drain()
                if closes:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    return talk


ANSWERS = {
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok": ("answered", b"ok"),
    b"HTTP/1.1 204 No Content\r\n\r\n": ("answered", b""),
    b"HTTP/1.0 202 ok\r\n\r\nuntil the end": ("answered", b"until the end"),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n": ("answered", b"ok"),
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n": ("answered", b""),
    b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n": ("gone", b""),
    b"HTTP/1.1 301 There\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n": ("redirect", b""),
    b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n": ("status", b""),
    b"HTTP/1.1 500 Error\r\nContent-Length: 3\r\n\r\nbad": ("status", b"bad"),
    b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n": ("protocol", b""),
    b"": ("protocol", b""),
    b"SSH-2.0-OpenSSH_9.6\r\n": ("protocol", b""),
    b"HTTP/1.1 two hundred\r\n\r\n": ("protocol", b""),
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!": ("protocol", b""),
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort": ("protocol", b""),
    b"HTTP/1.1 200 OK\r\n" + 20_000 * b"X-Long: abcdefgh\r\n" + b"\r\n": ("protocol", b""),
    b"\xff\xfe\x00\x01" * 100: ("protocol", b""),
}


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: repr(answer[:40]))
def test_what_an_answer_means(answer):
    (found,) = post("http://here.example:{port}/", talk=says(answer))
    assert (found.cause, found.body) == ANSWERS[answer]


def test_little_is_read_of_a_long_answer_and_the_connection_is_not_used_again():
    sent = []

    async def talk(reader, writer):
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        try:
            while True:
                writer.write(bytes(65_536))
                await writer.drain()
                sent.append(65_536)
        except ConnectionError:
            pass
        finally:
            writer.close()

    found = post("http://here.example:{port}/", talk=talk, count=2)
    assert [(one.cause, len(one.body)) for one in found] == 2 * [("answered", 4096)]
    assert sum(sent) < 100_000_000


async def _silent(reader, writer):
    await reader.read()
    writer.close()


async def _drips(reader, writer):
    """A header a byte at a time, for ever: no single read takes long."""
    try:
        for byte in b"HTTP/1.1 200 OK\r\nX: " + 10_000 * b"a":
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.02)
    except ConnectionError:
        pass
    finally:
        writer.close()


async def _continues(reader, writer):
    """Interim answers for ever."""
    try:
        await reader.readuntil(b"{}")
        while True:
            writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


@pytest.mark.parametrize("talk", [_silent, _drips, _continues])
def test_who_takes_too_long_is_cut_off(talk):
    (found,) = post("http://here.example:{port}/", talk=talk, patience=Patience(0.2, 0.3))
    assert found.cause == "timeout"


def test_names_that_nobody_knows_and_ports_where_nobody_listens():
    assert [one.cause for one in post("http://unknown.example/")] == ["name"]
    assert [one.cause for one in post("http://here.example:1/")] == ["connection"]


def test_a_connection_that_was_closed_while_nobody_used_it_is_no_failure():
    """The server closes after each answer, without saying so."""
    asked = []

    async def talk(reader, writer):
        await reader.readuntil(b"{}")
        asked.append(1)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    found = post("http://here.example:{port}/", talk=talk, count=5)
    assert [one.cause for one in found] == 5 * ["answered"]
    assert len(asked) == 5


@pytest.mark.parametrize(
    ("given", "low", "high"),
    [
        ("0", 0, 0),
        ("120", 120, 120),
        ("99999999", 99_999_999, 99_999_999),
        ("in an hour", 3_000, 3_600),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
    ],
)
def test_how_long_a_receiver_asks_to_wait(given, low, high):
    given = given.replace("in an hour", format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True))
    answer = f"HTTP/1.1 503 Busy\r\nRetry-After: {given}\r\nContent-Length: 0\r\n\r\n".encode()
    (found,) = post("http://here.example:{port}/", talk=says(answer))
    assert low <= found.failure.retry_after <= high


@pytest.mark.parametrize("given", ["", "soon", "-5", "1e9", "99999999999999999999", "Wed, 99 Foo", "١٢"])
def test_what_is_no_time_to_wait_is_left_out(given):
    answer = f"HTTP/1.1 503 Busy\r\nRetry-After: {given}\r\nContent-Length: 0\r\n\r\n".encode()
    (found,) = post("http://here.example:{port}/", talk=says(answer))
    assert (found.cause, found.failure.retry_after) == ("status", None)


# --- TLS ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for the host hooks.example."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    directory = tmp_path_factory.mktemp("certificate")
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 2 -subj /CN=hooks.example -nodes"
    options += " -addext subjectAltName=DNS:hooks.example -keyout key.pem -out cert.pem"
    subprocess.run(["openssl", "req", *options.split()], cwd=directory, check=True, capture_output=True)
    return directory


def test_certificates_are_verified_for_the_name_whatever_address_it_has(certificate):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    names = []
    server.sni_callback = lambda _, name, __: names.append(name)
    trusting = _tls(WebhooksSection(authorities=str(certificate / "cert.pem")))
    with receiving(ssl=server) as receiver:
        good, other = (f"https://{name}.example:{receiver.port}/a" for name in ("hooks", "other"))
        found = post(good, context=trusting, count=2)
        assert [one.cause for one in found] == ["answered", "answered"]
        assert names == ["hooks.example"]
        assert [one.cause for one in post(other, context=trusting)] == ["tls"]
        assert [one.cause for one in post(good)] == ["tls"]
        assert len(receiver.received) == 2
        (plain,) = post(f"http://hooks.example:{receiver.port}/a")
        assert plain.failure is not None


def test_authorities_that_cannot_be_read_are_one_sentence(tmp_path):
    (tmp_path / "wrong.pem").write_text("no certificate")
    for name in ("none.pem", "wrong.pem"):
        with pytest.raises(SettingError, match="expected a file of certificates in PEM as authorities"):
            _tls(WebhooksSection(authorities=str(tmp_path / name)))
