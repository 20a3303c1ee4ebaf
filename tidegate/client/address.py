"""Where a broker is and how it is talked to: URL, token, TLS, times.

The token is in no text of it. A proxy of the environment is used only for brokers that are not on this machine.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from ipaddress import ip_address
from math import isfinite
from urllib.parse import urlsplit

from tidegate.client.token_source import GivenToken, checked_token
from tidegate.errors import SettingError, shown

__all__ = ["BrokerAddress"]


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker, and how long it may take."""

    url: str
    token: GivenToken = field(repr=False)
    tls: ssl.SSLContext | None = field(repr=False)
    timeout: float
    """Seconds that one attempt of a request may take."""
    deadline: float
    """Seconds that a request may take with all its attempts."""
    heartbeat: float
    """Seconds of silence after which a connection is asked whether it lives; after three times as many it does not."""

    @staticmethod
    def of(
        url: str, token: GivenToken, *, ca: str | None, timeout: float, deadline: float, heartbeat: float
    ) -> BrokerAddress:
        """The address that somebody gives; ``ca`` is a file with the certificates that are trusted."""
        for name, seconds in (("timeout", timeout), ("deadline", deadline), ("heartbeat", heartbeat)):
            if (
                isinstance(seconds, bool)
                or not isinstance(seconds, int | float)
                or not seconds > 0
                or not isfinite(seconds)
            ):
                raise SettingError(f"seconds, more than 0, as {name}", shown(seconds))
        if not callable(token):
            checked_token(token)
        checked = _checked(url)
        tls = _tls(ca) if checked.startswith("https:") else None
        if ca is not None and tls is None:
            raise SettingError("a URL that begins with https://, for a file of certificates", shown(url))
        return BrokerAddress(checked, token, tls, float(timeout), float(deadline), float(heartbeat))

    @property
    def websocket(self) -> str:
        """The URL of the WebSocket."""
        return f"ws{self.url.removeprefix('http')}/v1/ws"

    @property
    def is_local(self) -> bool:
        """Whether the broker is on this machine."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")


def _checked(url: str) -> str:
    expected = "the URL of a broker such as http://127.0.0.1:8400"
    if not isinstance(url, str):
        raise SettingError(expected, shown(url))
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as wrong:
        raise SettingError(expected, f"one where {wrong}") from None
    if parts.username is not None or parts.password is not None:
        raise SettingError(f"{expected}, without a name or password in it", "one with them")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise SettingError(expected, shown(url))
    return url.rstrip("/")


def _tls(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as wrong:
        raise SettingError("a file with certificates (PEM) as ca", f"{shown(ca)}: {wrong}") from None
