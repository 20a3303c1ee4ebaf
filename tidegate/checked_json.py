"""JSON objects with a checksum of their own, for small files in which a flipped bit would be believed.

The checksum is the member ``crc32``: that of the same object without it, as orjson writes it. What only looks different
(white space) is therefore no damage.
"""

from __future__ import annotations

import zlib
from typing import Any

import orjson

__all__ = ["packed", "unpacked"]

_MEMBER = "crc32"


def packed(facts: dict[str, Any]) -> bytes:
    """The object as bytes, with its checksum."""
    return orjson.dumps({**facts, _MEMBER: zlib.crc32(orjson.dumps(facts))})


def unpacked(data: bytes, *, checked_from: int = 1) -> dict[str, Any]:
    """The object without its checksum; a ``ValueError`` if it is not as it was written.

    Objects have a member ``format``. Those of a format before ``checked_from``, or without the member, are of a time
    before there were checksums, and may lack one.
    """
    facts = orjson.loads(data)
    if not isinstance(facts, dict):
        raise ValueError("no JSON object")
    check = facts.pop(_MEMBER, None)
    form = facts.get("format", 1)
    if check is None and isinstance(form, int) and form < checked_from:
        return facts
    if check != zlib.crc32(orjson.dumps(facts)):
        raise ValueError("content that is not as it was written, by its checksum")
    return facts
