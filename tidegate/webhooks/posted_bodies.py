"""What one request to an endpoint has: a body of one item or several, an id, and the attributes of a CloudEvent.

The body is what the API tells of a queue, byte for byte, so the same number has the same meaning in all ways. An id is
the epoch of the queue and the number of the delivery, or the first and the last number of what tells of several: a
receiver that knows the id has all that it had before. Sends nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

from tidegate.broker.encoded_items import EncodedItem
from tidegate.store.webhook_tables import Batch, Webhook
from tidegate.webhooks.item_ranges import first_number, is_range

__all__ = ["PostedBody", "challenge_body", "posted_body", "taken_together"]

_TYPE = "tidegate."
#: Characters of a subject: a publisher may choose long names, and receivers refuse headers that are too long.
_LONGEST_SUBJECT = 1024
#: Attributes of a publication by which a trace goes on, and what they must look like (W3C Trace Context).
_TRACE = {
    "traceparent": re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"),
    "tracestate": re.compile(r"[!-~]([ -~]{0,510}[!-~])?"),
}


class PostedBody(NamedTuple):
    """A body, the number up to which it has deliveries, its id, and headers that go with it."""

    id: str
    number: int
    body: bytes
    headers: list[tuple[str, str]]


def taken_together(items: Sequence[EncodedItem], batch: Batch | None) -> int:
    """How many of some items, of which there is one at least, go into one request."""
    if batch is None:
        return 1
    size = count = 0
    for item in items[: batch.items]:
        size += len(item.body) + 1
        if count and size > batch.bytes:
            break
        count += 1
    return count


def posted_body(webhook: Webhook, epoch: str, items: Sequence[EncodedItem]) -> PostedBody:
    """What is sent of some items: an item by itself, or several as the API has them in a page."""
    number = items[-1].number
    is_one = webhook.batch is None and not is_range(items[0])
    id = f"{epoch}-{number}" if is_one else f"{epoch}-{first_number(items[0])}-{number}"
    headers = [("content-type", "application/json"), ("ce-specversion", "1.0"), ("ce-id", id)]
    headers.append(("ce-source", f"/principals/{webhook.principal}/webhooks/{webhook.name}"))
    if webhook.batch is not None:
        headers.append(("ce-type", f"{_TYPE}notifications"))
        return PostedBody(id, number, b'{"notifications":[%b]}' % b",".join(item.body for item in items), headers)
    (item,) = items
    headers.append(("ce-type", f"{_TYPE}{item.type}"))
    return PostedBody(id, number, item.body, [*headers, *_described(orjson.loads(item.body))])


def _described(item: dict[str, Any]) -> list[tuple[str, str]]:
    """When an item was made, of which publication it tells, and to what trace that belongs."""
    found = []
    if "matched_at" in item:
        found.append(("ce-time", item["matched_at"]))
    publication = item.get("publication", {})
    if "id" in publication and "source" in publication:
        names = publication["source"], publication["id"]
        subject = _in_header("/".join(quote(name, safe="") for name in names))
        if len(subject) <= _LONGEST_SUBJECT:
            found.append(("ce-subject", subject))
    for name, form in _TRACE.items():
        value = publication.get("attributes", {}).get(name)
        if isinstance(value, str) and form.fullmatch(value):
            found.append((name, value))
    return found


def _in_header(text: str) -> str:
    """A text in ASCII as a header of a CloudEvent has it, where a percent sign begins what is encoded."""
    return text.replace("%", "%25")


def challenge_body(challenge: str) -> bytes:
    """What an endpoint is asked that has to show that it wants to be posted to."""
    return orjson.dumps({"type": "url_verification", "challenge": challenge})
