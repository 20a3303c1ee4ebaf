"""As whom the bridge publishes: a principal of the broker, with the sources that ``[mqtt]`` allows, and its quotas as
they are now.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync

from tidegate.errors import SettingError, TidegateError
from tidegate.gateway.caller import Caller
from tidegate.runs.mqtt_section import MqttSection
from tidegate.store.principals import Holder, Principal, Token

if TYPE_CHECKING:
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["Publisher"]

_LOG = logging.getLogger("tidegate.mqtt")
#: Seconds between two looks at the quotas.
_EVERY = 5.0


class Publisher:
    """The principal of a section, which is made if there is none. It has no secret: nobody else can be it by this."""

    def __init__(self, broker: OpenBroker, section: MqttSection) -> None:
        self._broker, self._name = broker, section.principal
        made = datetime.now(UTC)
        self._token = Token("mqtt", section.principal, ("publisher",), section.sources, made, None, None)
        self.caller = Caller(Holder(self._token, self._principal()))

    def _principal(self) -> Principal:
        principals = self._broker.principals
        try:
            return principals.principal(self._name)
        except SettingError:  # there is none yet
            return principals.put(self._name, keep=("read", "quotas"))

    async def keep_current(self) -> None:
        """Look again and again how many publications it may make."""
        while True:
            await asyncio.sleep(_EVERY)
            try:
                found = await run_sync(self._broker.principals.principal, self._name, limiter=self._broker.threads)
                self.caller = Caller(Holder(self._token, found))
            except TidegateError as error:
                _LOG.error("the quotas of %s are not known: %s", self._name, error)

    def wait(self) -> float:
        """Seconds to wait until it may publish, by its quota; 0 if it may now."""
        rate = self.caller.quotas.get("publications_per_second")
        if rate is None:
            return 0.0
        return self._broker.rates.wait(f"publications of {self._name}", rate) if rate > 0 else _EVERY

    def most(self) -> int:
        """Publications that are to go together at most: as many as a second brings, by its quota."""
        rate = self.caller.quotas.get("publications_per_second")
        return sys.maxsize if rate is None else max(1, int(rate))
