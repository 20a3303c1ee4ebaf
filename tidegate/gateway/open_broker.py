"""What one gateway process has open of a broker: its data directory, and what it needs to answer requests.

Made once per process by ``gateway_process``; the functions of the API find it in each request. Several processes may
have the same directory open, and the runner is another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Protocol

import anyio

from tidegate.broker.webhook_url import rules_of
from tidegate.closing import Closing
from tidegate.errors import SettingError
from tidegate.gateway.access import Access
from tidegate.gateway.appender import Appender
from tidegate.gateway.audit import Audit
from tidegate.gateway.bodies import BodyBudget
from tidegate.gateway.broker_status import StatusReader
from tidegate.gateway.cost_quota import CostQuota
from tidegate.gateway.counts import Counts
from tidegate.gateway.deadlines import Deadlines
from tidegate.gateway.delivery import Delivery
from tidegate.gateway.free_room import FreeRoom
from tidegate.gateway.gateway_numbers import GatewayNumbers
from tidegate.gateway.issuers import Issuers
from tidegate.gateway.rates import Rates
from tidegate.gateway.rehearsal_places import RehearsalPlaces
from tidegate.gateway.traces import Traces
from tidegate.gateway.valid_quotas import ValidQuotas
from tidegate.gateway.waiting_bytes import WaitingBytes
from tidegate.runs.config import Config
from tidegate.runs.issuer_sections import IssuerSection
from tidegate.runs.serve_section import ServeSection
from tidegate.store.announcements import StoredAnnouncements
from tidegate.store.costs import Costs
from tidegate.store.principals import Principals
from tidegate.store.version_readers import now
from tidegate.store.webhooks import StoredWebhooks

__all__ = ["BrokerPart", "OpenBroker"]

_LOG = logging.getLogger("tidegate.gateway")
#: Threads that wait for disks and databases, or compute, for requests; and those that decode large bodies, of which
#: each takes many times its room meanwhile.
_THREADS, _DECODING = 16, 2


class BrokerPart(Protocol):
    """What works in the event loop of a gateway between requests. It is ready once what it does can be relied on."""

    @property
    def is_ready(self) -> bool: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class OpenBroker(Closing):
    """The parts of a broker that a gateway uses. ``clock`` tells microseconds since 1970. Another process that does
    what gateways do (``tidegate/mqtt``) is none: it counts, and is not counted.
    """

    def __init__(self, config: Config, *, clock: Callable[[], int] = now, is_gateway: bool = True) -> None:
        data = config.made()
        if data is None:
            raise SettingError("a data directory, [run] data, of a broker", "none", str(config.file))
        self.config, self.data, self.clock = config, data, clock
        self.limits: ServeSection = config.serve
        self.webhook_rules = rules_of(config.webhooks)
        """Which addresses webhooks may have."""
        self.ahead = config.run.allowed_ahead()
        """Seconds that publications may be dated ahead of the moment at which they come; None for any number."""
        self.threads, self.large_bodies = anyio.CapacityLimiter(_THREADS), anyio.CapacityLimiter(_DECODING)
        self.budget, self.rates, self.counts = BodyBudget(self.limits.max_bodies), Rates(), Counts()
        self.waiting, self.valid_quotas = WaitingBytes(self.limits.max_waiting), ValidQuotas()
        self.free_room, self.deadlines = FreeRoom(data.path), Deadlines()
        self.rehearsal_places, self.costs = RehearsalPlaces(), Costs(data.costs)
        with ExitStack() as opened:
            opened.enter_context(config.shapes.used())
            opened.enter_context(config.ontology.used())
            self.registry = opened.enter_context(config.subscriptions.open())
            self.principals = opened.enter_context(Principals(self.registry))
            self.announcements = opened.enter_context(StoredAnnouncements(self.registry))
            self.webhooks = opened.enter_context(StoredWebhooks(self.registry))
            self.log = opened.enter_context(data.open_log(version=lambda: self.registry.version, clock=clock))
            self.appender = opened.enter_context(Appender(self.log))
            self.cost_quota = opened.enter_context(CostQuota(self))
            self._opened = opened.pop_all()
        self.traces = None if config.traces.endpoint is None else Traces(config.traces, self.counts)
        self.delivery = Delivery(self)
        audit = Audit(counts=self.counts)
        issuers = Issuers(config.issuers, counts=self.counts, time_of_day=clock)
        self.access = Access(
            self.principals, issuers=issuers, audit=audit, seen=self.delivery.note_seen, time_of_day=clock
        )
        self.numbers = GatewayNumbers(data.run / "numbers", self.counts, is_gateway=is_gateway)
        self.status = StatusReader(self)
        self.parts: list[BrokerPart] = [self.numbers, self.access, self.appender, self.waiting, self.delivery]
        """What ``start`` starts, in this order."""
        if self.traces is not None:
            self.parts.insert(0, self.traces)
        self._started: list[BrokerPart] = []
        self.closing = asyncio.Event()
        """Set when the gateway is to end: what waits for long, or goes on for ever, ends then by itself."""

    @property
    def has_mqtt(self) -> bool:
        """Whether this broker is bridged to an MQTT broker, and so delivers to that."""
        return self.config.mqtt is not None

    def is_told_by_mqtt(self, principal: str) -> bool:
        """Whether what a principal subscribes to can be delivered there."""
        mqtt = self.config.mqtt
        return mqtt is not None and (mqtt.principals is None or principal in mqtt.principals)

    async def start(self) -> None:
        """Start the parts that work between requests. If one cannot start, those before it are stopped."""
        try:
            for part in self.parts:
                await part.start()
                self._started.append(part)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop them, the last first; one that fails does not keep the others from being stopped."""
        while self._started:
            part = self._started.pop()
            try:
                await part.stop()
            except Exception:
                _LOG.exception("%s could not be stopped", type(part).__name__)

    def reload(self, limits: ServeSection, issuers: Sequence[IssuerSection] = ()) -> None:
        """Use other limits from now on, and take the JWTs of these issuers."""
        self.limits = limits
        self.access.issuers.reload(issuers)
        self.budget.most, self.waiting.most = limits.max_bodies, limits.max_waiting

    def close(self) -> None:
        self.numbers.close()
        self._opened.close()
