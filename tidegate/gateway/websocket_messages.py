"""What a client sends over a WebSocket: the types of its messages, read from JSON.

Each has a ``type`` and may have a ``ref``, which its answer has too; the rest is as in the bodies of HTTP. Knows
nothing of what they do.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidegate.gateway.announcement_bodies import AnnouncementBody
from tidegate.gateway.bodies import Whole, decoded
from tidegate.gateway.item_sizes import without_large
from tidegate.gateway.problems import RequestError
from tidegate.gateway.subscription_bodies import SubscriptionBody

__all__ = [
    "Ack",
    "Announce",
    "ClientMessage",
    "Ping",
    "Publish",
    "Revoke",
    "Subscribe",
    "Unpublish",
    "Unsubscribe",
    "message_of",
    "reference_of",
]

Reference = Annotated[str, Meta(max_length=256)] | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Object = dict[str, Any]


class Publish(msgspec.Struct, tag="publish", forbid_unknown_fields=True, kw_only=True):
    """Publish one publication or several."""

    publication: Object | UnsetType = UNSET
    publications: list[Any] | UnsetType = UNSET
    ref: Reference | UnsetType | None = UNSET

    def given(self) -> list[Any]:
        """All of them."""
        one, several = self.publication, self.publications
        if isinstance(one, UnsetType) == isinstance(several, UnsetType):
            got = "neither" if isinstance(one, UnsetType) else "both"
            raise RequestError(422, "message", "publication or publications", got)
        return [one] if isinstance(several, UnsetType) else several


class Unpublish(msgspec.Struct, tag="unpublish", forbid_unknown_fields=True, kw_only=True):
    """Withdraw a publication."""

    source: str
    id: str
    ref: Reference | UnsetType | None = UNSET


class Ack(msgspec.Struct, tag="ack", forbid_unknown_fields=True, kw_only=True):
    """Acknowledge everything up to a number, `N` or `epoch-N`."""

    upto: Whole | str
    ref: Reference | UnsetType | None = UNSET


class Subscribe(SubscriptionBody, tag="subscribe", forbid_unknown_fields=True, kw_only=True):
    """Put a subscription: its id, and the members of its body; with `if_match` in the place of one that is another."""

    id: str
    if_match: str | None = None
    ref: Reference | UnsetType | None = UNSET


class Unsubscribe(msgspec.Struct, tag="unsubscribe", forbid_unknown_fields=True, kw_only=True):
    """End a subscription."""

    id: str
    ref: Reference | UnsetType | None = UNSET


class Announce(AnnouncementBody, tag="announce", forbid_unknown_fields=True, kw_only=True):
    """Announce what may be published: the members of an announcement."""

    ref: Reference | UnsetType | None = UNSET


class Revoke(msgspec.Struct, tag="revoke", forbid_unknown_fields=True, kw_only=True):
    """Revoke an announcement."""

    id: str
    ref: Reference | UnsetType | None = UNSET


class Ping(msgspec.Struct, tag="ping", forbid_unknown_fields=True, kw_only=True):
    """Ask whether the broker is there."""

    ref: Reference | UnsetType | None = UNSET


ClientMessage = Publish | Unpublish | Ack | Subscribe | Unsubscribe | Announce | Revoke | Ping


class _Sizes(msgspec.Struct):
    """The publications of a message as they were sent."""

    publication: msgspec.Raw = msgspec.Raw()
    publications: list[msgspec.Raw] | None = None


_SIZES = msgspec.json.Decoder(_Sizes)
#: Bytes of a character at most.
_CHARACTER = 4


def message_of(text: str, most: int) -> ClientMessage:
    """The message that a text is, without the publications of more than ``most`` bytes."""
    message: ClientMessage = decoded(text, ClientMessage)  # type: ignore[arg-type]
    if isinstance(message, Publish) and _CHARACTER * len(text) > most:
        given, sent = message.given(), _SIZES.decode(text)
        several = [sent.publication] if sent.publications is None else sent.publications
        sizes = [len(memoryview(one)) for one in several]
        message.publication, message.publications = UNSET, without_large(given, sizes, most)
    return message


class _Reference(msgspec.Struct):
    ref: Reference | UnsetType | None = UNSET


_REFERENCE = msgspec.json.Decoder(_Reference)


def reference_of(message: str | bytes) -> str | int | UnsetType | None:
    """The ``ref`` of a message that is wrong otherwise, if it has one."""
    try:
        return _REFERENCE.decode(message).ref
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return UNSET
