"""What a JWT says before anybody has looked whether it is true: its three parts, taken apart strictly (RFC 7515, 7519).

The work is bounded by the length, which is looked at first. Everything that two programs could read in two ways is
refused: members that stand twice, numbers that JSON does not have, characters that base64url does not have. Knows no
keys, no issuer and no clock.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import urlsafe_b64decode
from enum import StrEnum
from typing import Any, NamedTuple

from tidegate.gateway.problems import RequestError

__all__ = ["Cause", "UnverifiedJwt", "WrongJwt", "looks_like_jwt", "unverified"]

#: How the header of a JWT begins, ``{"``, and how its parts are written.
_BEGIN = "eyJ"
_PART = re.compile("[A-Za-z0-9_-]*")
#: How deep objects and lists may stand in each other.
_DEEPEST = 32
_LONGEST_NAME = 256


class Cause(StrEnum):
    """Why a JWT is refused. Each is counted."""

    FORM = "form"
    """It is no signed JWT, or none that can be read in one way only."""
    TYPE = "type"
    """It is a JWT for something else, or wants what is not known here (``typ``, ``crit``)."""
    ISSUER = "issuer"
    """No issuer of that name is known here."""
    KEY = "key"
    """The issuer has no key of that id for that algorithm, or the algorithm is not taken."""
    SIGNATURE = "signature"
    AUDIENCE = "audience"
    EXPIRED = "expired"
    NOT_YET = "not_yet"
    LIFETIME = "lifetime"
    """It holds for longer than tokens of this issuer may."""
    CLAIMS = "claims"
    """A claim that is needed is missing, or is of another kind."""
    READ = "read"
    """Its claim says in no way that can be understood what may be read."""
    PRINCIPAL = "principal"
    """The principal has no such name, or belongs to somebody else than this issuer."""
    OLDER = "older"
    """A later word than this token says that the principal may read something else."""


#: What a caller is told of a token that is refused; of other causes only that it is.
_TOLD = {
    Cause.KEY: "a JWT whose signature is by no key of the issuer",
    Cause.SIGNATURE: "a JWT whose signature is by no key of the issuer",
    Cause.ISSUER: "a JWT of another issuer",
    Cause.AUDIENCE: "a JWT for another audience",
    Cause.EXPIRED: "a JWT that has expired",
    Cause.NOT_YET: "a JWT that does not hold yet",
}


class WrongJwt(RequestError):
    """A JWT is not taken. Says nothing of what is in it."""

    def __init__(self, cause: Cause, issuer: str | None = None) -> None:
        super().__init__(401, "unauthorized", "Authorization: Bearer and a token", _TOLD.get(cause, "another"))
        self.cause, self.issuer = cause, issuer


class UnverifiedJwt(NamedTuple):
    """What a JWT says. Nothing of it is known to be true."""

    algorithm: str
    key: str | None
    """The id of the key that it claims to be signed with."""
    type: str | None
    issuer: str
    claims: dict[str, Any]
    signed: bytes
    """What the signature is of."""
    signature: bytes


def looks_like_jwt(secret: str) -> bool:
    """Whether a secret is to be taken for a JWT rather than for a token of Tidegate's own."""
    return secret.startswith(_BEGIN) and "." in secret


def unverified(text: str, longest: int) -> UnverifiedJwt:
    """Take a JWT of at most so many characters apart."""
    if len(text) > longest:
        raise WrongJwt(Cause.FORM)
    parts = text.split(".")
    if len(parts) != 3:  # five are encrypted, which nobody here can read
        raise WrongJwt(Cause.FORM)
    header, claims = _object(parts[0]), _object(parts[1])
    algorithm, issuer = header.get("alg"), claims.get("iss")
    key, kind = header.get("kid"), header.get("typ")
    if not isinstance(algorithm, str) or not isinstance(issuer, str):
        raise WrongJwt(Cause.FORM)
    if any(name in header and not isinstance(header[name], str) for name in ("kid", "typ")):  # null is no text
        raise WrongJwt(Cause.FORM)
    if key is not None and len(key) > _LONGEST_NAME:
        raise WrongJwt(Cause.FORM)
    if "crit" in header or "b64" in header or _is_nested(header):  # what must be understood, and is not
        raise WrongJwt(Cause.TYPE)
    signed = f"{parts[0]}.{parts[1]}".encode("ascii")
    return UnverifiedJwt(algorithm, key, kind, issuer, claims, signed, _decoded(parts[2]))


def _is_nested(header: dict[str, Any]) -> bool:
    return "enc" in header or (isinstance(kind := header.get("cty"), str) and kind.upper() == "JWT")


def _decoded(part: str) -> bytes:
    """The bytes of a part; without padding, and with nothing left over, so that nothing else has the same bytes."""
    if not _PART.fullmatch(part) or len(part) % 4 == 1:
        raise WrongJwt(Cause.FORM)
    try:
        found = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except binascii.Error:
        raise WrongJwt(Cause.FORM) from None
    if part and len(part) % 4 and _rest(part):
        raise WrongJwt(Cause.FORM)
    return found


_ALPHABET = {c: i for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")}


def _rest(part: str) -> int:
    """The bits of the last character that belong to no byte."""
    return _ALPHABET[part[-1]] & (0b1111 if len(part) % 4 == 2 else 0b11)


def _object(part: str) -> dict[str, Any]:
    """The JSON object of a part."""
    try:
        found = json.loads(_decoded(part).decode("utf-8"), object_pairs_hook=_members, parse_constant=_constant)
        is_deep = _is_deep(found)
    except (ValueError, RecursionError):
        raise WrongJwt(Cause.FORM) from None
    if not isinstance(found, dict) or is_deep:
        raise WrongJwt(Cause.FORM)
    return found


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member that stands twice")
    return found


def _constant(name: str) -> Any:
    raise ValueError(f"{name}, which JSON does not have")


def _is_deep(value: Any) -> bool:
    """Whether objects and lists stand in each other more than ``_DEEPEST`` times."""
    here: list[Any] = [value]
    for _ in range(_DEEPEST):
        here = [one for some in here if isinstance(some, dict | list) for one in _inside(some)]
        if not here:
            return False
    return any(isinstance(one, dict | list) for one in here)


def _inside(some: dict[str, Any] | list[Any]) -> list[Any]:
    return list(some.values()) if isinstance(some, dict) else some
