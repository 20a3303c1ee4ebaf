"""JSON that is kept for long: ``kept_json`` gives bytes that take no more memory than there are of them.

Knows nothing of what is written.
"""

from __future__ import annotations

from typing import Any

import orjson

__all__ = ["kept_json"]


def kept_json(value: Any) -> bytes:
    """The JSON of a value. What orjson returns keeps 4 KiB however short it is, until it is freed: this is a copy."""
    return bytes(memoryview(orjson.dumps(value)))
