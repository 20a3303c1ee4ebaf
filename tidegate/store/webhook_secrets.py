"""Secrets with which deliveries to webhooks are signed: how they are made, and which ones somebody may choose.

They have the form of Standard Webhooks, ``whsec_`` and Base64. Unlike the secret of a token, one of these is stored as
it is, since each delivery is signed with it; no error, text or log has one. Knows nothing of databases.
"""

from __future__ import annotations

import binascii
import secrets
from base64 import b64decode, b64encode

from tidegate.errors import SettingError

__all__ = ["key_of", "made"]

_PREFIX = "whsec_"
#: Bytes of a secret: those of one that is made here, and what the specification allows.
_RANDOM_BYTES, _LEAST, _MOST = 32, 24, 64


def made() -> str:
    """A new secret."""
    return _PREFIX + b64encode(secrets.token_bytes(_RANDOM_BYTES)).decode()


def key_of(secret: object) -> bytes:
    """The bytes with which a secret signs; an error, which does not show it, if it is none."""
    try:
        if isinstance(secret, str) and secret.startswith(_PREFIX):
            found = b64decode(secret.removeprefix(_PREFIX), validate=True)
            if _LEAST <= len(found) <= _MOST:
                return found
    except (binascii.Error, ValueError):
        pass
    raise SettingError(f"{_PREFIX} and {_LEAST} to {_MOST} bytes in Base64 as a secret", "something else", "secret")
