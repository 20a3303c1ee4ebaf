"""How many bytes the items of a body have, each as it was sent: one that is too large refuses itself only.

Sizes are those of the JSON that came; a row of Arrow has that of the object that it is. Knows nothing of what an item
has to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from tidegate.gateway.given_publications import Unreadable
from tidegate.gateway.problems import RequestError

__all__ = ["large_item", "row_size", "sizes_of_array", "without_large"]

_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


def large_item(size: int, most: int) -> Unreadable:
    """Stands for an item of so many bytes, which are too many."""
    return Unreadable("limit", f"expected a publication of at most {most:,} bytes; got {size:,}")


def without_large(items: Sequence[Any], sizes: Sequence[int], most: int) -> list[Any]:
    """The items, with ``Unreadable`` in the place of those that are too large."""
    return [
        item if size <= most else large_item(size, most)
        for item, size in zip(items, sizes, strict=True)
    ]  # fmt: skip


def sizes_of_array(body: bytes) -> list[int]:
    """The bytes of each item of a JSON array, which is known to be one."""
    try:
        return [len(memoryview(item)) for item in _ARRAY.decode(body)]
    except RecursionError:
        raise RequestError(400, "json", "JSON that is nested less deeply", "a deeper one") from None


def row_size(row: dict[str, Any]) -> int:
    """The bytes of a row of Arrow, as JSON has it."""
    return len(orjson.dumps(row, default=str))
