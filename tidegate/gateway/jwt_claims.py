"""What the claims of a JWT mean to a broker, by the section of its issuer: principal, roles, sources, what may be read.

Whose signature it has was looked at before. Whatever is missing allows less, never more. Knows no keys and no database;
the time is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tidegate.errors import SettingError
from tidegate.gateway.jwt_form import Cause, UnverifiedJwt, WrongJwt
from tidegate.principal_names import is_principal_name
from tidegate.runs.issuer_sections import IssuerSection
from tidegate.store.principal_tables import ROLES, Read, checked_sources

__all__ = ["LATEST", "IssuedToken", "issued_token"]

#: Times after the year 9999 are none.
_MICROS = 1_000_000
_LAST_SECOND = 253_402_300_799
LATEST = _LAST_SECOND * _MICROS
_MOST_AUDIENCES = 64
_NOTHING = object()
#: Administrators are made by issuers only where a section says so.
_ROLE_NAMES = {role: role for role in ROLES if role != "administrator"}


class IssuedToken(NamedTuple):
    """What a token of an issuer says, in the broker's words. Times are in microseconds since 1970."""

    section: IssuerSection
    key: str
    """The fingerprint of the key that has signed it."""
    principal: str
    roles: tuple[str, ...]
    sources: tuple[str, ...] | None
    """Patterns of what it may publish as; None if its issuer says nothing of sources: as anything."""
    read: Read | None
    """What it may read; None if its issuer says nothing of that: what its principal may."""
    issued: int
    expires: int
    """When it ends, the skew of clocks included."""

    @property
    def skew(self) -> int:
        """What clocks may differ by, in microseconds."""
        return round(self.section.skew * _MICROS)


def issued_token(jwt: UnverifiedJwt, section: IssuerSection, key: str, now: int) -> IssuedToken:
    """What a token says that a key of its issuer has signed; refused unless it is for us and holds now."""
    claims = jwt.claims
    if not _is_taken(jwt.type, section):
        raise WrongJwt(Cause.TYPE, section.issuer)
    if not _is_for(claims.get("aud"), section):
        raise WrongJwt(Cause.AUDIENCE, section.issuer)
    issued, expires = _held(claims, section, now)
    return IssuedToken(
        section=section,
        key=key,
        principal=_principal(claims, section),
        roles=_roles(claims, section),
        sources=_sources(claims, section),
        read=_read(claims, section),
        issued=issued,
        expires=expires,
    )


def _is_taken(kind: str | None, section: IssuerSection) -> bool:
    """Whether it is of a type that is taken; one that says none is a JWT."""
    said = ("JWT" if kind is None else kind).lower().removeprefix("application/")
    return said in {one.lower().removeprefix("application/") for one in section.types}


def _is_for(audience: Any, section: IssuerSection) -> bool:
    if isinstance(audience, str):
        return audience in section.audience
    if not isinstance(audience, list) or len(audience) > _MOST_AUDIENCES:
        return False
    return all(isinstance(one, str) for one in audience) and not set(section.audience).isdisjoint(audience)


def _held(claims: Mapping[str, Any], section: IssuerSection, now: int) -> tuple[int, int]:
    """Since when and until when it holds."""
    skew = round(section.skew * _MICROS)
    issued, expires = (_time(claims.get(name), section) for name in ("iat", "exp"))
    begins = _time(claims["nbf"], section) if "nbf" in claims else issued
    if expires - issued > section.max_lifetime * _MICROS:
        raise WrongJwt(Cause.LIFETIME, section.issuer)
    if now >= expires + skew:
        raise WrongJwt(Cause.EXPIRED, section.issuer)
    if now < max(issued, begins) - skew:
        raise WrongJwt(Cause.NOT_YET, section.issuer)
    return issued, expires + skew


def _time(value: Any, section: IssuerSection) -> int:
    """A time in microseconds, of a number of seconds since 1970."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LAST_SECOND:  # nor NaN
        raise WrongJwt(Cause.CLAIMS, section.issuer)
    return round(value * _MICROS)


def _principal(claims: Mapping[str, Any], section: IssuerSection) -> str:
    found = _claim(claims, section.principal)
    name = f"{section.prefix}{found}" if isinstance(found, str) and found else ""
    if not is_principal_name(name):
        raise WrongJwt(Cause.PRINCIPAL, section.issuer)
    return name


def _roles(claims: Mapping[str, Any], section: IssuerSection) -> tuple[str, ...]:
    """The roles that are named, by the names that the section gives them; other names are of no concern here."""
    found = _claim(claims, section.roles)
    named = found.split() if isinstance(found, str) else [] if found is _NOTHING or found is None else found
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise WrongJwt(Cause.CLAIMS, section.issuer)
    names = _ROLE_NAMES if section.role_names is None else section.role_names
    meant = {names[one] for one in named if one in names}
    return tuple(role for role in ROLES if role in meant)


def _sources(claims: Mapping[str, Any], section: IssuerSection) -> tuple[str, ...] | None:
    """Where the issuer says what tokens may publish as, one that does not say it may publish as nothing."""
    if section.sources is None:
        return None
    found = _claim(claims, section.sources)
    if found is _NOTHING or found == []:
        return ()
    try:
        return checked_sources([found] if isinstance(found, str) else found)
    except SettingError:
        raise WrongJwt(Cause.CLAIMS, section.issuer) from None


def _read(claims: Mapping[str, Any], section: IssuerSection) -> Read | None:
    """Where the issuer says what tokens may read, one that does not say it is refused: it would read everything."""
    if section.read is None:
        return None
    found = _claim(claims, section.read)
    if not isinstance(found, str | dict | bool):
        raise WrongJwt(Cause.READ, section.issuer)
    return found


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """The claim of a name, or of a path of names with dots between them; ``_NOTHING`` if there is none."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return _NOTHING
        found = found[name]
    return found
