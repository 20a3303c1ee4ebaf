"""The JSON of announcements: what a publisher says that it could publish, and what is wrong with it if anything is.

Sources, attributes and places are those that the messages of the overlay can carry, in which announcements travel
between brokers. Knows nothing of requests.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Meta

from tidegate.errors import MessageError, ParseError, shown
from tidegate.language import from_json
from tidegate.overlay.messages import Announce
from tidegate.overlay.wire import checked
from tidegate.predicates.filter import compile_filter
from tidegate.store.announcements import StoredAnnouncement
from tidegate.whole_numbers import LEAST, MOST

__all__ = ["AnnouncementBody", "KeptAnnouncement", "content_of", "kept"]

_MOST_ATTRIBUTES, _MOST_BYTES = 256, 65_536
_AREAS = ("Polygon", "MultiPolygon")

Share = Annotated[float, Meta(ge=0, le=1)]
Texts = list[bool | int | float | str]


class Offer(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What an attribute would be: within bounds, one of some values, or anything."""

    min: int | float | None = None
    max: int | float | None = None
    values: Annotated[Texts, Meta(min_length=1, max_length=1024)] | None = None


class Place(msgspec.Struct, forbid_unknown_fields=True):
    """Where a source is."""

    lon: Annotated[float, Meta(ge=-180, le=180)]
    lat: Annotated[float, Meta(ge=-90, le=90)]


class Quality(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """By what a broker may choose among publishers, each from 0 to 1."""

    battery: Share | None = None
    reputation: Share | None = None


class AnnouncementBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What a publisher could publish. A later one of the same source takes its place."""

    source: Annotated[str, Meta(min_length=1, max_length=1024)]
    attributes: Annotated[dict[str, Offer], Meta(min_length=1, max_length=_MOST_ATTRIBUTES)]
    location: Place | None = None
    area: Annotated[dict[str, Any], Meta(description="A Polygon or MultiPolygon of GeoJSON.")] | None = None
    rate: Annotated[float, Meta(gt=0, le=1_000_000, description="Publications a second.")] | None = None
    quality: Quality | None = None


class KeptAnnouncement(msgspec.Struct, omit_defaults=True, kw_only=True):
    """An announcement as the broker keeps it."""

    id: str
    principal: str
    announced_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    source: str
    attributes: dict[str, Offer]
    location: Place | None = None
    area: dict[str, Any] | None = None
    rate: float | None = None
    quality: Quality | None = None


def content_of(body: AnnouncementBody) -> str:
    """What is stored of an announcement; or an error."""
    for name, offer in body.attributes.items():
        _check_offer(name, offer)
    point = None if body.location is None else (body.location.lon, body.location.lat)
    for name in body.attributes:
        try:
            checked(Announce(body.source, name, point))
        except MessageError as error:
            raise MessageError(error.expected, error.got, f"attribute {shown(name)}, {error.at}") from None
    if body.location is not None and body.area is not None:
        raise MessageError("a location or an area", "both", "area")
    if body.area is not None:
        _check_area(body.area)
    text = orjson.dumps(msgspec.to_builtins(body)).decode()
    if len(text) > _MOST_BYTES or "\0" in body.source:
        got = f"{len(text):,}" if len(text) > _MOST_BYTES else "a source with the character NUL"
        raise MessageError(f"an announcement of at most {_MOST_BYTES:,} characters, in text without NUL", got)
    return text


def _check_offer(name: str, offer: Offer) -> None:
    at = f"attribute {shown(name)}"
    for number in (offer.min, offer.max, *(offer.values or ())):
        if type(number) is int and not LEAST <= number <= MOST:
            raise MessageError("whole numbers of 64 bits", shown(number), at)
    if offer.values is not None and (offer.min is not None or offer.max is not None):
        raise MessageError("bounds or values", "both", at)
    if offer.min is not None and offer.max is not None and offer.min > offer.max:
        raise MessageError("a min that is not above the max", f"{offer.min:g} and {offer.max:g}", at)


def _check_area(area: dict[str, Any]) -> None:
    """Refuse what is no area for CQL2, in which interests are restricted to it."""
    if area.get("type") not in _AREAS:
        raise MessageError("a Polygon or MultiPolygon of GeoJSON", shown(area.get("type")), "area")
    try:
        compile_filter(from_json({"op": "s_intersects", "args": [{"property": "location"}, area]}))
    except ParseError as error:
        raise MessageError(error.expected, error.got, "area") from None


def kept(stored: StoredAnnouncement) -> KeptAnnouncement:
    """The JSON of an announcement that is stored."""
    announced = stored.announced.isoformat(timespec="microseconds").replace("+00:00", "Z")
    of = {"id": stored.id, "principal": stored.principal, "announced_at": announced}
    return msgspec.convert({**orjson.loads(stored.content), **of}, KeptAnnouncement)
