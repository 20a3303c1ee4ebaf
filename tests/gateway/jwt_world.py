"""Access in one process with an issuer in memory: clocks that a test sets, keys that it publishes, no tasks."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.gateway.issuing import AUDIENCE, NAME, TestIssuer
from tidegate.errors import SettingError
from tidegate.gateway.access import Access
from tidegate.gateway.audit import Audit
from tidegate.gateway.counts import Counts
from tidegate.gateway.issuers import Issuers
from tidegate.gateway.problems import RequestError
from tidegate.runs.issuer_sections import IssuerSection
from tidegate.store.principals import Principals

__all__ = ["BEGIN", "JwtWorld", "jwt_world", "section"]

#: When the clocks of a world begin, in seconds since 1970.
BEGIN = 1_800_000_000


def section(**more) -> IssuerSection:
    """The section of the issuer."""
    return IssuerSection(**{"issuer": NAME, "audience": (AUDIENCE,), "keys": "/keys.json", **more})


@cache
def _empty_registry() -> bytes:
    """A registry without anybody, which takes long to be made."""
    with tempfile.TemporaryDirectory() as directory:
        Principals(Path(directory) / "registry.db").close()
        return (Path(directory) / "registry.db").read_bytes()


class JwtWorld:
    """``issuer`` signs; ``access`` judges; ``now`` is what all clocks say, in seconds since 1970."""

    def __init__(self, directory: Path, *sections: IssuerSection) -> None:
        self.now = float(BEGIN)
        (directory / "registry.db").write_bytes(_empty_registry())
        self.principals = Principals(directory / "registry.db", clock=lambda: round(self.now * 1e6))
        self.issuer = TestIssuer(directory / "keys.json", clock=lambda: round(self.now))
        self.counts, self.fetches, self.is_away = Counts(), 0, False
        self.issuers = Issuers(
            sections or (section(),),
            counts=self.counts,
            fetch=self._fetch,
            clock=lambda: self.now,
            time_of_day=lambda: round(self.now * 1e6),
        )
        self.access = Access(
            self.principals,
            issuers=self.issuers,
            audit=Audit(lambda: self.now, self.counts),
            clock=lambda: self.now,
            time_of_day=lambda: round(self.now * 1e6),
        )

    async def _fetch(self, _: IssuerSection) -> tuple[bytes, str]:
        self.fetches += 1
        if self.is_away:
            raise SettingError("the keys of an issuer", "nothing", NAME)
        return self.issuer.file.read_bytes(), "memory"

    async def fetch(self) -> None:
        """Have the keys fetched now, as the task does that there is not."""
        for one in self.issuers._by_name.values():
            await one.keys.fetch()

    async def judged(self, token: str, address: str = "192.0.2.1") -> str:
        """ "accepted", or the cause for which a token is refused."""
        before = self.causes()
        try:
            await self.access.caller(token, address)
        except RequestError as refused:
            changed = [cause for cause, count in self.causes().items() if count != before.get(cause, 0)]
            return changed[0] if changed else f"{refused.status} {refused.code}"
        assert self.causes() == before
        return "accepted"

    def causes(self) -> dict[str, int]:
        return {cause: count for name, cause, count in self.counts.items() if name == "jwt_refused"}

    def documents(self, *keys: object) -> None:
        """Have the document of the issuer name these keys, as they are given."""
        self.issuer.file.write_text(json.dumps({"keys": list(keys)}))


@contextmanager
def jwt_world(directory: Path, *sections: IssuerSection):
    world = JwtWorld(directory, *sections)
    try:
        yield world
    finally:
        world.principals.close()
