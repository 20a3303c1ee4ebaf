"""Where the keys of an issuer come from: a file, a URL, or what OpenID Connect has the issuer say of itself.

Every answer is bounded in size and time. Certificates are verified, redirects are not followed, and nothing but https
is spoken beyond this machine. Knows no keys: gives the bytes of a document.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import anyio
import httpcore
import orjson
from anyio.to_thread import run_sync

from tidegate.errors import SettingError, shown
from tidegate.runs.issuer_sections import IssuerSection, is_safe_url

__all__ = ["Fetch", "fetched"]

#: What gives the document with the keys of an issuer, and where it was.
Fetch: TypeAlias = Callable[[IssuerSection], Awaitable[tuple[bytes, str]]]
#: Seconds that one answer may take in all, and bytes that it may have.
_SECONDS, _MOST = 10.0, 256 << 10
_USER_AGENT = b"tidegate"


async def fetched(section: IssuerSection) -> tuple[bytes, str]:
    """The document with the keys of an issuer as it is now."""
    place = section.keys
    if place is not None and "://" not in place:
        return await run_sync(_content, Path(place)), place
    context = await run_sync(_tls, section.ca)
    if place is None:
        place = _place_of_keys(await _get(section.discovery, context), section)
    return await _get(place, context), place


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            found = opened.read(_MOST + 1)
    except OSError as error:
        raise SettingError("a file with the keys of an issuer", error.strerror or str(error), str(file)) from None
    if len(found) > _MOST:
        raise SettingError(f"a file of at most {_MOST:,} bytes", "a larger one", str(file))
    return found


def _tls(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as wrong:
        raise SettingError("a file with certificates (PEM) as ca", f"{wrong}", str(ca)) from None


def _place_of_keys(document: bytes, section: IssuerSection) -> str:
    """Where an issuer says that its keys are; what another issuer says of itself is not believed. One that is asked
    over https names no services of this machine.
    """
    at = section.discovery
    try:
        found = orjson.loads(document)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or found.get("issuer") != section.issuer:
        raise SettingError(f"what {shown(section.issuer)} says of itself", "something else", at)
    place = found.get("jwks_uri")
    taken = ("http", "https") if urlsplit(section.issuer).scheme == "http" else ("https",)
    if not isinstance(place, str) or not is_safe_url(place) or urlsplit(place).scheme not in taken:
        raise SettingError("a jwks_uri of https", shown(place), at)
    return place


async def _get(url: str, context: ssl.SSLContext) -> bytes:
    expected = "the keys of an issuer"
    headers = [(b"Accept", b"application/jwk-set+json, application/json"), (b"User-Agent", _USER_AGENT)]
    try:
        with anyio.fail_after(_SECONDS):
            async with (
                httpcore.AsyncConnectionPool(ssl_context=context, max_connections=1) as pool,
                pool.stream("GET", url, headers=headers) as answer,
            ):
                if answer.status != 200:
                    raise SettingError(expected, f"the status {answer.status}", url)
                found = bytearray()
                async for some in answer.aiter_stream():
                    found += some
                    if len(found) > _MOST:
                        raise SettingError(f"an answer of at most {_MOST:,} bytes", "a longer one", url)
                return bytes(found)
    except TimeoutError:
        raise SettingError(f"{expected} within {_SECONDS:g} seconds", "none", url) from None
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError, ValueError) as wrong:
        if isinstance(wrong, SettingError):
            raise
        raise SettingError(expected, f"{type(wrong).__name__} {wrong}".strip(), url) from None
