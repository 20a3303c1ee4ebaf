"""What a broker tells of a queue: the types of its items, and of the other messages that it sends over a WebSocket.

The documents of the API are made from these; what is sent is put together as bytes (``broker/encoded_items``,
``channels``), and tests hold it against them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

__all__ = [
    "Accepted",
    "DeliveredPublication",
    "Gap",
    "Hello",
    "Item",
    "Lagging",
    "Notification",
    "NotificationPage",
    "Refused",
    "Retracted",
    "Skipped",
]

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Number = Annotated[int, Meta(ge=1, description="The number of a delivery in its queue.")]
Reference = Annotated[str | int, Meta(description="What the client has given as `ref`.")]


class Place(msgspec.Struct):
    """A point in degrees."""

    lon: float
    lat: float


class DeliveredPublication(msgspec.Struct, kw_only=True):
    """A publication, with the attributes that the subscriptions want. One that is gone from the log says so."""

    id: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    time: Time | UnsetType = UNSET
    attributes: dict[str, Any] | UnsetType = UNSET
    phase: str | UnsetType = UNSET
    location: Place | UnsetType = UNSET
    valid_until: Time | UnsetType = UNSET
    gone: bool | UnsetType = UNSET


class Notification(msgspec.Struct, tag="notification", kw_only=True):
    """What subscriptions matched: one publication, or several where it is of a pattern."""

    number: Number
    subscriptions: Annotated[list[str], Meta(description="Their ids as they were when they matched.")]
    time: Annotated[Time | None, Meta(description="Event time; null where the publication is gone.")]
    matched_at: Time
    initial: bool
    publication: DeliveredPublication | UnsetType = UNSET
    publications: list[DeliveredPublication] | UnsetType = UNSET
    score: float | UnsetType | None = UNSET
    distance: float | UnsetType | None = UNSET


class Retracted(msgspec.Struct, tag="retracted", kw_only=True):
    """An earlier notification of the queue is withdrawn: its publication was unpublished."""

    number: Number
    retracts: Number
    matched_at: Time
    publication: DeliveredPublication


class Skipped(msgspec.Struct, tag="skipped", kw_only=True):
    """Deliveries that are left out on purpose, up to `number`."""

    from_: Annotated[int, Meta(ge=1)] = msgspec.field(name="from")
    number: Number
    reason: Annotated[str, Meta(examples=["expired", "unpublished", "unreadable", "damaged"])]


class Gap(msgspec.Struct, tag="gap", kw_only=True):
    """Deliveries that cannot be had any more, or a position that is none of this queue."""

    from_: Annotated[int, Meta(ge=1)] = msgspec.field(name="from")
    to: Annotated[int, Meta(ge=0)]
    oldest: Annotated[int, Meta(ge=1, description="The oldest that is kept: what follows begins there.")]
    reason: Literal["retention", "epoch", "beyond"]


Item = Notification | Retracted | Skipped | Gap


class NotificationPage(msgspec.Struct, kw_only=True):
    """Items of a queue in order."""

    epoch: str
    notifications: list[Item]
    next: Annotated[str, Meta(description="What to give for `after` to go on.")]
    last: Annotated[int, Meta(ge=0, description="The newest number of the queue.")]
    oldest: Annotated[int, Meta(ge=1, description="The oldest number that is kept.")]


class Hello(msgspec.Struct, tag="hello", kw_only=True):
    """The first message: how the queue stands. Who may only publish has none, and no epoch."""

    epoch: str | None
    acked: Annotated[int, Meta(ge=0)]
    last: Annotated[int, Meta(ge=0)]
    oldest: Annotated[int, Meta(ge=1)]


class Lagging(msgspec.Struct, tag="lagging", kw_only=True):
    """The client does not read what it is told. It is closed, and goes on when it connects again."""

    resume: Annotated[str | None, Meta(description="Behind which delivery it would have gone on.")]


class Accepted(msgspec.Struct, tag="accepted", kw_only=True):
    """The answer to a message that was accepted, with what HTTP would have answered."""

    ref: Reference | UnsetType | None = UNSET


class Refused(msgspec.Struct, tag="error", kw_only=True):
    """The answer to a message that was not: the members of problem details but for `type`."""

    status: int
    title: str
    detail: str
    code: str
    expected: str
    got: str
    at: str | UnsetType = UNSET
    caret: str | UnsetType = UNSET
    ref: Reference | UnsetType | None = UNSET
