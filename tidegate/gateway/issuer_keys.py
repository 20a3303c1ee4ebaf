"""The keys of one issuer as time passes: fetched now and then, and sooner where a token names a key that is not known.

One task fetches, so there is never more than one request on its way, and there are seconds between two whatever tokens
come. A key that the issuer names no more is gone with the next fetch. While the issuer cannot be reached, the keys that
are known hold for as long as the section says, then none does. Knows no token.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from time import monotonic

from tidegate.errors import TidegateError
from tidegate.gateway.jwt_keys import KeySet
from tidegate.gateway.key_fetch import Fetch
from tidegate.runs.issuer_sections import IssuerSection

__all__ = ["IssuerKeys", "KeysState"]

_LOG = logging.getLogger("tidegate.gateway")
#: Seconds between two fetches at least, and after a failure: twice as long each time, up to the longest.
_PAUSE, _AFTER_FAILURE, _LONGEST_PAUSE = 5.0, 1.0, 60.0
#: Seconds that a fetch may take, with its turn, before keys are older than they may be.
_SLACK = 30.0
_NEVER = float("-inf")


class KeysState(StrEnum):
    """How the keys of an issuer stand."""

    UNKNOWN = "unknown"
    """They were never fetched."""
    KNOWN = "known"
    STALE = "stale"
    """They were fetched, and cannot be at present: they hold for a while."""
    LOST = "lost"
    """They cannot be fetched for longer than they hold."""


class IssuerKeys:
    """Used in the event loop of one gateway. ``fetch`` gets the document; ``count`` is told how each fetch ended."""

    def __init__(
        self,
        section: IssuerSection,
        fetch: Fetch,
        *,
        count: Callable[[str], None] = lambda outcome: None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._section, self._fetch, self._count, self._clock = section, fetch, count, clock
        self.keys = KeySet()
        self.place: str | None = section.keys
        """Where they were found."""
        self.fetched_at, self._asked_at = _NEVER, _NEVER
        self._failures = 0
        self.error: str | None = None
        """Why the last fetch failed."""
        self._wanted, self._done = asyncio.Event(), asyncio.Event()
        self._is_fetching = False
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> KeysState:
        """How they stand now."""
        if self.fetched_at == _NEVER:
            return KeysState.UNKNOWN
        section = self._section
        if self._clock() > self.fetched_at + max(section.refresh, _PAUSE) + section.outage + _SLACK:
            return KeysState.LOST
        return KeysState.KNOWN if self.error is None else KeysState.STALE

    @property
    def hold(self) -> bool:
        """Whether what is signed by one of them is believed."""
        return self.state in (KeysState.KNOWN, KeysState.STALE)

    @property
    def due_in(self) -> float:
        """Seconds until they are fetched again if nobody asks for it."""
        if self._failures:
            wait = min(_AFTER_FAILURE * 2.0 ** min(self._failures - 1, 10), _LONGEST_PAUSE)
        else:
            wait = max(self._section.refresh, _PAUSE)
        return max(0.0, self._asked_at + wait - self._clock())

    @property
    def may_be_asked_in(self) -> float:
        """Seconds until they may be fetched because somebody asks for it."""
        return max(0.0, self._asked_at + _PAUSE - self._clock())

    async def fetch(self) -> None:
        """Fetch them now."""
        self._asked_at = self._clock()
        self._wanted.clear()
        try:
            document, place = await self._fetch(self._section)
            found = KeySet.parsed(document, place)
        except TidegateError as wrong:
            self._failures += 1
            self._count("failed")
            if self.error is None:
                _LOG.error("the keys of the issuer %s cannot be fetched: %s", self._section.issuer, wrong)
            self.error = str(wrong)
            return
        finally:
            self._done.set()
            self._done = asyncio.Event()
        if self.error is not None:
            _LOG.warning("the keys of the issuer %s are fetched again", self._section.issuer)
        self._count("same" if found == self.keys else "changed")
        self.keys, self.place, self.fetched_at = found, place, self._clock()
        self._failures, self.error = 0, None

    async def fetched_sooner(self, patience: float) -> bool:
        """Have them fetched because one is missing, and wait for that; False if that was done just now."""
        if self._task is None:
            return False
        if self.may_be_asked_in > 0 and not self._is_fetching:
            self._count("too_soon")
            return False
        done = self._done
        if not self._is_fetching:
            self._wanted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await done.wait()
        return done.is_set()

    # --- as time passes ---------------------------------------------------------------------------------------------

    def take_over(self, other: IssuerKeys) -> None:
        """Know what the keys of another section of the same issuer are, if they come from the same place."""
        mine, its = self._section, other._section
        if (mine.keys, mine.ca) == (its.keys, its.ca):
            self.keys, self.place, self.fetched_at = other.keys, other.place, other.fetched_at

    def want(self) -> None:
        """Have them fetched as soon as they may be."""
        self._wanted.set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_fetched(), name="tidegate-issuer-keys")

    def cancel(self) -> None:
        """Fetch them no more."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _keep_fetched(self) -> None:
        while True:
            self._is_fetching = True
            try:
                await self.fetch()
            except Exception:
                _LOG.exception("the keys of the issuer %s cannot be fetched", self._section.issuer)
            self._is_fetching = False
            with suppress(TimeoutError):
                async with asyncio.timeout(self.due_in):
                    await self._wanted.wait()
            await asyncio.sleep(self.may_be_asked_in if self._wanted.is_set() else 0.0)
