"""Where a client goes and where it does not: URLs, certificates, redirects, proxies; settings that are none."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from contextlib import aclosing, closing
from shutil import which

import pytest

import tidegate as tg
from tests.client.fake_broker import FakeBroker
from tests.client.in_thread import broker_in_thread

TOKEN = "a-token-of-a-test"


@pytest.mark.parametrize(
    ("url", "settings", "told"),
    [
        ("ws://127.0.0.1", {}, "the URL of a broker"),
        ("http://", {}, "the URL of a broker"),
        ("http://[::1", {}, "the URL of a broker"),
        ("http://127.0.0.1:99999", {}, "the URL of a broker"),
        ("http://127.0.0.1/?access_token=x", {}, "the URL of a broker"),
        (7, {}, "the URL of a broker"),
        ("http://ann:secret-word@127.0.0.1", {}, "without a name or password"),
        ("http://127.0.0.1", {"token": ""}, "a token"),
        ("http://127.0.0.1", {"token": "secret-word\r\nX: y"}, "a token"),
        ("http://127.0.0.1", {"timeout": 0}, "seconds, more than 0, as timeout"),
        ("http://127.0.0.1", {"heartbeat": float("nan")}, "seconds, more than 0, as heartbeat"),
        ("http://127.0.0.1", {"ca": "ca.pem"}, "https"),
        ("https://127.0.0.1", {"ca": "no-such-file.pem"}, "certificates"),
    ],
)
def test_what_is_no_address_is_refused_at_once(url, settings, told):
    with pytest.raises(tg.SettingError, match=told) as caught:
        tg.connect(url, **{"token": TOKEN, **settings})
    assert "secret-word" not in str(caught.value)


def test_what_is_no_choice_is_refused():
    with tg.connect("http://127.0.0.1:9", token=TOKEN) as client:
        for wrong in (
            lambda: client.publish([], in_flight=0),
            lambda: next(client.notifications(acknowledge="never")),
            lambda: next(client.notifications(room=0)),
            lambda: next(client.notifications(after="x-y")),
            lambda: client.subscribe("", "a = 1"),
            lambda: client.explain({"id": "p"}),
            lambda: client.rehearse("a = 1", id="s1"),
        ):
            with pytest.raises(tg.SettingError):
                wrong()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of this machine that signs itself, and its key."""
    directory = tmp_path_factory.mktemp("certificates")
    paths = directory / "certificate.pem", directory / "key.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, *names, "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True)
    return paths


@pytest.mark.skipif(which("openssl") is None, reason="makes a certificate with openssl")
def test_certificates_are_checked_for_requests_and_reading(certificate):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)

    async def run():
        async with FakeBroker(tls=tls) as broker:
            await broker.tell(1)
            async with tg.connect(broker.url, token=TOKEN, ca=certificate[0]) as client:
                assert (await client.publish({"source": "z"})).accepted == 1
                async with aclosing(client.notifications()) as items:
                    assert (await anext(items)).number == 1
            known = len(broker.requests)
            async with tg.connect(broker.url, token=TOKEN) as client:
                with pytest.raises(tg.BrokerError, match="a certificate that is trusted"):
                    await client.publish({"source": "z"})
                with pytest.raises(tg.BrokerError, match=r"(?i)certificate"):
                    await anext(client.notifications())
            assert len(broker.requests) == known

    asyncio.run(run())


def test_proxies_of_the_environment_are_not_for_this_machine(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.lower(), "http://127.0.0.1:9")
    with broker_in_thread() as (broker, loop), tg.connect(broker.url, token=TOKEN, deadline=1.0) as client:
        asyncio.run_coroutine_threadsafe(broker.tell(1), loop).result()
        assert client.publish({"source": "z"}).accepted == 1
        with closing(client.notifications()) as items:
            assert next(items).number == 1


def test_redirects_are_not_followed():
    with broker_in_thread() as (broker, _), tg.connect(broker.url, token=TOKEN, deadline=0.2) as client:
        broker.answers["GET", "/v1/status"] = 307, {}
        with pytest.raises(tg.BrokerError, match="307"):
            client.status()
        assert len(broker.requests) == 1
