"""``Caller``: who makes a request, and what their token and principal allow. Knows no requests and no database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidegate.gateway.problems import RequestError
from tidegate.store.principals import Holder

__all__ = ["Caller"]


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
            roles = ", ".join(self.holder.token.roles)
            raise RequestError(403, "forbidden", f"a token with the role {role}", f"one with {roles}")

    def may_publish_as(self, source: str) -> bool:
        return self.holder.token.covers(source)
