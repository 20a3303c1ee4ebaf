"""``GatewayNumbers``: what this gateway counts, and with that of the others the sums over all gateways of a broker."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from tidegate.gateway.counts import Counts
from tidegate.gateway.histograms import Histogram
from tidegate.gateway.metric_names import COUNT_PREFIX
from tidegate.gateway.process_numbers import ProcessNumbers, key_of
from tidegate.gateway.process_usage import own_usage
from tidegate.gateway.request_counts import RequestCounts
from tidegate.gateway.shared_numbers import SharedNumbers

__all__ = ["GatewayNumbers"]

_LOG = logging.getLogger("tidegate.gateway")
#: Seconds between two writes of what was counted, for the other gateways.
_EVERY = 1.0
#: One thread at a time adds up or writes.
_AT_ONCE = 1


class GatewayNumbers:
    """Counts in the event loop of a gateway, by one thread, and shares the counts through files in ``directory``."""

    is_ready = True

    def __init__(self, directory: Path, counts: Counts, *, is_gateway: bool = True) -> None:
        self._directory, self._counts, self._is_gateway = directory, counts, is_gateway
        self.requests = RequestCounts()
        self.matched, self.delivered = Histogram(), Histogram()
        """Seconds from accepted to matched, and from matched to delivered."""
        self._shared: SharedNumbers | None = None
        self._turn = anyio.CapacityLimiter(_AT_ONCE)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._write()
        self._task = asyncio.create_task(self._keep_written(), name="tidegate-numbers")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        await self._write()

    async def sums(self) -> ProcessNumbers:
        """What all gateways have counted, also those that live no more."""
        own = self._own()
        return await run_sync(lambda: self._opened().sums(own), limiter=self._turn)

    def close(self) -> None:
        if self._shared is not None:
            self._shared.close()
            self._shared = None

    async def _keep_written(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            await self._write()

    async def _write(self) -> None:
        own = self._own()
        try:
            await run_sync(lambda: self._opened().write(own), limiter=self._turn)
        except Exception:
            _LOG.exception("what was counted could not be written")

    def _opened(self) -> SharedNumbers:
        if self._shared is None:
            self._shared = SharedNumbers(self._directory)
        return self._shared

    def _own(self) -> ProcessNumbers:
        found, usage = ProcessNumbers(), own_usage()
        for name, cause, count in self._counts.items():
            found.counts[key_of(f"{COUNT_PREFIX}{name}_total", cause=cause)] = count
        for path, method, status, histogram in self.requests.items():
            answered = key_of("tidegate_http_requests_total", route=path, method=method, status=status)
            found.counts[answered] = sum(histogram.numbers[:-1])
            one = ProcessNumbers(
                histograms={key_of("tidegate_http_request_seconds", route=path, method=method): list(histogram.numbers)}
            )
            found.add(one)
        for stage, histogram in (("matched", self.matched), ("delivered", self.delivered)):
            found.histograms[key_of("tidegate_stage_seconds", stage=stage)] = list(histogram.numbers)
        if not self._is_gateway:
            return found
        found.counts[key_of("tidegate_gateway_cpu_seconds_total")] = usage.cpu_seconds
        found.levels[key_of("tidegate_gateway_memory_bytes")] = usage.memory_bytes
        found.levels[key_of("tidegate_gateways")] = 1
        return found
