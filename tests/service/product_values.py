"""Values of scripts as the product takes them, and what the product tells as values of scripts.

A tick is an hour of the product's time, which begins at a fixed moment. This module calls no part of the product but
those that make values.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

import tidegate as tg
from tests.service import steps
from tests.service.conditions import text
from tests.service.steps import Delivery, Identity, Item, Notification, Retracted, Skipped
from tidegate.store.delivery_records import DeliveryKind, MatchedSubscription
from tidegate.store.queue_frames import Delivery as QueuedDelivery

BEGIN = datetime(2026, 11, 15, tzinfo=UTC)
TICK = timedelta(hours=1)
KINDS = {DeliveryKind.PUBLICATION: "publication", DeliveryKind.INITIAL: "initial", DeliveryKind.RETRACTED: "retracted"}


def moment(tick: int | None) -> datetime | None:
    return None if tick is None else BEGIN + tick * TICK


def item_of(sent: steps.Publication) -> dict[str, Any]:
    """What a publisher sends, decoded from JSON."""
    named = {"phase": sent.phase, "time": written(sent.time), "valid_until": written(sent.valid_until)}
    given = {name: value for name, value in named.items() if value is not None}
    return {"source": sent.source, "id": sent.id, **given, "attributes": dict(sent.attributes)}


def written(tick: int | None) -> str | None:
    found = moment(tick)
    return None if found is None else found.isoformat()


def subscription_of(step: steps.Subscribe) -> tg.Subscription:
    asked = step.subscription
    return tg.Subscription(
        step.id,
        step.principal,
        text(asked.where),
        moment(asked.active_from),
        moment(asked.active_until),
        asked.initial,
        asked.fields,
        asked.expired,
        asked.deliver,  # type: ignore[arg-type]  # scripts know other destinations than webhooks
    )


def identity_of(publication: Mapping[str, Any]) -> Identity:
    return publication["source"], publication["id"], publication.get("phase")


def delivery_of(found: QueuedDelivery, contents: Mapping[int, Mapping[str, Any]]) -> Delivery:
    """An entry of a queue; ``contents`` has the publications by their rows."""
    kind = KINDS[DeliveryKind(found.kind)]
    retracts = orjson.loads(found.told)["retracts"] if kind == "retracted" else None
    ids = sorted(MatchedSubscription.unpacked(meaning).id for meaning in found.meanings)
    return Delivery(found.number, kind, identity_of(contents[found.row]), tuple(ids), retracts)  # type: ignore[arg-type]


def items_of(told: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
    """What a reader is given."""
    for item in told:
        match item["type"]:
            case "gap":
                yield steps.Gap()
            case "skipped":
                yield Skipped(item["from"], item["number"], item["reason"])
            case "retracted":
                yield Retracted(item["number"], item["retracts"])
            case _:
                content, named = item["publication"], tuple(sorted(item["subscriptions"]))
                identity = identity_of(content)
                yield Notification(item["number"], identity, named, item["initial"], content["attributes"])
