"""Who calls with a JWT that was verified: its principal, made if it is new. Asks the database; works in threads.

``Access`` decides who is asked for when, and how long what is found is believed. Knows no addresses and counts nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from tidegate.errors import StoreError, TidegateError
from tidegate.gateway.caller import Caller
from tidegate.gateway.jwt_claims import LATEST, IssuedToken
from tidegate.gateway.jwt_form import Cause, WrongJwt
from tidegate.gateway.known_tokens import Issued
from tidegate.model import moment
from tidegate.store.issued_principals import Admission, Standing
from tidegate.store.principals import Holder, Principals, Token

__all__ = ["issued_word", "known_caller", "still_admitted", "written_caller"]

#: Hexadecimal digits of the id of a token, which is no secret: nobody finds the token by it.
_DIGITS = 28
_REFUSED = {Standing.FOREIGN: Cause.PRINCIPAL, Standing.OLDER: Cause.OLDER}


def issued_word(principals: Principals, token: IssuedToken) -> Issued:
    """What a JWT that was verified says of its principal; refused if what it lets it read is no filter.

    Its word counts from when it was issued at the earliest: by our clock, with which administrators' words are noted.
    """
    issuer, issued = token.section.issuer, token.issued - token.skew
    try:
        return Issued(token, principals.issued.word(issuer, token.principal, token.read, issued))
    except StoreError:
        raise
    except (TidegateError, UnicodeError):
        raise WrongJwt(Cause.READ, issuer) from None


def known_caller(principals: Principals, secret: str, issued: Issued) -> Caller | None:
    """Who calls with a JWT, if the database agrees with what it says; None if its word must be written first. Refused
    if its principal is another's, or its word is too old.
    """
    (found,) = principals.issued.standings([issued.word])
    return None if found.standing in (Standing.NEW, Standing.NEWER) else _expected(secret, issued, found)


def written_caller(principals: Principals, secret: str, issued: Issued) -> Caller:
    """The same after its word is written, which may wait for others that write."""
    return _expected(secret, issued, principals.issued.admit(issued.word))


def _expected(secret: str, issued: Issued, found: Admission) -> Caller:
    if (cause := _REFUSED.get(found.standing)) is not None:
        raise WrongJwt(cause, issued.word.issuer)
    return _caller(f"jwt-{hashlib.sha256(secret.encode()).hexdigest()[:_DIGITS]}", issued, found)


def still_admitted(principals: Principals, known: Mapping[str, Issued]) -> dict[str, Caller]:
    """Who calls with JWTs that were admitted, by their ids, as the database has it now; without those whose principal
    is gone or another's, or may read something else by now.
    """
    found = principals.issued.standings([one.word for one in known.values()])
    pairs = zip(known.items(), found, strict=True)
    return {id: _caller(id, one, its) for (id, one), its in pairs if its.standing is Standing.AGREES}


def _caller(id: str, issued: Issued, found: Admission) -> Caller:
    token, principal = issued.token, found.principal
    assert principal is not None, "an admission has a principal"
    times = moment(token.issued), moment(min(token.expires, LATEST)), None
    mine = Token(id, principal.name, token.roles, token.sources, *times)
    return Caller(Holder(mine, principal), None if issued.word.read is None else found.meant)
