"""What a gateway knows of tokens, so that it need not ask the database for each request.

``Access`` fills it and says how long what is known is believed. Of a secret it keeps only a digest with a key of its
own. Used in the event loop of one gateway, by one thread.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.gateway.caller import Caller
from tidegate.gateway.jwt_claims import IssuedToken
from tidegate.store.issued_principals import IssuedWord

__all__ = ["Issued", "KnownToken", "KnownTokens"]


class Issued(NamedTuple):
    """What a JWT said that was verified, and its word of its principal."""

    token: IssuedToken
    word: IssuedWord


@dataclass(slots=True)
class KnownToken:
    """Who holds a token, when the database was asked, and how many changes there had been before that."""

    caller: Caller
    asked_at: float
    changes: int
    issued: Issued | None = None
    """What it said, if it is a JWT; None for a token of Tidegate's own."""
    noted_at: float | None = None
    """When it was last noted in the database that the token is used."""
    is_used: bool = True
    """Whether it was used since."""


class KnownTokens:
    """Tokens by digests of their secrets, and by their ids. Those used longest ago are forgotten beyond ``most``."""

    def __init__(self, most: int) -> None:
        self._most, self._key = most, secrets.token_bytes(32)
        self._by_digest: OrderedDict[bytes, KnownToken] = OrderedDict()
        self._digests: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._by_digest)

    def find(self, secret: str) -> KnownToken | None:
        """What is known of the token that has this secret."""
        return self._by_digest.get(self._digest(secret))

    def of(self, id: str) -> KnownToken | None:
        """What is known of the token of that id, which thereby stays known."""
        digest = self._digests.get(id)
        if digest is None:
            return None
        self._by_digest.move_to_end(digest)
        return self._by_digest[digest]

    def put(self, secret: str, known: KnownToken) -> None:
        digest, id = self._digest(secret), known.caller.token
        self._by_digest[digest], self._digests[id] = known, digest
        self._by_digest.move_to_end(digest)
        if len(self._by_digest) > self._most:
            _, oldest = self._by_digest.popitem(last=False)
            del self._digests[oldest.caller.token]

    def forget(self, secret: str) -> None:
        """Nobody has this secret, any more."""
        known = self._by_digest.pop(self._digest(secret), None)
        if known is not None:
            del self._digests[known.caller.token]

    def issued(self, ids: Iterable[str]) -> dict[str, Issued]:
        """What those of the tokens said that are JWTs."""
        known = ((id, self._digests.get(id)) for id in ids)
        found = {id: self._by_digest[digest].issued for id, digest in known if digest is not None}
        return {id: issued for id, issued in found.items() if issued is not None}

    def renew(self, ids: Iterable[str], callers: Mapping[str, Caller], asked_at: float, changes: int) -> None:
        """Take what the database said of tokens after so many changes: those that it does not have are forgotten."""
        for id in ids:
            digest = self._digests.get(id)
            if digest is None or (known := self._by_digest[digest]).changes > changes:
                continue
            if (caller := callers.get(id)) is None:
                del self._by_digest[digest], self._digests[id]
            else:
                known.caller, known.asked_at, known.changes = caller, asked_at, changes

    def ids(self, *, other_than: int | None = None) -> list[str]:
        """The ids of all tokens; of those only that are not known as they are after so many changes."""
        return [id for id, digest in self._digests.items() if self._by_digest[digest].changes != other_than]

    def all(self) -> Iterable[KnownToken]:
        return self._by_digest.values()

    def _digest(self, secret: str) -> bytes:
        # One of OpenSSL's digests would let another thread run each time, which then does so for milliseconds.
        return hashlib.blake2b(secret.encode("utf-8", "surrogatepass"), digest_size=32, key=self._key).digest()
