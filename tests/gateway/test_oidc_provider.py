"""Tokens of a provider of OpenID Connect that others have written: client credentials, discovery, rotation of keys."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import jwt
import pytest
from jwt.algorithms import get_default_algorithms

from tests.gateway.issuing import SigningKey
from tests.gateway.live_broker import live
from tests.parts.machine import alone, program
from tests.parts.tied_process import tied

pytestmark = pytest.mark.services

PACKAGE = "oidc-provider@9.13.3"
AUDIENCE = "https://broker.example"
SCRIPT = Path(__file__).with_name("oidc_provider.mjs")
KEYS = {"ES256": "P-256", "RS256": "RSA", "EdDSA": "Ed25519"}


@pytest.fixture(scope="module")
def provider():
    """Where the package is, installed if need be into a directory beside those of other tests."""
    program("node", "nodejs")
    npm = shutil.which("npm") or pytest.skip("npm is not installed")
    place = Path(tempfile.gettempdir()) / f"tidegate-tests-{PACKAGE.replace('@', '-')}-{os.geteuid()}"
    found = place / "node_modules" / "oidc-provider" / "lib" / "index.js"
    with alone("npm"):
        if not (place / "whole").exists():
            command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(place), PACKAGE]
            place.mkdir(exist_ok=True)
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            if done.returncode or not found.exists():
                pytest.skip(f"{PACKAGE} cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
            (place / "whole").touch()
    return found


def private(key):
    """A private key as a JWK."""
    found = get_default_algorithms()[key.algorithm].to_jwk(key.private, as_dict=True)
    found.pop("key_ops", None)  # "sign", which the provider would say of the public half as well
    return {**found, "kid": key.id, "use": "sig", "alg": key.algorithm}


class RunningProvider:
    """A provider; ``sign_with`` has it sign with the first of some keys and name all of them."""

    def __init__(self, settings, port, process):
        self.settings, self.process = settings, process
        self.issuer = f"http://127.0.0.1:{port}"

    def sign_with(self, *keys):
        write(self.settings, *keys)
        self.process.stdin.write("again\n")
        self.process.stdin.flush()
        self.ready()

    def ready(self):
        for line in self.process.stdout:
            if line == "ready\n":
                return
        pytest.fail("the provider has ended")

    def token(self, scope="subscriber publisher", audience=AUDIENCE):
        form = {"grant_type": "client_credentials", "scope": scope, "resource": audience}
        answer = httpx.post(f"{self.issuer}/token", data=form, auth=("sensor", "a-secret-of-a-test"), timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()["access_token"]


def write(settings, *keys):
    settings.write_text(json.dumps({"keys": [private(one) for one in keys], "alg": keys[0].algorithm}))


@contextmanager
def running(package, directory, *keys):
    settings = directory / "provider.json"
    write(settings, *keys)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = tied([shutil.which("node"), str(SCRIPT), str(package), str(port), str(settings)])
    with (
        (directory / "provider.log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            found = RunningProvider(settings, port, process)
            found.ready()
            yield found
        finally:
            process.terminate()
            process.wait(20)


def section(provider, **more):
    lines = {"issuer": provider.issuer, "audience": AUDIENCE, "roles": "scope", "sources": "sources", **more}
    return "\n[[issuers]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_token_of_client_credentials_does_what_its_scopes_and_claims_say(provider, tmp_path, algorithm):
    key = SigningKey("one", KEYS[algorithm], algorithm)
    with running(provider, tmp_path, key) as login:
        token = login.token()
        assert jwt.get_unverified_header(token) == {"alg": algorithm, "kid": "one", "typ": "at+jwt"}
        text = section(login, read="https://broker.example/read")
        with live(tmp_path, text) as broker, httpx.Client(base_url=broker.url, timeout=30) as client:
            mine = bearer(token)
            body = [{"id": "p", "source": "hut-1", "kind": kind} for kind in "ab"]
            body += [{"id": "q", "source": "hut-1", "kind": "b"}, {"id": "r", "source": "lake", "kind": "a"}]
            answer = client.post("/v1/publications", json=[body[0], *body[2:]], headers=mine).json()
            assert (answer["accepted"], [one["code"] for one in answer["refused"]]) == (2, ["source"])
            found = client.get("/v1/publications", headers=mine).json()["publications"]
            assert [one["id"] for one in found] == ["p"]
            assert client.get("/v1/principals/sensor", headers=mine).json()["issuer"] == login.issuer
            assert client.get("/v1/publications", headers=bearer(login.token("publisher"))).status_code == 403
            other = client.get("/v1/publications", headers=bearer(login.token(audience="https://other.example")))
            assert (other.status_code, other.json()["got"]) == (401, "a JWT for another audience")
            status = client.get("/v1/status", headers=broker.token("root", "administrator")).json()["issuers"][0]
            assert (status["state"], status["key_ids"], status["place"]) == ("known", ["one"], f"{login.issuer}/jwks")


def test_its_keys_are_rotated_and_it_may_be_away(provider, tmp_path):
    one, two = SigningKey("one"), SigningKey("two", "RSA")
    with (
        running(provider, tmp_path, one) as login,
        live(tmp_path, section(login, refresh=1)) as broker,
        httpx.Client(base_url=broker.url, timeout=30) as client,
    ):

        def status_of(token):
            return client.get("/v1/publications", headers=bearer(token)).status_code

        def until(token, wanted):
            due = time.monotonic() + 60
            while (found := status_of(token)) != wanted:
                assert time.monotonic() < due, found
                time.sleep(0.3)

        old = login.token()
        assert status_of(old) == 200
        login.sign_with(two, one)  # the new one signs, tokens of the old one still hold
        new = login.token()
        assert jwt.get_unverified_header(new)["kid"] == "two"
        until(new, 200)
        assert status_of(old) == 200
        login.sign_with(two)
        until(old, 401)
        assert status_of(new) == 200
        later = login.token()
        login.process.terminate()
        login.process.wait(20)
        assert (status_of(new), status_of(later)) == (200, 200)
