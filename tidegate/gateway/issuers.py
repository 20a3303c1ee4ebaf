"""``Issuers``: whose JWTs a gateway takes, and what one that it takes says.

A JWT is taken apart, its issuer and key are found, and then its signature is verified, in this order, so that a wrong
one costs one signature at most. Knows no principals: what a token says of one is admitted by ``Access``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

from tidegate.extras import require
from tidegate.gateway.counts import Counts
from tidegate.gateway.jwt_claims import IssuedToken, issued_token
from tidegate.gateway.jwt_form import Cause, UnverifiedJwt, WrongJwt, looks_like_jwt, unverified
from tidegate.gateway.problems import RequestError
from tidegate.runs.issuer_sections import IssuerSection
from tidegate.store.version_readers import now

if TYPE_CHECKING:
    from tidegate.gateway.issuer_keys import IssuerKeys
    from tidegate.gateway.jwt_keys import VerifyingKey
    from tidegate.gateway.key_fetch import Fetch

__all__ = ["Issuers"]

#: Seconds that a request waits for keys that are being fetched.
_PATIENCE = 5.0


class _Issuer:
    """An issuer, its keys, and why tokens of it were refused here."""

    def __init__(self, section: IssuerSection, keys: IssuerKeys) -> None:
        self.section, self.keys = section, keys
        self.refused = Counter[Cause]()


class Issuers:
    """The issuers of one gateway, used in its event loop; ``verified`` may be called in threads."""

    def __init__(
        self,
        sections: Sequence[IssuerSection] = (),
        *,
        counts: Counts | None = None,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = monotonic,
        time_of_day: Callable[[], int] = now,
    ) -> None:
        self._counts, self._fetch = Counts() if counts is None else counts, fetch
        self._clock, self._time_of_day = clock, time_of_day
        self._is_started = False
        self._by_name = {one.issuer: self._made(one) for one in sections}

    def _made(self, section: IssuerSection) -> _Issuer:
        require("jwt", "[[issuers]]")
        from tidegate.gateway.issuer_keys import IssuerKeys
        from tidegate.gateway.key_fetch import fetched

        def count(outcome: str) -> None:
            self._counts.add("issuer_keys", outcome)

        return _Issuer(section, IssuerKeys(section, self._fetch or fetched, count=count, clock=self._clock))

    def __len__(self) -> int:
        return len(self._by_name)

    def is_for_us(self, secret: str) -> bool:
        """Whether a secret is to be taken for a JWT."""
        return bool(self._by_name) and looks_like_jwt(secret)

    # --- one token --------------------------------------------------------------------------------------------------

    def unverified(self, secret: str) -> UnverifiedJwt:
        """What a JWT says, if it can be read."""
        found = unverified(secret, max(one.section.max_length for one in self._by_name.values()))
        issuer = self._by_name.get(found.issuer)
        if issuer is not None and len(secret) > issuer.section.max_length:
            raise WrongJwt(Cause.FORM, found.issuer)
        return found

    async def candidates(self, jwt: UnverifiedJwt) -> Sequence[VerifyingKey]:
        """The keys that a JWT may be signed with, by what it says; they are fetched first if there is none such."""
        issuer = self._by_name.get(jwt.issuer)
        if issuer is None:
            raise WrongJwt(Cause.ISSUER)
        keys = issuer.keys
        if jwt.algorithm not in issuer.section.algorithms:
            raise WrongJwt(Cause.KEY, jwt.issuer)
        found = keys.keys.candidates(jwt.key, jwt.algorithm)
        if (not found or not keys.hold) and await keys.fetched_sooner(_PATIENCE):
            found = keys.keys.candidates(jwt.key, jwt.algorithm)
        if not keys.hold:
            got = "an issuer that cannot be reached, or says nothing that can be used"
            raise RequestError(503, "keys", "the keys of the issuer of this token", got)
        if not found:
            raise WrongJwt(Cause.KEY, jwt.issuer)
        return found

    def verified(self, jwt: UnverifiedJwt, candidates: Sequence[VerifyingKey]) -> IssuedToken:
        """What a JWT says that one of these keys has signed, if it is for us and holds now."""
        issuer = self._by_name.get(jwt.issuer)
        if issuer is None:
            raise WrongJwt(Cause.ISSUER)
        for key in candidates:
            if key.has_signed(jwt.signed, jwt.signature, jwt.algorithm):
                return issued_token(jwt, issuer.section, key.fingerprint, self._time_of_day())
        raise WrongJwt(Cause.SIGNATURE, jwt.issuer)

    def trust(self, token: IssuedToken) -> bool:
        """Whether a token that was verified is one that would be again, but for its time: its key is still there."""
        issuer = self._by_name.get(token.section.issuer)
        if issuer is None or issuer.section is not token.section:
            return False
        return token.key in issuer.keys.keys and issuer.keys.hold

    def note_refused(self, wrong: WrongJwt) -> None:
        """Count a token that is refused."""
        self._counts.add("jwt_refused", wrong.cause)
        if wrong.issuer is not None and (issuer := self._by_name.get(wrong.issuer)) is not None:
            issuer.refused[wrong.cause] += 1

    # --- as time passes ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._is_started = True
        for one in self._by_name.values():
            one.keys.start()

    async def stop(self) -> None:
        self._is_started = False
        for one in self._by_name.values():
            await one.keys.stop()

    def reload(self, sections: Sequence[IssuerSection]) -> None:
        """Take these issuers from now on. Of those that are as they were, keys and tokens stay known, and of those
        whose keys come from where they came from, the keys; all keys are fetched again.
        """
        before, found = self._by_name, dict[str, _Issuer]()
        for section in sections:
            there = before.get(section.issuer)
            if there is not None and there.section == section:
                found[section.issuer] = there
                continue
            found[section.issuer] = made = self._made(section)
            if there is not None:
                made.keys.take_over(there.keys)
        self._by_name = found
        for issuer in found.values():
            if issuer in before.values():
                issuer.keys.want()
            elif self._is_started:
                issuer.keys.start()
        for issuer in before.values():
            if issuer not in found.values():
                issuer.keys.cancel()

    def described(self) -> list[dict[str, Any]]:
        """How the issuers stand, for people who look after the broker."""
        return [self._described(one) for one in self._by_name.values()]

    def _described(self, one: _Issuer) -> dict[str, Any]:
        keys, age = one.keys, self._clock() - one.keys.fetched_at
        at = None if age == float("inf") else datetime.fromtimestamp(self._time_of_day() / 1e6 - age, UTC)
        return {
            "issuer": one.section.issuer,
            "state": keys.state.value,
            "keys": len(keys.keys),
            "key_ids": [key.id for key in keys.keys.keys],
            "place": keys.place,
            "fetched_at": None if at is None else at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "error": keys.error,
            "refused": {cause.value: count for cause, count in sorted(one.refused.items())},
        }
