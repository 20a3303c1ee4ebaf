"""``WebhookUrl``: where deliveries are posted to, read strictly: nothing that two readers could take for two places.

Only plain ASCII is taken, without user, password and fragment; a host is a name of letters, digits and hyphens, or an
address in its one usual form. Resolves no names: what a name stands for is judged when somebody connects.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple

from tidegate.broker.public_addresses import Address, Network, is_permitted, networks_of
from tidegate.errors import SettingError, shown
from tidegate.runs.webhooks_section import WebhooksSection

__all__ = ["PortRange", "UrlRules", "WebhookUrl", "parsed", "rules_of"]

_LONGEST, _LONGEST_NAME = 2048, 253
_URL = re.compile(
    r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?((?:/[!$-;=?A-Z_a-z~%&]*)?(?:\?[!$-;=?A-Z_a-z~%&]*)?)"
)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_DEFAULT = {"http": 80, "https": 443}


class PortRange(NamedTuple):
    """Ports from the first to the last."""

    first: int
    last: int


class UrlRules(NamedTuple):
    """What an operator permits: plain HTTP, ports, and networks that are not public."""

    http: bool
    ports: tuple[PortRange, ...]
    allowed: tuple[Network, ...]


class WebhookUrl(NamedTuple):
    """An address of HTTP in its parts. ``host`` has no brackets; ``target`` is path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def address(self) -> Address | None:
        """The address that the host is, if it is no name."""
        try:
            return IPv6Address(self.host) if ":" in self.host else IPv4Address(self.host)
        except AddressValueError:
            return None


def parsed(url: object, rules: UrlRules) -> WebhookUrl:
    """The parts of a URL; an error if it is none, or one that nobody may post to."""
    if not isinstance(url, str) or len(url) > _LONGEST:
        raise SettingError(f"a URL of at most {_LONGEST:,} characters", shown(url), "url")
    match = _URL.fullmatch(url)
    if match is None:
        expected = "https://, a host in ASCII without user and password, perhaps a port, path and query"
        raise SettingError(expected, shown(url), "url")
    scheme, host, digits, target = match.groups()
    if scheme == "http" and not rules.http:
        raise SettingError("a URL with https, as this broker wants it", shown(url), "url")
    port = _DEFAULT[scheme] if digits is None else int(digits)
    if not any(one.first <= port <= one.last for one in rules.ports):
        ports = ", ".join(f"{one.first}" if one.first == one.last else f"{one.first}-{one.last}" for one in rules.ports)
        raise SettingError(f"a port of {ports}", str(port), "url")
    found = WebhookUrl(scheme, _host(host, url), port, target if target.startswith("/") else f"/{target}")
    address = found.address
    if address is not None and not is_permitted(address, rules.allowed):
        raise SettingError("an address that is public, or that [webhooks] allow has", str(address), "url")
    return found


def _host(given: str, url: str) -> str:
    """The host as it is connected to: an address in its usual form, or a name in small letters."""
    if given.startswith("["):
        try:
            return str(IPv6Address(given[1:-1]))
        except AddressValueError:
            raise SettingError("an address of IPv6 in brackets", shown(url), "url") from None
    name = given.lower()
    labels = name.split(".")
    if labels[-1][:1].isdigit():  # no name ends so, and some readers take it for an address in another form
        try:
            return str(IPv4Address(name))  # which takes four decimal numbers without leading zeros, nothing else
        except AddressValueError:
            raise SettingError("an address of four decimal numbers, or a name", shown(url), "url") from None
    if len(name) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise SettingError("a host of labels with letters, digits and hyphens", shown(url), "url")
    return name


def rules_of(section: WebhooksSection) -> UrlRules:
    """The rules of a TOML file, whose values were checked when it was read."""
    ports = []
    for text in section.ports:
        first, _, last = text.partition("-")
        ports.append(PortRange(int(first), int(last or first)))
    return UrlRules(section.http, tuple(ports), networks_of(section.allow))
