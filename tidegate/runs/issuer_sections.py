"""The sections ``[[issuers]]`` of a TOML file: whose JWTs a broker takes, and what their claims mean to it.

Checks what can be checked without asking anybody. The keys of an issuer are fetched by the gateways, who also read the
claims; nothing of cryptography is known here but the names of algorithms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from tidegate.errors import shown
from tidegate.principal_names import is_principal_name
from tidegate.runs.toml_sections import KeyPosition, count, key, location, number, section, table, text, texts

__all__ = ["ALGORITHMS", "IssuerSection", "is_safe_url", "issuer_sections"]

#: Signatures by a private key whose public half is in the keys of the issuer. There is none without a signature, and
#: none by a secret that both sides have: who knows the public key could make these.
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
_ROLES = ("subscriber", "publisher", "administrator")
_MOST_ISSUERS, _LONGEST_NAME = 64, 1024
_DAY, _HOUR, _FIVE_MINUTES = 86_400.0, 3_600.0, 300.0


def _names(value: Any, at: KeyPosition) -> tuple[str, ...]:
    """A text, or a list of them, at least one."""
    found = (text(value, at),) if isinstance(value, str) else texts(value, at)
    if not found:
        raise at.wrong("text, or a list of text that is not empty", value)
    return found


def _algorithms(value: Any, at: KeyPosition) -> tuple[str, ...]:
    found = _names(value, at)
    for one in found:
        if one not in ALGORITHMS:
            raise at.wrong(f"some of {', '.join(ALGORITHMS)}", one)
    return found


def _issuer(value: Any, at: KeyPosition) -> str:
    found = text(value, at)
    if len(found) > _LONGEST_NAME:
        raise at.wrong(f"the name of an issuer of at most {_LONGEST_NAME} characters", value)
    return found


def is_safe_url(url: str) -> bool:
    """Whether nobody on the way can change what comes from a URL: it is one of https, or of this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if parts.username is not None or parts.password is not None or not host:
        return False
    if parts.scheme == "https":
        return True
    try:
        return parts.scheme == "http" and ip_address(host).is_loopback
    except ValueError:
        return parts.scheme == "http" and host == "localhost"


def _keys(value: Any, at: KeyPosition) -> str:
    """A file, or a URL that nobody can answer but the issuer."""
    found = location(value, at)
    if "://" in found and not is_safe_url(found):
        raise at.wrong("a file, or a URL of https (or of http on this machine)", value)
    return found


def _prefix(value: Any, at: KeyPosition) -> str:
    if value != "" and not is_principal_name(value):
        raise at.wrong("characters that the names of principals have, or none", value)
    return str(value)


def _role_names(value: Any, at: KeyPosition) -> dict[str, str]:
    found = table(value, at)
    for name, role in found.items():
        if role not in _ROLES:
            raise at.key(name).wrong(f"one of {', '.join(_ROLES)}", role)
    return found


@dataclass(frozen=True)
class IssuerSection:
    """An issuer, how its keys are come by, and what the claims of its tokens mean. Times are in seconds."""

    issuer: str = key(_issuer)
    audience: tuple[str, ...] = key(_names)
    keys: str | None = key(_keys, None)
    ca: str | None = key(location, None)
    algorithms: tuple[str, ...] = key(_algorithms, ALGORITHMS)
    types: tuple[str, ...] = key(_names, ("at+jwt", "JWT"))
    skew: float = key(number, 30.0)
    max_lifetime: float = key(number, _DAY)
    max_length: int = key(count, 8192)
    refresh: float = key(number, _FIVE_MINUTES)
    outage: float = key(number, _HOUR)
    principal: str = key(text, "sub")
    prefix: str = key(_prefix, "")
    roles: str = key(text, "roles")
    role_names: Mapping[str, str] | None = key(_role_names, None)
    sources: str | None = key(text, None)
    read: str | None = key(text, None)

    @property
    def discovery(self) -> str:
        """Where OpenID Connect has the issuer say what its keys are."""
        return f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"


def issuer_sections(given: Any, at: KeyPosition) -> tuple[IssuerSection, ...]:
    """The issuers of a file. No two have a name, and no two can name the same principal."""
    if not isinstance(given, list) or len(given) > _MOST_ISSUERS:
        raise at.wrong(f"at most {_MOST_ISSUERS} sections [[issuers]]", given)
    places = [at._replace(name=f"issuers[{place}]") for place in range(len(given))]
    found = [section(IssuerSection, one, place) for one, place in zip(given, places, strict=True)]
    for before, (one, place) in enumerate(zip(found, places, strict=True)):
        if one.keys is None and not is_safe_url(one.discovery):
            raise place.key("keys").wrong("keys, for an issuer that is no URL of https", one.issuer)
        for other in found[:before]:
            if one.issuer == other.issuer:
                raise place.key("issuer").wrong("an issuer that no section before it has", one.issuer)
            if one.prefix.startswith(other.prefix) or other.prefix.startswith(one.prefix):
                expected = f"a prefix that does not begin as that of {shown(other.issuer)}, {shown(other.prefix)}"
                raise place.key("prefix").wrong(expected, one.prefix)
    return tuple(found)
