"""The token of the first administrator: made once, or what the environment variable ``TIDEGATE_TOKEN`` says.

Only hashes are stored, so a token that was made is given to be shown once. That of the environment holds from each
start on; when it changes, the one before it is revoked. ``DIR/run/token`` has the id of that one, which is no secret.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from tidegate.errors import ConflictError, TidegateError
from tidegate.store.data_directory import DataDirectory
from tidegate.store.principal_tables import ROLES
from tidegate.store.principals import Principals
from tidegate.store.version_readers import now

__all__ = ["VARIABLE", "FirstToken", "first_token"]

VARIABLE = "TIDEGATE_TOKEN"
_PRINCIPAL, _ADMINISTRATOR = "admin", "administrator"
_FILE = "token"


class FirstToken(NamedTuple):
    """``made`` is the secret of a token that was made now; ``is_given`` if the environment gave one."""

    made: str | None
    is_given: bool


def first_token(principals: Principals, data: DataDirectory, environment: Mapping[str, str] = os.environ) -> FirstToken:
    """Take the token of the environment; without one, make one if no administrator has any."""
    if given := environment.get(VARIABLE, ""):
        _take(principals, data, given)
        return FirstToken(None, True)
    if any(_ADMINISTRATOR in token.roles and token.holds_at(now()) for token in principals.tokens()):
        return FirstToken(None, False)
    return FirstToken(principals.make_token(_PRINCIPAL, ROLES).secret, False)


def _take(principals: Principals, data: DataDirectory, given: str) -> None:
    holder = principals.holder(given)
    if holder is not None and _ADMINISTRATOR not in holder.token.roles:
        expected = f"the token of an administrator, or a new one, in {VARIABLE}"
        raise ConflictError(expected, f"one of {holder.principal.name} that allows less")
    note = data.run / _FILE
    before = note.read_text().strip() if note.exists() else ""
    id = _made(principals, given) if holder is None else holder.token.id
    if holder is not None and id != before:
        id = ""  # another token of an administrator, which is not ours to revoke
    if before != id:
        note.write_text(id)
        with suppress(TidegateError):  # it was revoked before
            if before:
                principals.revoke(before)


def _made(principals: Principals, given: str) -> str:
    try:
        return principals.make_token(_PRINCIPAL, ROLES, secret=given).id
    except TidegateError as wrong:
        wrong.at = VARIABLE
        raise
