"""Secrets of tokens: how they are made, and what is stored in place of one.

``Principals`` is the only caller. A secret that is made here has 256 random bits, and a prefix by which it is known.
Nobody can guess one of these, so SHA-256 is kept of it. A secret that somebody chose may be a word with digits, which
a thief of the database would try out; of it scrypt is kept, which takes tens of milliseconds for each try. Its salt is
that of the database and not of the token: a secret must lead to its row by one lookup. This module never shows a
secret, and knows nothing of databases.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections import OrderedDict

from tidegate.errors import SettingError

__all__ = ["LONGEST", "SALT_BYTES", "SecretHashes", "check_chosen", "looks_made", "made"]

_PREFIX = "tdg_"
_RANDOM_BYTES = 32
#: Secrets that are made here, or look like it: all others may be words.
_MADE = re.compile(_PREFIX + "[A-Za-z0-9_-]{43}")
SALT_BYTES = 16
#: Characters of a secret that somebody chose.
_LEAST, LONGEST = 16, 1024
#: Work of scrypt: 16 MiB and some 50 ms.
_N, _R, _P = 2**14, 8, 1
#: So many results of scrypt are remembered in a process.
_REMEMBERED = 1024


def made() -> str:
    """A new secret."""
    return f"{_PREFIX}{secrets.token_urlsafe(_RANDOM_BYTES)}"


def looks_made(secret: str) -> bool:
    """Whether a secret is one that nobody can guess, or looks like it, and not what somebody may have chosen."""
    return _MADE.fullmatch(secret) is not None


def check_chosen(secret: object) -> None:
    """Refuse a secret that nobody may choose."""
    if not isinstance(secret, str) or not all("!" <= character <= "~" for character in secret):
        raise SettingError("visible ASCII characters as a secret", "something else")
    if not _LEAST <= len(secret) <= LONGEST:
        raise SettingError(f"{_LEAST} to {LONGEST} characters as a secret", f"{len(secret)}")


class SecretHashes:
    """What is stored in place of secrets, for the salt of one database.

    Requests carry their secret each time. So a process remembers the last results of scrypt, under digests with a key
    that nobody else has; whether a token of that hash is there the database is asked each time. One thread at a time
    runs scrypt: a flood of wrong secrets takes one core and no more.
    """

    def __init__(self, salt: bytes) -> None:
        self._salt, self._key = salt, secrets.token_bytes(32)
        self._known: OrderedDict[bytes, str] = OrderedDict()
        self._lock, self._turn = threading.Lock(), threading.Lock()

    def __repr__(self) -> str:
        return "SecretHashes()"

    def of(self, secret: str) -> str:
        """The hash of a secret, known or not."""
        text = secret.encode("utf-8", "surrogatepass")[: 4 * LONGEST]
        if looks_made(secret):
            return f"sha256:{hashlib.sha256(text).hexdigest()}"
        place = hmac.digest(self._key, text, "sha256")
        if (known := self._remembered(place)) is not None:
            return known
        with self._turn:
            if (known := self._remembered(place)) is None:
                known = f"scrypt:{hashlib.scrypt(text, salt=self._salt, n=_N, r=_R, p=_P, dklen=32).hex()}"
                with self._lock:
                    self._known[place] = known
                    if len(self._known) > _REMEMBERED:
                        self._known.popitem(last=False)
        return known

    def _remembered(self, place: bytes) -> str | None:
        with self._lock:
            known = self._known.get(place)
            if known is not None:
                self._known.move_to_end(place)
            return known
