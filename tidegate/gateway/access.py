"""Who calls, and what they may do: tokens, roles and sources.

``Access`` finds who holds the token of a request. What a process knows of a token it believes for a second, so a token
that was revoked or changed is refused by all gateways within that time. A caller who comes with wrong tokens has to
wait after a few, whatever tokens others have. Knows nothing of HTTP but the headers that carry tokens.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from time import monotonic
from typing import NamedTuple

from tidegate.errors import shown
from tidegate.gateway.problems import RequestError
from tidegate.gateway.rates import Rates
from tidegate.store.principals import Holder, Principals

__all__ = ["Access", "Caller", "bearer_of"]

_AUDIT = logging.getLogger("tidegate.audit")
#: Seconds for which a process believes what it knows of a token, and how many tokens it knows.
_BELIEVED, _MOST_KNOWN = 1.0, 100_000
#: Wrong tokens that an address may bring in a second before it has to wait.
_WRONG_PER_SECOND = 5.0
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="tidegate"'}


class Caller(NamedTuple):
    """Who makes a request: its principal, and what its token allows."""

    holder: Holder

    @property
    def name(self) -> str:
        return self.holder.principal.name

    @property
    def token(self) -> str:
        """The id of the token, which is no secret."""
        return self.holder.token.id

    @property
    def quotas(self) -> Mapping[str, float]:
        return self.holder.principal.quotas

    def has(self, role: str) -> bool:
        return role == "any" or role in self.holder.token.roles

    def expect(self, role: str) -> None:
        """Refuse a caller whose token does not have a role."""
        if not self.has(role):
            roles = ", ".join(self.holder.token.roles)
            raise RequestError(403, "forbidden", f"a token with the role {role}", f"one with {roles}")

    def may_publish_as(self, source: str) -> bool:
        return self.holder.token.covers(source)


class _Known(NamedTuple):
    caller: Caller
    until: float


class Access:
    """Finds callers. ``find`` looks into what is known and may be called in the event loop; ``look_up`` asks the
    database, which takes a while, above all for secrets that somebody chose.
    """

    def __init__(self, principals: Principals, clock: Callable[[], float] = monotonic) -> None:
        self._principals, self._clock = principals, clock
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._wrong = Rates(clock)

    def find(self, secret: str, address: str) -> Caller | None:
        """Who holds a secret, if that is known; None if the database must be asked. Refuses an address that has to
        wait.
        """
        known = self._known.get(_place(secret))
        if known is not None and self._clock() < known.until:
            return known.caller
        if (wait := self._wrong.wait(address, _WRONG_PER_SECOND)) > 0:
            headers = {"Retry-After": str(max(1, round(wait)))}
            raise RequestError(429, "rate", "a token that there is", "many that there are not", headers=headers)
        return None

    def look_up(self, secret: str) -> Caller | None:
        """Ask the database who holds a secret. May be called by any thread."""
        holder = self._principals.holder(secret)
        return None if holder is None else Caller(holder)

    def note(self, secret: str, address: str, caller: Caller | None) -> Caller:
        """Note what the database said, and refuse who is nobody. Called in the event loop."""
        place = _place(secret)
        if caller is None:
            self._known.pop(place, None)
            self._wrong.take(address, _WRONG_PER_SECOND)
            _AUDIT.warning("a token that there is not, from %s", address)
            raise nobody("another")
        self._known[place] = _Known(caller, self._clock() + _BELIEVED)
        self._known.move_to_end(place)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return caller

    def forget(self) -> None:
        """Ask the database again for every token: principals or tokens were changed here."""
        self._known.clear()


def _place(secret: str) -> bytes:
    """Under what a secret is known: no secret is kept."""
    return hashlib.blake2b(secret.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def bearer_of(header: str | None) -> str | None:
    """The secret of an ``Authorization`` header; None without one."""
    if header is None:
        return None
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise nobody(f"the scheme {shown(scheme)}" if scheme.lower() != "bearer" else "none after Bearer")
    return secret.strip()


def nobody(got: str) -> RequestError:
    """The request says not, or wrongly, who makes it."""
    return RequestError(401, "unauthorized", "Authorization: Bearer and a token", got, headers=_CHALLENGE)
