"""``Bridge``: connects a broker to an MQTT broker, again and again, and has both ways work while it is connected.

Nothing waits for it: while the MQTT broker is away, what devices publish waits there in our session, and what queues
have waits in the queues. Knows what is subscribed to and who is told; messages are for ``Incoming`` and ``Outgoing``.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync

from tidegate.broker.bridge_record import BridgeRecord
from tidegate.errors import TidegateError
from tidegate.gateway.channels import Ending
from tidegate.mqtt.credentials import Credentials
from tidegate.mqtt.incoming import Incoming
from tidegate.mqtt.message_items import MessageItems
from tidegate.mqtt.mqtt_connection import MqttConnection, MqttLost
from tidegate.mqtt.outgoing import DESTINATION, MqttChannel, Outgoing
from tidegate.mqtt.packet_properties import Property
from tidegate.mqtt.packets import Acknowledged, Login, Message, Reason, Subscription, Will
from tidegate.mqtt.publisher import Publisher
from tidegate.mqtt.requests import Requests
from tidegate.mqtt.session_subscriptions import SessionSubscriptions
from tidegate.runs.mqtt_section import MqttSection

if TYPE_CHECKING:
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["Bridge"]

_LOG = logging.getLogger("tidegate.mqtt")
#: Seconds before another attempt: twice as long each time, and as if it were the first after so long a connection.
_FIRST, _LONGEST, _A_WHILE = 0.25, 30.0, 10.0
#: Seconds between two looks for queues, and between two writes of how it stands.
_LOOK, _WRITE = 0.1, 1.0
#: Seconds between two looks at what principals may read.
_READS = 0.3
_OTHER_READ = Ending(1012, "its principal may read something else now")
_ONLINE, _OFFLINE = b"online", b"offline"


class Bridge:
    """The bridge of an open broker, whose parts have been started. ``tls`` is the context of connections, if they have
    TLS; ``random`` spreads attempts of many bridges.
    """

    def __init__(
        self, broker: OpenBroker, section: MqttSection, credentials: Credentials, random: Random | None = None
    ) -> None:
        self._broker, self._section, self._credentials = broker, section, credentials
        self._random = random or Random()
        limits = broker.limits
        self._subscriptions = SessionSubscriptions(section, broker.data.run, credentials.client_id)
        most = limits.max_publication, limits.max_publications
        self._items = MessageItems(section, self._subscriptions, *most, broker.clock)
        self._publisher = Publisher(broker, section)
        self._outgoing = Outgoing(broker, section, self._has_ended)
        self._requests = Requests(broker, section, self._outgoing.publish)
        self._incoming = Incoming(broker, self._items, self._publisher, self._requests, self._subscriptions)
        self._connection: MqttConnection | None = None
        self._channels: dict[str, MqttChannel] = {}
        self._rests: dict[str, float] = {}
        self._since, self._problem = broker.clock(), ""
        self._stopping = asyncio.Event()

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def stop(self) -> None:
        """Have ``run`` end."""
        self._stopping.set()

    async def run(self) -> None:
        """Bridge until ``stop``."""
        works = (
            self._incoming.run(),
            self._publisher.keep_current(),
            self._follow_queues(),
            self._follow_reads(),
            self._keep_written(),
            self._stay_connected(),
        )
        tasks = [asyncio.create_task(work) for work in works]
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()  # what failed is told by the process, which is started again
        finally:
            await self._close()
            stopping.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._write()

    # --- what the connection says -----------------------------------------------------------------------------------

    def begun(self, connection: MqttConnection) -> None:
        self._incoming.begin(connection)

    def received(self, messages: Sequence[Message]) -> None:
        self._incoming.received(messages)

    def acknowledged(self, packets: Sequence[Acknowledged]) -> None:
        self._outgoing.acknowledged(packets)

    def writable(self) -> None:
        self._outgoing.pump()

    # --- connecting -------------------------------------------------------------------------------------------------

    async def _stay_connected(self) -> None:
        wait, loop = _FIRST, asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                self._problem = await self._connected()
            except (MqttLost, TidegateError) as error:
                self._problem = str(error)
            finally:
                self._lose()
            if self._stopping.is_set():
                return
            wait = _FIRST if loop.time() - began > _A_WHILE else min(2 * wait, _LONGEST)
            pause = wait * (0.5 + self._random.random() / 2)
            _LOG.warning("not connected to %s: %s; again in %.1f s", self._section.address, self._problem, pause)
            await asyncio.sleep(pause)

    def _lose(self) -> None:
        if self._connection is not None:
            self._broker.counts.add("mqtt_connections", "lost")
            self._since = self._broker.clock()
        else:
            self._broker.counts.add("mqtt_connections", "failed")
        self._connection = None
        self._incoming.begin(None)
        self._outgoing.pause()
        self._write()

    async def _connected(self) -> str:
        """Connect, and stay so as long as it goes; why it ended."""
        section, credentials = self._section, self._credentials
        connection = await MqttConnection.open(
            section.address, credentials.tls(), self._login(), self._broker.limits.max_publication, self
        )
        try:
            self._connection, self._since, self._problem = connection, self._broker.clock(), ""
            self._broker.counts.add("mqtt_connections", "made")
            self._outgoing.begin(connection)
            await self._subscribe(connection)
            self._outgoing.publish(section.topic("status"), _ONLINE, {Property.PAYLOAD_IS_TEXT: 1}, retain=True)
            session = "goes on with its session" if connection.has_session else "begins a session"
            _LOG.info("connected to %s as %s, and %s", section.address, credentials.client_id, session)
            self._write()
            return await connection.lost()
        finally:
            connection.abort("given up")

    def _login(self) -> Login:
        section, credentials = self._section, self._credentials
        properties: dict[int, Any] = {
            Property.SESSION_EXPIRY: section.session_seconds,
            Property.RECEIVE_MAXIMUM: section.receive,
            Property.PROBLEM_INFORMATION: 1,
        }
        will = Will(section.topic("status"), _OFFLINE, {Property.PAYLOAD_IS_TEXT: 1})
        return Login(
            credentials.client_id, section.keep_alive, properties, section.username, credentials.password(), will
        )

    async def _subscribe(self, connection: MqttConnection) -> None:
        """Subscribe, to each topic filter by itself: its id says by which of them a message came. What the MQTT broker
        had stored comes once to a session; it has an id of its own, by which it is told from what is published, and to
        be stored, later.
        """
        subscriptions = self._subscriptions
        gone = subscriptions.begin(connection.has_session)
        for one in subscriptions.topic_filters:
            is_granted, is_request = True, one == subscriptions.requests
            if not is_request and not subscriptions.is_fetched(one):
                stored = Subscription(one, retain_handling=0)
                is_granted = await self._is_granted(connection, stored, subscriptions.stored_id(one))
            live = Subscription(one, retain_as_published=not is_request, retain_handling=2)
            is_granted = await self._is_granted(connection, live, subscriptions.live_id(one)) and is_granted
            subscriptions.subscribed(one, is_granted)
        for one in gone:
            if all(reason < Reason.UNSPECIFIED for reason in await connection.unsubscribe(one)):
                subscriptions.removed(one)

    async def _is_granted(self, connection: MqttConnection, wanted: Subscription, id: int) -> bool:
        """Subscribe; whether the MQTT broker has it."""
        reasons = await connection.subscribe([wanted], id if connection.has_subscription_ids else None)
        refused = [reason for reason in reasons if reason >= Reason.UNSPECIFIED]
        if refused:
            self._broker.counts.add("mqtt_connections", "not_subscribed")
            named = wanted.topic_filter, refused[0]
            _LOG.error("the MQTT broker refuses the subscription to %s with reason %d", *named)
        return not refused

    async def _close(self) -> None:
        """Close; the MQTT broker says that we are gone, as if the connection had been lost."""
        if self._connection is not None:
            await self._connection.close(Reason.DISCONNECT_WITH_WILL)

    # --- the queues that go out -------------------------------------------------------------------------------------

    async def _follow_queues(self) -> None:
        """Have a channel for each queue of the principals, while connected."""
        loop, known = asyncio.get_running_loop(), -1
        while True:
            await asyncio.sleep(_LOOK)
            queues = self._broker.delivery.queues
            if self._connection is None or queues is None:
                known = -1
                continue
            changes = queues.changes
            if changes == known and not self._rests:
                continue
            known, now = changes, loop.time()
            self._rests = {name: until for name, until in self._rests.items() if until > now}
            names = [
                queue.principal for queue in queues.to(DESTINATION) if self._broker.is_told_by_mqtt(queue.principal)
            ]
            wanted = [name for name in names if name not in self._channels and name not in self._rests]
            channels = {name: self._outgoing.channel(name) for name in wanted}
            if channels:
                self._channels |= channels
                await self._attach(list(channels.values()))

    async def _follow_reads(self) -> None:
        """Have the queue of a principal read again that may read something else now: what waits was judged before."""
        known: dict[str, str] | None = None
        while True:
            try:
                reads = await run_sync(self._broker.principals.reads, limiter=self._broker.threads)
                if known is not None and reads != known:
                    for name, channel in list(self._channels.items()):
                        if channel.is_greeted and reads.get(name) != known.get(name):
                            channel.end(_OTHER_READ)
                known = reads
            except TidegateError as error:
                _LOG.error("what principals may read is not known: %s", error)
            await asyncio.sleep(_READS)

    async def _attach(self, channels: Sequence[MqttChannel]) -> None:
        delivery = self._broker.delivery
        try:
            attached = await delivery.attach(channels, DESTINATION)
        except TidegateError as error:
            _LOG.error("queues could not be followed: %s", error)
            attached = []
        for channel in channels:
            if channel in attached and not channel.is_ended:
                delivery.follow(channel)
            else:
                self._forget(channel)

    def _has_ended(self, channel: MqttChannel) -> None:
        if channel.connection is not None:
            self._broker.delivery.leave(channel)
        self._forget(channel)

    def _forget(self, channel: MqttChannel) -> None:
        if self._channels.get(channel.principal) is channel:
            del self._channels[channel.principal]
            rest = max(self._outgoing.rest(channel.principal), _LOOK)
            self._rests[channel.principal] = asyncio.get_running_loop().time() + rest

    # --- how it stands ----------------------------------------------------------------------------------------------

    async def _keep_written(self) -> None:
        while True:
            self._write()
            await asyncio.sleep(_WRITE)

    def _write(self) -> None:
        BridgeRecord(
            process=os.getpid(),
            address=str(self._section.address),
            client_id=self._credentials.client_id,
            is_connected=self.is_connected and not self._stopping.is_set(),
            since=self._since,
            problem=self._problem,
            receiving=self._incoming.in_flight,
            sending=self._outgoing.in_flight,
            queues=len(self._channels),
        ).write(self._broker.data)
