"""TLS: where it must be, what certificates are refused, and a gateway that speaks it and takes another one up."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess

import pytest

import tidegate as tg
from tests.gateway.broker import opened
from tests.gateway.test_http_connection import HEALTH, answer, ended, gateway, run
from tidegate.gateway.certificates import tls_context
from tidegate.gateway.listening import address_of, listening_socket
from tidegate.runs.config import load

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two certificates for localhost, a.pem and b.pem, with their keys, and a key with a password."""
    directory = tmp_path_factory.mktemp("certificates")
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 2 -subj /CN=localhost"
    options += " -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    for name in "ab":
        command = ["openssl", "req", *options.split(), "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem"]
        subprocess.run(command, cwd=directory, check=True, capture_output=True)
    command = ["openssl", "ec", "-aes128", "-passout", "pass:secret", "-in", "a.key", "-out", "locked.key"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)
    return directory


def lines(directory, certificate="a.pem", key="a.key"):
    return f'certificate = "{directory / certificate}"\nprivate_key = "{directory / key}"\n'


def trusting(directory, *names):
    context = ssl.create_default_context()
    for name in names:
        context.load_verify_locations(directory / name)
    return context


def test_a_gateway_speaks_tls_and_takes_up_another_certificate(tmp_path, made):
    async def work():
        settings = lines(made) + "header_seconds = 0.5\n"
        both, only = trusting(made, "a.pem", "b.pem"), trusting(made, "b.pem")
        async with gateway(tmp_path, settings) as found:
            kept = await found.connect(HEALTH, ssl=both, server_hostname="localhost")
            assert (await answer(kept[0]))[0] == 200
            silent = await found.connect()  # no handshake
            plain = await found.connect(HEALTH)
            half = await found.connect(HEALTH[:20], ssl=both, server_hostname="localhost")
            with pytest.raises(ssl.SSLCertVerificationError):
                await found.connect(ssl=only, server_hostname="localhost")

            wrong = load_limits(tmp_path, lines(made, "a.pem", "b.key"))
            found.server.reload(wrong)  # told in the log, and nothing changes
            assert found.broker.limits != wrong
            found.server.reload(load_limits(tmp_path, lines(made, "b.pem", "b.key")))
            assert (await found.ask(HEALTH, ssl=only, server_hostname="localhost"))[0] == 200
            kept[1].write(HEALTH)  # who is connected stays so
            assert (await answer(kept[0]))[0] == 200
            for reader, _ in (silent, plain):
                await ended(reader)
            assert (await answer(half[0]))[0] == 408

    run(work)


def load_limits(directory, text):
    file = directory / "other.toml"
    file.write_text(f'[run]\ndata = "data"\n[serve]\n{text}')
    return load(file).serve


@pytest.mark.parametrize(
    ("certificate", "key", "says"),
    [
        ("a.pem", "b.key", "a certificate and its private key, as PEM; got key values mismatch"),
        ("a.key", "a.pem", "a certificate and its private key, as PEM"),
        ("a.pem", "locked.key", "a certificate and its private key, as PEM"),
        ("none.pem", "a.key", "files with a certificate and its private key; got No such file or directory"),
        (".", "a.key", "a certificate and its private key"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_one_sentence(tmp_path, made, certificate, key, says):
    with pytest.raises(tg.SettingError) as caught:
        tls_context(load_limits(tmp_path, lines(made, certificate, key)))
    assert says in str(caught.value)
    assert str(made / certificate) in str(caught.value)


@pytest.mark.parametrize("name", ["certificate", "private_key"])
def test_one_file_without_the_other_is_refused(tmp_path, name):
    with pytest.raises(tg.SettingError, match=f"expected certificate and private_key, both, .*; got only {name}"):
        tls_context(load_limits(tmp_path, f'{name} = "a.pem"\n'))


# --- where it listens -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listen", "more", "address"),
    [
        ("127.0.0.1:0", "", "http://127.0.0.1:"),
        ("localhost:0", "", "http://localhost:"),
        ("127.0.0.2:0", "", "http://127.0.0.2:"),
        ("0.0.0.0:0", "plain = true\n", "http://localhost:"),
        ("0.0.0.0:0", 'certificate = "a"\nprivate_key = "b"\n', "https://localhost:"),
    ],
)
def test_it_listens_beyond_this_machine_only_with_tls_or_if_that_is_wanted(tmp_path, listen, more, address):
    limits = load_limits(tmp_path, f'listen = "{listen}"\n{more}')
    with listening_socket(limits) as listening:
        assert address_of(listening, limits) == f"{address}{listening.getsockname()[1]}"


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.invalid:0"])
def test_otherwise_it_is_refused(tmp_path, listen):
    host = listen.removesuffix(":0").strip("[]")
    with pytest.raises(tg.SettingError) as caught:
        listening_socket(load_limits(tmp_path, f'listen = "{listen}"\n'))
    expected = (
        "a certificate and a private_key in [serve] to listen beyond this machine, or plain = true behind a proxy"
    )
    assert str(caught.value) == f"expected {expected}; got neither; at {host}"


def test_an_address_that_is_taken_or_not_ours_is_one_sentence(tmp_path):
    with listening_socket(load_limits(tmp_path, "listen = 0\n")) as there:
        port = there.getsockname()[1]
        with pytest.raises(tg.SettingError) as caught:
            listening_socket(load_limits(tmp_path, f"listen = {port}\n"))
    expected = "expected an address of this machine at which nobody else listens; got "
    assert str(caught.value) == f"{expected}Address already in use; at 127.0.0.1:{port}"
    for host in ("192.0.2.1", "example.invalid"):
        with pytest.raises(tg.SettingError, match=f"an address of this machine .*; got .*; at {host}:0"):
            listening_socket(load_limits(tmp_path, f'listen = "{host}:0"\nplain = true\n'))


def test_limits_that_are_read_again_are_those_of_the_next_request(tmp_path):
    with opened(tmp_path) as broker:
        broker.reload(load_limits(tmp_path, "max_bodies = 7\n"))
        assert (broker.limits.max_bodies, broker.budget.most) == (7, 7)


def test_a_reload_comes_while_connections_are_there(tmp_path):
    async def work():
        async with gateway(tmp_path, "max_body = 3\n") as found:
            sent = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd"
            reader, writer = await found.connect(sent)
            assert (await answer(reader))[0] == 413
            found.server.reload(load_limits(tmp_path, "max_body = 4\n"))
            writer.write(sent)
            assert (await answer(reader))[0] == 200

    asyncio.run(work())
