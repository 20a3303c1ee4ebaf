"""``AsyncBroker``: a broker as a program with asyncio uses it.

Each method is a request of the API, or some; ``notifications`` reads a queue for as long as the program wants. What is
done to a request until it is answered is in ``requests``, how a queue is read in ``queue_reader``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from tidegate.client.address import BrokerAddress
from tidegate.client.answers import (
    ManySubscribed,
    NewToken,
    Published,
    RecentPage,
    StoredSubscription,
    made_of,
    member,
    objects,
)
from tidegate.client.items import Item
from tidegate.client.publication_batches import LINES, GivenAsync, batches_of_async
from tidegate.client.publication_json import json_record
from tidegate.client.publish_window import PublishWindow
from tidegate.client.queue_position import QueuePosition
from tidegate.client.queue_reader import QueueReader
from tidegate.client.refusals import refused_item
from tidegate.client.requests import Answer, Requests
from tidegate.client.subscription_bodies import json_body, subscription_bodies, subscription_body
from tidegate.client.token_source import TokenSource
from tidegate.delivery_options import STREAM, Deliver, Fields
from tidegate.errors import RefusedError, SettingError, TidegateError, UnknownSubscription, shown
from tidegate.model import Publication, Subscription

__all__ = ["Acknowledge", "AsyncBroker"]

_LOG = logging.getLogger("tidegate.client")
#: Seconds that the last acknowledgement may take when reading ends.
_LAST = 5.0
#: Seconds that the broker may rehearse.
_REHEARSAL = 600.0
Acknowledge: TypeAlias = Literal["auto", "manual"]
Where: TypeAlias = "str | dict[str, Any] | bool"


class AsyncBroker:
    """A broker as one principal uses it. ``tg.connect`` makes it in ``async with``, and closes it at the end."""

    def __init__(self, address: BrokerAddress) -> None:
        self.url = address.url
        self._address = address
        self._tokens = TokenSource(address.token, address.timeout)
        self._requests = Requests(address, self._tokens)
        self._readers = dict[QueueReader, asyncio.Task[None] | None]()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.url}>"

    async def close(self) -> None:
        """End all reading, acknowledge what was finished, and close all connections."""
        for reader in list(self._readers):
            await self.end_reading(reader)
        await self._requests.close()

    # --- publishing -------------------------------------------------------------------------------------------------

    async def publish(self, publications: GivenAsync, *, in_flight: int = 1) -> Published:
        """Publish one publication or many: objects, dicts, iterables of them, or a table of Arrow, pandas or polars.

        Publications of an iterable are taken from it only as fast as the broker accepts them. What is answered is
        durable. One publication that is refused is an error; of several ``refused`` of the answer says which and why.
        A request that fails for a while is repeated, and the ids, which are made here where a publication has none, see
        to it that each publication is taken once. With ``in_flight`` above 1 so many batches are on their way at a
        time, which is faster over long distances; they may then be appended in another order.
        """
        parts = [part async for part in self.publish_in_batches(publications, in_flight=in_flight)]
        answer = Published.together(parts)
        expect_accepted(publications, answer)
        return answer

    async def publish_in_batches(self, publications: GivenAsync, *, in_flight: int = 1) -> AsyncIterator[Published]:
        """Publish as ``publish`` does, and tell the answer to each batch as it comes."""
        window = self.window(in_flight)
        try:
            async for batch in batches_of_async(publications):
                for answer in await window.add(batch):
                    yield answer
            for answer in await window.rest():
                yield answer
        finally:
            await window.cancel()

    def window(self, in_flight: int) -> PublishWindow:
        """Where batches are put that are to be published."""
        if isinstance(in_flight, bool) or not isinstance(in_flight, int) or not 1 <= in_flight <= 64:
            raise SettingError("a number from 1 to 64 as in_flight", shown(in_flight))
        return PublishWindow(self._requests, in_flight)

    async def unpublish(self, source: str, id: str) -> bool:
        """Withdraw the publications of a source and id; whether there was one."""
        path, query = _named("/v1/publications", source=source, id=id)
        return await self._deleted(path, query)

    async def recent(self, source: str | None = None, *, after: str | None = None, limit: int = 100) -> RecentPage:
        """Publications of the log that the caller may read."""
        query = {"source": source, "after": after, "limit": limit}
        return RecentPage.of((await self._get("/v1/publications", query)).said)

    # --- subscriptions ----------------------------------------------------------------------------------------------

    async def subscribe(
        self,
        id: str,
        where: Where,
        *,
        initial: bool = False,
        fields: Fields = "all",
        expired: bool = False,
        deliver: Deliver = STREAM,
        active_from: datetime | str | None = None,
        active_until: datetime | str | None = None,
        if_match: str | None = None,
    ) -> StoredSubscription:
        """Make a subscription, which every publication that is published from now on is matched with.

        With ``initial`` the valid publications that are there are told as well. Where there is one of that id that says
        the same, nothing changes; where it says something else that is an error, unless ``if_match`` is its ``etag``,
        or ``*`` for whatever it is: then it is replaced.
        """
        times = {"active_from": active_from, "active_until": active_until}
        options = {"where": where, "initial": initial, "fields": fields, "expired": expired, "deliver": deliver}
        body = subscription_body(options | times, f"subscription {shown(id)}")
        path, query = _named("/v1/subscriptions", id=id)
        headers = {} if if_match is None else {"If-Match": if_match}
        answer = await self._requests.send("PUT", path, json_body(body), query=query, headers=headers)
        said = {"id": id, **body} | answer.said
        is_new = answer.status == 201 or answer.is_repeated
        return made_of(lambda found: StoredSubscription.of(found, answer.headers.get("ETag"), is_new), said)

    async def subscribe_all(self, subscriptions: Iterable[Subscription | Mapping[str, Any]]) -> ManySubscribed:
        """Make many subscriptions of the caller, whatever subscriber they name; what is refused refuses itself only."""
        answers = [
            (first, (await self._requests.send("POST", "/v1/subscriptions", body, media_type=LINES, also=(422,))).said)
            for first, body in subscription_bodies(subscriptions)
        ]
        return ManySubscribed.together(answers)

    async def unsubscribe(self, id: str) -> None:
        """End a subscription. Its backlog stays."""
        path, query = _named("/v1/subscriptions", id=id)
        if not await self._deleted(path, query):
            raise UnknownSubscription("the id of a subscription of the caller", shown(id))

    async def subscription(self, id: str) -> StoredSubscription:
        """One subscription."""
        path, query = _named("/v1/subscriptions", id=id)
        try:
            answer = await self._get(path, query)
        except RefusedError as error:
            if error.status == 404:
                raise UnknownSubscription("the id of a subscription of the caller", shown(id)) from None
            raise
        return made_of(lambda found: StoredSubscription.of(found, answer.headers.get("ETag")), answer.said)

    async def subscriptions(self) -> list[StoredSubscription]:
        """All subscriptions of the caller."""
        found = await self._all("/v1/subscriptions", "subscriptions")
        return [made_of(StoredSubscription.of, one) for one in found]

    async def check(self, where: Where) -> dict[str, Any]:
        """What is wrong with an expression, and where."""
        return (await self._post("/v1/check", {"where": where})).said

    async def explain(
        self,
        publication: Publication | Mapping[str, Any],
        where: Where | None = None,
        *,
        id: str | None = None,
        hours: float = 1.0,
    ) -> dict[str, Any]:
        """Why an expression, or the caller's subscription ``id``, matches a publication, or does not.

        Patterns look at so many ``hours`` of the log before it.
        """
        body = {"subscription": _asked(where, id), "hours": hours}
        body["publication"] = json_record(publication, "the publication")
        return (await self._post("/v1/explain", body, timeout=_REHEARSAL)).said

    async def rehearse(
        self, where: Where | None = None, *, id: str | None = None, hours: float = 24.0, samples: int = 10
    ) -> dict[str, Any]:
        """What an expression, or the caller's subscription ``id``, would have sent over the log of the last hours."""
        body = {"subscription": _asked(where, id), "hours": hours, "samples": samples}
        return (await self._post("/v1/rehearse", body, timeout=_REHEARSAL)).said

    # --- notifications ----------------------------------------------------------------------------------------------

    async def notifications(
        self, after: str | int | Item | None = None, *, acknowledge: Acknowledge = "auto", room: int = 1_000
    ) -> AsyncIterator[Item]:
        """What the subscriptions of the caller are told: each item once and in order, for as long as it is asked.

        It begins behind what is acknowledged, or ``after`` an item or its ``position``. An item is acknowledged when
        the next one is asked for, so that what the program did not finish comes again; with ``manual`` only
        ``acknowledge`` does that. Connections that are lost are made again. While ``room`` items wait nothing more is
        read, and the broker keeps the rest. What the broker cannot tell any more comes as ``tg.Gap``, what it leaves
        out as ``tg.Skipped``.
        """
        reader = await self.begin_reading(after, acknowledge, room)
        try:
            while items := await reader.take():
                for item in items:
                    yield item
                    reader.finish(item)
        finally:
            await self.end_reading(reader)

    async def begin_reading(self, after: str | int | Item | None, acknowledge: str, room: int) -> QueueReader:
        """A reader of the queue, until ``end_reading``."""
        if acknowledge not in ("auto", "manual"):
            raise SettingError("auto or manual as acknowledge", shown(acknowledge))
        if isinstance(room, bool) or not isinstance(room, int) or room < 1:
            raise SettingError("a number of items as room", shown(room))
        position = None if after is None else QueuePosition.of(after)
        reader = QueueReader(self._address, self._tokens, position, room=room, acknowledges=acknowledge == "auto")
        self._readers[reader] = None
        return reader

    async def end_reading(self, reader: QueueReader) -> None:
        """End a reader, and acknowledge what was finished; whoever asks waits for that."""
        if reader not in self._readers:
            return
        ending = self._readers[reader]
        if ending is None:
            ending = self._readers[reader] = asyncio.create_task(self._end(reader))
        await asyncio.shield(ending)

    async def _end(self, reader: QueueReader) -> None:
        position = await reader.close()
        try:
            if position is not None:
                await self._acknowledge(str(position), _LAST)
        except TidegateError as error:
            _LOG.warning("what was read up to %s is not acknowledged and will come again: %s", position, error)
        finally:
            del self._readers[reader]

    async def acknowledge(self, upto: Item | int) -> None:
        """Acknowledge an item and all before it."""
        await self._acknowledge(upto if isinstance(upto, int) else upto.position)

    async def _acknowledge(self, upto: int | str, deadline: float | None = None) -> None:
        await self._requests.send("POST", "/v1/notifications/ack", json_body({"upto": upto}), deadline=deadline)

    # --- announcements ----------------------------------------------------------------------------------------------

    async def announce(self, announcement: Mapping[str, Any]) -> dict[str, Any]:
        """Say what the caller could publish."""
        return (await self._post("/v1/announcements", announcement)).said

    async def announcements(self) -> list[dict[str, Any]]:
        """What publishers could publish."""
        return await self._all("/v1/announcements", "announcements")

    async def revoke(self, id: str) -> bool:
        """End an announcement; whether there was one."""
        return await self._deleted(*_named("/v1/announcements", id=id))

    # --- administration ---------------------------------------------------------------------------------------------

    async def status(self) -> dict[str, Any]:
        """How the broker is doing."""
        return (await self._get("/v1/status")).said

    async def sessions(self) -> list[dict[str, Any]]:
        """Who is registered and connected, and how far behind."""
        return await self._all("/v1/sessions", "sessions")

    async def unregister(self, principal: str) -> bool:
        """End the session of a principal, with its subscriptions and queues; whether it had one."""
        return await self._deleted(f"/v1/sessions/{quote(principal, safe='')}", None)

    async def put_principal(
        self,
        name: str,
        *,
        read: str | None = None,
        quotas: Mapping[str, float] | None = None,
        issuer: str | None = None,
    ) -> dict[str, Any]:
        """Make a principal, or change what it may read, its quotas, whose JWTs speak of it; what is not given stays."""
        given = {"read": read, "quotas": quotas, "issuer": issuer}
        body = {key: value for key, value in given.items() if value is not None}
        return (await self._requests.send("PUT", f"/v1/principals/{quote(name, safe='')}", json_body(body))).said

    async def principals(self) -> list[dict[str, Any]]:
        """All principals, with what they may read and their quotas."""
        return await self._all("/v1/principals", "principals")

    async def make_token(
        self, principal: str, roles: Iterable[str], *, sources: Sequence[str] | None = None, read: str | None = None
    ) -> NewToken:
        """Make a token of a principal, which is made if it is new."""
        body: dict[str, Any] = {"principal": principal, "roles": list(roles)}
        body |= {key: value for key, value in (("sources", sources), ("read", read)) if value is not None}
        said = (await self._requests.send("POST", "/v1/tokens", json_body(body), once=True)).said
        return NewToken(member(said, "id", str), member(said, "token", str))

    async def tokens(self) -> list[dict[str, Any]]:
        """All tokens, without their secrets."""
        return await self._all("/v1/tokens", "tokens")

    async def revoke_token(self, id: str) -> bool:
        """Revoke a token; whether there was one."""
        return await self._deleted(f"/v1/tokens/{quote(id, safe='')}", None)

    # --- requests ---------------------------------------------------------------------------------------------------

    async def _get(self, path: str, query: Mapping[str, Any] | None = None) -> Answer:
        return await self._requests.send("GET", path, query=query)

    async def _post(self, path: str, body: object, timeout: float | None = None) -> Answer:
        return await self._requests.send("POST", path, json_body(body), timeout=timeout)

    async def _deleted(self, path: str, query: Mapping[str, Any] | None) -> bool:
        """Whether there was something; it may have gone by an attempt whose answer was lost."""
        answer = await self._requests.send("DELETE", path, query=query, also=(404,))
        return answer.status != 404 or answer.is_repeated

    async def _all(self, path: str, name: str) -> list[dict[str, Any]]:
        """What a list has, page by page."""
        found, after = list[dict[str, Any]](), None
        while True:
            said = (await self._get(path, {"limit": 1000, "after": after})).said
            found += objects(said, name)
            after = said.get("next")
            if after is None:
                return found


def expect_accepted(given: object, answer: Published) -> None:
    """Refuse, if a single publication was given and the broker has refused it."""
    if isinstance(given, Publication | Mapping) and answer.refused:
        one = answer.refused[0]
        raise refused_item(one.code, one.detail, "the publication")


def _asked(where: Where | None, id: str | None) -> object:
    """The subscription that a request is about: one that the caller has, or an expression."""
    if (where is None) is (id is None):
        raise SettingError("an expression, or the id of a subscription", "neither" if where is None else "both")
    return {"where": where} if id is None else id


def _named(path: str, **ids: str) -> tuple[str, dict[str, str] | None]:
    """The path of what is named by ids, or where they cannot stand in a path, the query beside it."""
    for name, id in ids.items():
        if not isinstance(id, str) or not id:
            raise SettingError(f"a text that is not empty as {name}", shown(id))
    if any(id in (".", "..") for id in ids.values()):
        return path, ids
    return "/".join([path, *(quote(id, safe="") for id in ids.values())]), None
