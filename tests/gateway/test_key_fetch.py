"""How the keys of an issuer are fetched: from files and URLs, by discovery, and what is refused on the way."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.gateway.issuing import SigningKey, private_key
from tidegate.errors import SettingError
from tidegate.gateway import key_fetch
from tidegate.gateway.key_fetch import fetched
from tidegate.runs.issuer_sections import IssuerSection

KEYS = json.dumps({"keys": [SigningKey("one").public()]}).encode()


class Certificate(NamedTuple):
    """Files with a certificate of this machine, by nobody but itself, and its key."""

    certificate: Path
    key: Path


@pytest.fixture
def certificate(tmp_path):
    key, now = private_key("P-256", 9), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "login")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
    made = made.add_extension(names, False).add_extension(x509.BasicConstraints(True, None), True)
    found = Certificate(tmp_path / "login.pem", tmp_path / "login.key")
    found.certificate.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    found.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return found


class Place:
    """A server of HTTP: what it answers by path, a status with headers and a body."""

    def __init__(self):
        self.answers, self.asked, self.release = {}, [], threading.Event()

    def answer(self, path, body, status=200, **headers):
        self.answers[path] = status, headers, body


@contextmanager
def serving(tls=None):
    place = Place()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            place.asked.append(self.path)
            status, headers, body = place.answers.get(self.path, (404, {}, b""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                if callable(body):
                    body(self.wfile)
                else:
                    self.wfile.write(body)
            except OSError:
                return

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    place.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    try:
        yield place
    finally:
        place.release.set()
        server.shutdown()
        thread.join()
        server.server_close()


def section(issuer="https://login.example", **more):
    return IssuerSection(issuer=issuer, audience=("a",), **more)


def get(wanted):
    return asyncio.run(fetched(wanted))


def test_from_a_file(tmp_path):
    (tmp_path / "keys.json").write_bytes(KEYS)
    assert get(section(keys=str(tmp_path / "keys.json"))) == (KEYS, str(tmp_path / "keys.json"))
    with pytest.raises(SettingError, match=r"got No such file or directory; at .*none\.json"):
        get(section(keys=str(tmp_path / "none.json")))
    (tmp_path / "large.json").write_bytes(b" " * 300_000)
    with pytest.raises(SettingError, match="at most 262,144 bytes"):
        get(section(keys=str(tmp_path / "large.json")))


def test_from_a_url_and_no_other():
    with serving() as here, serving() as there:
        here.answer("/keys", KEYS)
        there.answer("/keys", KEYS)
        assert get(section(keys=f"{here.url}/keys")) == (KEYS, f"{here.url}/keys")
        here.answer("/moved", b"", 302, Location=f"{there.url}/keys")
        with pytest.raises(SettingError, match="got the status 302"):
            get(section(keys=f"{here.url}/moved"))
        assert there.asked == []
        for status in (204, 401, 500):
            here.answer("/wrong", KEYS if status != 204 else b"", status)
            with pytest.raises(SettingError, match=f"got the status {status}"):
                get(section(keys=f"{here.url}/wrong"))


def test_by_discovery():
    with serving() as here:
        issuer = f"{here.url}/realm"
        here.answer("/keys", KEYS)
        place = "/realm/.well-known/openid-configuration"
        here.answer(place, json.dumps({"issuer": issuer, "jwks_uri": f"{here.url}/keys"}).encode())
        assert get(section(issuer)) == (KEYS, f"{here.url}/keys")
        for said, wrong in (
            ({"issuer": "https://evil.example", "jwks_uri": f"{here.url}/keys"}, "says of itself; got something else"),
            ({"jwks_uri": f"{here.url}/keys"}, "says of itself; got something else"),
            ([], "says of itself; got something else"),
            ({"issuer": issuer}, "a jwks_uri of https; got None"),
            ({"issuer": issuer, "jwks_uri": "http://login.example/keys"}, "a jwks_uri of https"),
            ({"issuer": issuer, "jwks_uri": "file:///etc/passwd"}, "a jwks_uri of https"),
            ({"issuer": issuer, "jwks_uri": "https://a:b@login.example/keys"}, "a jwks_uri of https"),
        ):
            here.answer(place, json.dumps(said).encode())
            with pytest.raises(SettingError, match=wrong):
                get(section(issuer))
        here.answer(place, b"no JSON")
        with pytest.raises(SettingError, match="something else"):
            get(section(issuer))


def test_an_issuer_elsewhere_names_no_service_of_this_machine(monkeypatch):
    asked = []

    async def get_(url, _):
        asked.append(url)
        return json.dumps({"issuer": "https://login.example", "jwks_uri": "http://127.0.0.1:1/keys"}).encode()

    monkeypatch.setattr(key_fetch, "_get", get_)
    with pytest.raises(SettingError, match="a jwks_uri of https"):
        get(section())
    assert asked == ["https://login.example/.well-known/openid-configuration"]


def test_an_answer_that_is_too_long_or_never_ends_is_cut_off(monkeypatch):
    def drip(file):
        for _ in range(1000):
            file.write(b" ")
            file.flush()
            if here.release.wait(0.02):
                return

    with serving() as here:
        here.answer("/long", b" " * 300_000)
        with pytest.raises(SettingError, match="at most 262,144 bytes"):
            get(section(keys=f"{here.url}/long"))
        monkeypatch.setattr(key_fetch, "_SECONDS", 0.3)
        here.answer("/drip", drip)
        with pytest.raises(SettingError, match=r"within 0\.3 seconds; got none"):
            get(section(keys=f"{here.url}/drip"))


def test_nobody_there():
    with serving() as here:
        url = here.url
    with pytest.raises(SettingError, match="the keys of an issuer; got ConnectError"):
        get(section(keys=f"{url}/keys"))


def test_certificates_are_verified(certificate):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate.certificate, certificate.key)
    with serving(tls) as here:
        here.answer("/keys", KEYS)
        with pytest.raises(SettingError, match="CERTIFICATE_VERIFY_FAILED"):
            get(section(keys=f"{here.url}/keys"))
        assert get(section(keys=f"{here.url}/keys", ca=str(certificate.certificate)))[0] == KEYS
        with pytest.raises(SettingError, match=r"certificates \(PEM\) as ca"):
            get(section(keys=f"{here.url}/keys", ca=str(certificate.key)))
        with pytest.raises(SettingError, match=r"certificates \(PEM\) as ca"):
            get(section(keys=f"{here.url}/keys", ca="/nowhere"))
