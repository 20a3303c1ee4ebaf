"""The JSON of webhooks: what a client says of an endpoint, and what it is shown of one. Knows nothing of requests."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidegate.gateway.bodies import whole
from tidegate.moments import moment
from tidegate.store.webhook_tables import Batch, DeadLetters, Replay, Webhook

__all__ = [
    "DeadLettersShown",
    "DeadPage",
    "ReplayBody",
    "ReplayShown",
    "RotatedSecret",
    "RotationBody",
    "WebhookBody",
    "WebhookPage",
    "WebhookShown",
    "batch_of",
    "dead_shown",
    "replay_shown",
    "webhook_shown",
]

_MOST_ITEMS, _MOST_BYTES = 1_000, 1 << 20
_DAY = 86_400

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Secret = Annotated[str, Meta(max_length=128, description="`whsec_` and 24 to 64 bytes in Base64.")]
#: Whole numbers, which JSON may write as 1.0 as well; ``whole`` reads them.
Number = Annotated[int, Meta(ge=1, le=2**53)] | Annotated[float, Meta(ge=1, le=2**53, multiple_of=1)]
Items = Annotated[int, Meta(ge=1, le=_MOST_ITEMS)] | Annotated[float, Meta(ge=1, le=_MOST_ITEMS, multiple_of=1)]
Bytes = Annotated[int, Meta(ge=1, le=_MOST_BYTES)] | Annotated[float, Meta(ge=1, le=_MOST_BYTES, multiple_of=1)]
Overlap = Annotated[int, Meta(ge=0, le=30 * _DAY)] | Annotated[float, Meta(ge=0, le=30 * _DAY, multiple_of=1)]


class BatchBody(msgspec.Struct, forbid_unknown_fields=True):
    """How many items one request may have, and how many bytes of them; one item it has in any case."""

    items: Items = 100
    bytes: Bytes = 256 * 1024


class WebhookBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Where deliveries are posted to, and whether several at a time."""

    url: Annotated[str, Meta(min_length=1, max_length=2048)]
    batch: Annotated[BatchBody | None, Meta(description="Without it each request has one item.")] = None
    secret: Secret | None = None


class WebhookShown(msgspec.Struct, kw_only=True):
    """An endpoint. ``secret`` is told where it was made, and never again."""

    name: str
    url: str
    batch: BatchBody | None
    state: Literal["unverified", "active", "failing", "disabled"]
    failures: Annotated[int, Meta(description="Those in a row, until now.")]
    failing_since: Time | None
    reason: Annotated[str | None, Meta(description="What the last failure was.")]
    retry_at: Time | None
    tried_at: Time | None
    answered_at: Annotated[Time | None, Meta(description="When it took something last, or was verified.")]
    created: Time
    old_secret_until: Annotated[Time | None, Meta(description="Until then two secrets sign.")]
    secret: str | UnsetType = UNSET


class WebhookPage(msgspec.Struct):
    """Some of the caller's endpoints, in the order of their names."""

    webhooks: list[WebhookShown]
    next: Annotated[str | None, Meta(description="The value of `after` for those that follow; null if none does.")]


class RotationBody(msgspec.Struct, forbid_unknown_fields=True):
    """A secret in place of the one before, which signs as well for so many seconds."""

    secret: Secret | None = None
    overlap: Overlap = _DAY


class RotatedSecret(msgspec.Struct):
    """The secret that signs from now on."""

    secret: str
    old_secret_until: Time | None


class ReplayBody(msgspec.Struct, forbid_unknown_fields=True, rename={"begin": "from", "upto": "to"}):
    """The numbers of the deliveries that are to be sent again."""

    begin: Number
    upto: Number


class ReplayShown(msgspec.Struct, rename={"begin": "from", "upto": "to"}):
    """What will be sent again."""

    id: str
    epoch: str
    begin: int
    upto: int


class DeadLettersShown(msgspec.Struct, rename={"begin": "from", "upto": "to"}):
    """Deliveries that were given up, and why."""

    epoch: str
    begin: int
    upto: int
    reason: str
    given_up_at: Time


class DeadPage(msgspec.Struct):
    """What was given up, in the order of its numbers."""

    dead: list[DeadLettersShown]
    next: Annotated[str | None, Meta(description="The value of `after` for those that follow; null if none does.")]


def batch_of(body: WebhookBody) -> Batch | None:
    """What a body says of batches."""
    return None if body.batch is None else Batch(whole(body.batch.items), whole(body.batch.bytes))


def webhook_shown(webhook: Webhook, now: int, *, with_secret: bool = False) -> WebhookShown:
    """The JSON of an endpoint."""
    progress, batch = webhook.progress, webhook.batch
    is_rotated = len(webhook.secrets_at(now)) > 1
    return WebhookShown(
        name=webhook.name,
        url=webhook.url,
        batch=None if batch is None else BatchBody(batch.items, batch.bytes),
        state=progress.state,  # type: ignore[arg-type]  # one of them, as it is stored
        failures=progress.failures,
        failing_since=_text(progress.failing_since),
        reason=progress.reason,
        retry_at=_text(progress.retry_at),
        tried_at=_text(progress.tried_at),
        answered_at=_text(progress.answered_at),
        created=_text(webhook.created) or "",
        old_secret_until=_text(webhook.old_until) if is_rotated else None,
        secret=webhook.secret if with_secret else UNSET,
    )


def dead_shown(letters: DeadLetters) -> DeadLettersShown:
    """The JSON of dead letters."""
    return DeadLettersShown(
        letters.epoch, letters.begin, letters.upto, letters.reason, _text(letters.given_up_at) or ""
    )


def replay_shown(replay: Replay) -> ReplayShown:
    """The JSON of a replay that was asked for."""
    return ReplayShown(replay.id, replay.epoch, replay.position + 1, replay.upto)


def _text(micros: int | None) -> str | None:
    return None if micros is None else moment(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")
