"""TLS of a broker: the certificate and the key that ``[serve]`` names, and whether it may listen without them."""

from __future__ import annotations

import ssl
from ipaddress import ip_address

from tidegate.errors import SettingError
from tidegate.runs.serve_section import ServeSection

__all__ = ["check_exposure", "has_tls", "load_certificate", "tls_context"]


def has_tls(serve: ServeSection) -> bool:
    """Whether a broker speaks TLS."""
    return serve.certificate is not None or serve.private_key is not None


def check_exposure(serve: ServeSection) -> None:
    """Refuse to listen where others could hear tokens, unless that was said to be wanted."""
    host = serve.listen[0]
    if has_tls(serve) or serve.plain or _is_loopback(host):
        return
    expected = (
        "a certificate and a private_key in [serve] to listen beyond this machine, or plain = true behind a proxy"
    )
    raise SettingError(expected, "neither", host)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def tls_context(serve: ServeSection) -> ssl.SSLContext:
    """The context of connections, with the certificate of the files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, serve)
    return context


def load_certificate(context: ssl.SSLContext, serve: ServeSection) -> None:
    """Use the certificate of the files for connections from now on; if they cannot be used, nothing changes."""
    if serve.certificate is None or serve.private_key is None:
        there = "certificate" if serve.certificate is not None else "private_key"
        raise SettingError("certificate and private_key, both, in [serve]", f"only {there}")
    at = f"{serve.certificate}, {serve.private_key}"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(serve.certificate, serve.private_key, _no_password)
        context.load_cert_chain(serve.certificate, serve.private_key, _no_password)
    except ssl.SSLError as wrong:
        got = (wrong.reason or str(wrong)).lower().replace("_", " ")
        raise SettingError("a certificate and its private key, as PEM", got, at) from None
    except OSError as wrong:
        raise SettingError("files with a certificate and its private key", f"{wrong.strerror}", at) from None


def _no_password() -> bytes:
    """Nobody is there to be asked for the password of a key."""
    return b""
