"""Who calls: ``Access`` finds who holds the token of a request, and hears when a token is revoked or changed.

What a process knows of a token it believes while the database says, several times a second, that nothing was changed;
so a token that was revoked is refused by all gateways within a second. While the database does not answer, tokens that
are known hold for ten seconds more, then nobody comes in: who may was perhaps revoked meanwhile. JWTs of ``Issuers``
are tokens like others once they are verified, for as long as their keys are there. A caller who comes with wrong tokens
has to wait after a few, whatever tokens others have. Knows nothing of HTTP but the headers that carry tokens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

import anyio
from anyio.to_thread import run_sync

from tidegate.errors import StoreError, TidegateError, shown
from tidegate.gateway.audit import Audit
from tidegate.gateway.caller import CHALLENGE, Caller
from tidegate.gateway.issuers import Issuers
from tidegate.gateway.jwt_callers import issued_word, known_caller, still_admitted, written_caller
from tidegate.gateway.jwt_form import Cause, UnverifiedJwt, WrongJwt
from tidegate.gateway.known_tokens import Issued, KnownToken, KnownTokens
from tidegate.gateway.problems import RequestError
from tidegate.gateway.rates import Rates
from tidegate.gateway.refusal_counts import network_of
from tidegate.store.principals import Principals
from tidegate.store.token_secrets import LONGEST, looks_made
from tidegate.store.version_readers import now

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import HTTPConnection

    from tidegate.gateway.jwt_keys import VerifyingKey

__all__ = ["Access", "Caller", "address_of", "bearer_of", "nobody"]

_LOG = logging.getLogger("tidegate.gateway")
#: Seconds for which a process believes what the database said, between two questions whether anything was changed, and
#: for which it goes on without an answer.
_BELIEVED, _EVERY, _GRACE = 0.75, 0.2, 10.0
#: How many tokens a process knows.
_MOST_KNOWN = 100_000
#: Seconds to wait for the database to say who has a secret; after which it is asked again if it did not; and to wait
#: for one's turn.
_PATIENCE, _PAUSE, _TURN = 3.0, 1.0, 10.0
#: Wrong tokens that an address may bring in a second: of those that nobody can guess, and of those that somebody chose,
#: which take a core 50 ms each.
_WRONG_MADE, _WRONG_CHOSEN = 50.0, 5.0
#: How many are looked for at once.
_MADE_AT_ONCE, _CHOSEN_AT_ONCE = 4, 1
#: Words of JWTs that are written at once. They wait for whoever else writes, so they have turns of their own.
_WRITTEN_AT_ONCE = 2
#: So many tokens are asked for anew at once.
_AT_A_TIME = 1000
#: Seconds between two notes in the database that tokens are used, and after which one is noted again.
_NOTES, _NOTED = 60.0, 3600.0


class _Secret(NamedTuple):
    """A secret that nobody here knows; what it says if it is a JWT, and why it is none if it only begins as one."""

    text: str
    jwt: UnverifiedJwt | None = None
    wrong: WrongJwt | None = None

    @property
    def is_cheap(self) -> bool:
        """Whether it takes little to see that it is wrong: one that somebody may have chosen takes tens of ms."""
        return self.jwt is not None or looks_made(self.text)


class _Answer(NamedTuple):
    """Who has a secret. If that is nobody, and ``issued`` is there, what it says is to be written first."""

    caller: Caller | None
    issued: Issued | None
    changes: int


class Access:
    """Finds callers. Used in the event loop of one gateway, as a part of its broker that works between requests."""

    def __init__(
        self,
        principals: Principals,
        *,
        issuers: Issuers | None = None,
        audit: Audit | None = None,
        seen: Callable[[set[str]], None] = lambda principals: None,
        clock: Callable[[], float] = monotonic,
        time_of_day: Callable[[], int] = now,
    ) -> None:
        self._principals, self._clock, self._time_of_day = principals, clock, time_of_day
        self.issuers = Issuers() if issuers is None else issuers
        self._seen = seen
        self.audit = Audit(clock) if audit is None else audit
        self._known = KnownTokens(_MOST_KNOWN)
        self._wrong = Rates(clock)
        self._changes, self._confirmed_at, self._away_until, self._noted_at = -1, float("-inf"), float("-inf"), clock()
        self._turns = {True: anyio.CapacityLimiter(_MADE_AT_ONCE), False: anyio.CapacityLimiter(_CHOSEN_AT_ONCE)}
        self._threads = anyio.CapacityLimiter(_MADE_AT_ONCE + _CHOSEN_AT_ONCE + 2)
        self._writing = anyio.CapacityLimiter(_WRITTEN_AT_ONCE)
        #: Whether all tokens are known as they were after so many changes.
        self._is_all_sure = True
        self._task: asyncio.Task[None] | None = None

    # --- who has a secret -------------------------------------------------------------------------------------------

    def find(self, secret: str) -> Caller | None:
        """Who holds a secret, if that is known; None if the database must be asked."""
        known = self._known.find(secret)
        if known is None or not self._is_believed(known, _BELIEVED):
            return None
        known.is_used = True
        return known.caller

    async def caller(self, secret: str, address: str) -> Caller:
        """Who holds a secret; refuses who is nobody, and an address that has to wait."""
        found = self.find(secret)
        if found is not None:
            return found
        known = self._known.find(secret)
        if known is None:
            asked = self._taken_apart(secret, address)
            self._expect_patience(asked, address)
        elif self._clock() < self._away_until and self._is_believed(known, _GRACE):
            return known.caller
        else:
            asked = self._taken_apart(secret, address)
        if self._clock() >= self._away_until:
            with suppress(TimeoutError, StoreError):
                return await self._asked(asked, address)
            self._away_until = self._clock() + _PAUSE
            if known is not None and self._is_believed(known, _GRACE):
                return known.caller
        raise RequestError(503, "store", "a database that says who has this token", "one that does not answer")

    def _taken_apart(self, secret: str, address: str) -> _Secret:
        """A secret, with what it says if it is a JWT. What only begins as one does may be what somebody chose."""
        if not self.issuers.is_for_us(secret):
            return _Secret(secret)
        try:
            return _Secret(secret, self.issuers.unverified(secret))
        except WrongJwt as wrong:
            asked = _Secret(secret, wrong=wrong)
            if wrong.cause is Cause.FORM:
                return asked
            self._expect_patience(asked, address)
            raise self._refused(asked, address, wrong) from None

    async def _asked(self, secret: _Secret, address: str) -> Caller:
        if secret.jwt is None and len(secret.text) > LONGEST:
            raise self._refused(secret, address, secret.wrong)
        try:
            keys = () if secret.jwt is None else await self.issuers.candidates(secret.jwt)
            return await self._in_turn(secret, keys, address)
        except WrongJwt as wrong:
            raise self._refused(secret, address, wrong) from None

    async def _in_turn(self, secret: _Secret, keys: Sequence[VerifyingKey], address: str) -> Caller:
        """Look for who has a secret, few at a time."""
        turns = self._turns[secret.is_cheap]
        try:
            with anyio.fail_after(_TURN):
                await turns.acquire()
        except TimeoutError:
            raise RequestError(503, "busy", "a turn to be looked for", "many others before") from None
        try:
            if (found := self.find(secret.text)) is not None:  # somebody else has asked meanwhile
                return found
            if self._known.find(secret.text) is None:
                self._expect_patience(secret, address)
            asked_at = self._clock()
            with anyio.fail_after(_PATIENCE):
                answer = await run_sync(self._look_up, secret, keys, limiter=self._threads, abandon_on_cancel=True)
        finally:
            turns.release()
        if answer.issued is not None and answer.caller is None:
            answer = await self._written(secret, answer.issued)
        if answer.caller is None:
            raise self._refused(secret, address, secret.wrong)
        known = KnownToken(answer.caller, asked_at, answer.changes, answer.issued)
        self._known.put(secret.text, known)
        self._is_all_sure = self._is_all_sure and answer.changes == self._changes
        return known.caller

    def _look_up(self, secret: _Secret, keys: Sequence[VerifyingKey]) -> _Answer:
        """Ask the database. The changes first: what comes after them is heard of."""
        changes = self._principals.changes
        if secret.jwt is not None:
            issued = issued_word(self._principals, self.issuers.verified(secret.jwt, keys))
            return _Answer(known_caller(self._principals, secret.text, issued), issued, changes)
        holder = self._principals.holder(secret.text, note_use=False)
        return _Answer(None if holder is None else Caller(holder), None, changes)

    async def _written(self, secret: _Secret, issued: Issued) -> _Answer:
        """Have the principal of a JWT made, or its newer word noted."""

        def work() -> _Answer:
            changes = self._principals.changes
            return _Answer(written_caller(self._principals, secret.text, issued), issued, changes)

        try:
            with anyio.fail_after(_TURN):
                return await run_sync(work, limiter=self._writing, abandon_on_cancel=True)
        except TimeoutError:
            raise RequestError(503, "busy", "a turn to note what a token says", "many others before") from None

    def _is_believed(self, known: KnownToken, seconds: float) -> bool:
        said_at = known.asked_at
        if known.changes == self._changes:
            said_at = max(said_at, self._confirmed_at)
        token = known.caller.holder.token
        if self._clock() >= said_at + seconds:
            return False
        if known.issued is not None and not self.issuers.trust(known.issued.token):
            return False
        return token.expires is None or token.holds_at(self._time_of_day())

    def _expect_patience(self, secret: _Secret, address: str) -> None:
        wait = self._wrong.wait(*_bucket(secret, address))
        if wait > 0:
            headers = {"Retry-After": str(max(1, round(wait)))}
            raise RequestError(429, "rate", "a token that there is", "many that there are not", headers=headers)

    def _refused(self, secret: _Secret, address: str, wrong: WrongJwt | None = None) -> RequestError:
        self._known.forget(secret.text)
        self._wrong.take(*_bucket(secret, address))
        if wrong is None:
            self.audit.refused("authenticate", "a token that there is not", address=address)
            return nobody("another")
        self.issuers.note_refused(wrong)
        self.audit.refused("authenticate", f"a JWT that is not taken: {wrong.cause}", address=address)
        return nobody(wrong.got)

    # --- whether a token still holds --------------------------------------------------------------------------------

    def is_valid(self, caller: Caller) -> bool:
        """Whether the token of a caller still holds: what is open for it must be closed if not. Asks nobody."""
        known = self._known.of(caller.token)
        if known is None or not self._is_believed(known, _GRACE) or known.caller.read != caller.read:
            return False
        known.is_used = True
        return True

    async def refresh(self) -> None:
        """Ask the database whether anything was changed, and take what was. Also right after a change made here."""
        asked_at = self._clock()
        try:
            changes = await run_sync(self._changes_now, limiter=self._threads, abandon_on_cancel=True)
            if changes != self._changes or not self._is_all_sure:
                self._is_all_sure = True
                await self._renew(changes, asked_at)
        except StoreError as error:
            if self._clock() >= self._away_until:
                _LOG.error("who may come in is not known: %s", error)
            self._away_until, self._is_all_sure = self._clock() + _PAUSE, False
            return
        self._changes, self._confirmed_at, self._away_until = changes, asked_at, float("-inf")

    def _changes_now(self) -> int:
        return self._principals.changes

    async def _renew(self, changes: int, asked_at: float) -> None:
        """Ask anew for all that is known, a few at a time, so that requests are answered meanwhile."""
        ids = self._known.ids(other_than=changes)
        for at in range(0, len(ids), _AT_A_TIME):
            some = ids[at : at + _AT_A_TIME]
            issued = self._known.issued(some)
            found = await run_sync(self._callers_now, some, issued, limiter=self._threads, abandon_on_cancel=True)
            self._known.renew(some, found, asked_at, changes)

    def _callers_now(self, ids: Sequence[str], issued: Mapping[str, Issued]) -> dict[str, Caller]:
        """Who has tokens now; ``issued`` is what those said that are JWTs."""
        holders = self._principals.holders([id for id in ids if id not in issued])
        return {id: Caller(holder) for id, holder in holders.items()} | still_admitted(self._principals, issued)

    @property
    def is_ready(self) -> bool:
        """Whether what is known of tokens is confirmed again and again."""
        return self._task is not None

    async def start(self) -> None:
        await self.refresh()
        await self.issuers.start()
        self._task = asyncio.create_task(self._keep_confirmed(), name="tidegate-access")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
            await self.issuers.stop()
            self.audit.close()
            await self._note_uses()

    async def _keep_confirmed(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            try:
                self.audit.tick()
                await self.refresh()
                if self._clock() >= self._noted_at + _NOTES:
                    self._noted_at = self._clock()
                    await self._note_uses()
            except Exception:
                _LOG.exception("tokens could not be confirmed")

    async def _note_uses(self) -> None:
        """Note in the database, an hour after the last time, which tokens were used."""
        moment = self._clock()
        due = [
            known
            for known in self._known.all()
            if known.is_used and (known.noted_at is None or moment >= known.noted_at + _NOTED)
        ]
        with suppress(TidegateError):  # it is tried again
            if due:
                tokens = [known.caller.holder.token for known in due if known.issued is None]
                await run_sync(self._principals.note_uses, tokens, limiter=self._threads, abandon_on_cancel=True)
            self._seen({known.caller.name for known in due})
            for known in due:
                known.noted_at, known.is_used = moment, False


def _bucket(secret: _Secret, address: str) -> tuple[str, float]:
    """The bucket of wrong tokens of an address, and its rate."""
    place = network_of(address)
    return (f"made {place}", _WRONG_MADE) if secret.is_cheap else (f"chosen {place}", _WRONG_CHOSEN)


def bearer_of(header: str | None) -> str | None:
    """The secret of an ``Authorization`` header; None without one."""
    if header is None:
        return None
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise nobody(f"the scheme {shown(scheme)}" if scheme.lower() != "bearer" else "none after Bearer")
    return secret.strip()


def nobody(got: str) -> RequestError:
    """The request says not, or wrongly, who makes it."""
    return RequestError(401, "unauthorized", "Authorization: Bearer and a token", got, headers=CHALLENGE)


def address_of(connection: HTTPConnection) -> str:
    """Where a request comes from, as the server says; empty where there is no address, as with a Unix socket."""
    return connection.client.host if connection.client else ""
