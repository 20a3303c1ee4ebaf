"""Signatures of Standard Webhooks: headers by which a receiver knows that a request is from this broker, and when.

Each secret gives a signature of the id, the time and the body, so while a secret is rotated there are two. Knows
nothing of requests.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Sequence

from tidegate.store.webhook_secrets import key_of

__all__ = ["signature", "signature_headers"]


def signature(secret: str, id: str, timestamp: int, body: bytes) -> str:
    """The signature, version 1, of a request; ``timestamp`` is in seconds since 1970."""
    signed = b"%b.%d.%b" % (id.encode(), timestamp, body)
    return f"v1,{b64encode(hmac.digest(key_of(secret), signed, 'sha256')).decode()}"


def signature_headers(secrets: Sequence[str], id: str, timestamp: int, body: bytes) -> list[tuple[str, str]]:
    """The headers of a request that is signed with all of the secrets."""
    signatures = " ".join(signature(secret, id, timestamp, body) for secret in secrets)
    return [("webhook-id", id), ("webhook-timestamp", str(timestamp)), ("webhook-signature", signatures)]
