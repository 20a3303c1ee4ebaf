"""``Caller``: who makes a request, and what their token and principal allow. Knows no requests and no database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidegate.gateway.problems import RequestError
from tidegate.store.principals import Holder

__all__ = ["CHALLENGE", "Caller"]

#: The headers of an answer that wants a token.
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="tidegate"'}


class Caller(NamedTuple):
    """Who makes a request: its principal, and what its token allows."""

    holder: Holder
    read: str | None = None
    """What its token says that it may read, as it is stored; None if the token says nothing of that."""

    @property
    def name(self) -> str:
        return self.holder.principal.name

    @property
    def token(self) -> str:
        """The id of the token, which is no secret."""
        return self.holder.token.id

    @property
    def quotas(self) -> Mapping[str, float]:
        """The limits of the principal by name; ``quotas.py`` says what each is of."""
        return self.holder.principal.quotas

    @property
    def is_administrator(self) -> bool:
        return self.has("administrator")

    def has(self, role: str) -> bool:
        return role == "any" or role in self.holder.token.roles

    def expect(self, role: str) -> None:
        """Refuse a caller whose token does not have a role."""
        if not self.has(role):
            roles = ", ".join(self.holder.token.roles) or "none"
            raise RequestError(403, "forbidden", f"a token with the role {role}", f"one with {roles}")

    def expect_read(self, read: str | None) -> None:
        """Refuse a caller whose token says something else of what may be read than what its principal may read now."""
        if self.read not in (None, read):
            expected, got = "a token whose word of what may be read is the newest", "one that is older"
            raise RequestError(401, "unauthorized", expected, got, headers=CHALLENGE)

    def may_publish_as(self, source: str) -> bool:
        return self.holder.token.covers(source)
