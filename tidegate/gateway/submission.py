"""``Submission``: what one request wants to publish, from its items to what is said of each of them.

One item that is wrong refuses itself only. ``Appender`` calls ``lot`` and ``settle`` in its thread. Knows who publishes
only by what they may publish as, and no form of a body.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from tidegate.errors import TidegateError, shown
from tidegate.gateway.given_publications import Unreadable, made_publication
from tidegate.gateway.valid_quotas import BeyondQuota, QuotaValidity
from tidegate.model import Publication, micros, moment
from tidegate.records.json_values import stamp
from tidegate.store.log import Appended
from tidegate.store.log_intake import CheckedLots
from tidegate.store.validity_limits import ValidityLimits

__all__ = ["Lot", "Published", "Refused", "SimpleRecords", "Submission"]

#: No publication is that late.
_NEVER = 2**62

_SOURCE = "expected a source that the token may publish as"
_CONFLICT = "expected what the log has of the same source, id and phase, or another id; got something else"


class Refused(msgspec.Struct, frozen=True):
    """An item that was refused: its place among those given, why in one word, and what is wrong with it."""

    index: int
    code: str
    detail: str


class Published(msgspec.Struct):
    """What became of what was to be published.

    ``ids`` has those that were made, by place; ``position`` is the row of the last one that was accepted.
    """

    accepted: int = 0
    duplicates: int = 0
    refused: list[Refused] = []
    ids: dict[int, str] = {}
    position: int | None = None


class Lot(NamedTuple):
    """What ``Log.append_all`` takes: publications, and the places of those whose times were made."""

    publications: list[Publication]
    made_times: list[int]

    def one_by_one(self) -> list[Lot]:
        """A lot for each publication."""
        made = set(self.made_times)
        return [Lot([one], [0] if place in made else []) for place, one in enumerate(self.publications)]


class SimpleRecords(NamedTuple):
    """Items as JSON objects with id and time: places of those whose time was made, and the ids that were, by place."""

    records: list[dict[str, Any]]
    made_times: list[int]
    ids: dict[int, str]


class _BeyondQuota(NamedTuple):
    """An item that a quota does not allow, unless the log has it."""

    place: int
    publication: Publication
    has_made_time: bool
    detail: str


def _none_known(publications: Sequence[Publication]) -> Sequence[bool]:
    return [False] * len(publications)


class Submission:
    """Items, and what became of them: ``published``, or ``error`` if they could not be written.

    ``now`` is when they arrived, ``latest`` how late the time of one may be, both in microseconds since 1970. ``known``
    says which publications the log has: these are no more than there were, whatever the quota.
    """

    published: Published | None = None
    error: Exception | None = None
    checked: CheckedLots | None = None
    """Its publications as a batch of columns, if they were checked as such before it came to the appender."""

    def __init__(
        self,
        items: Sequence[Any],
        *,
        now: int,
        latest: int | None = None,
        covers: Callable[[str], bool] | None = None,
        limits: ValidityLimits | QuotaValidity | None = None,
        known: Callable[[Sequence[Publication]], Sequence[bool]] = _none_known,
    ) -> None:
        self.items, self.size = items, len(items)
        self.latest = _NEVER if latest is None else latest
        self._now, self._limits, self._covers, self._known = now, limits, covers, known
        self._covered = set[str]()
        self._refused, self._ids = list[Refused](), dict[int, str]()
        self._beyond_quota = list[_BeyondQuota]()
        self._places: Sequence[int] = []
        self._lot: Lot | None = None
        self._made: str | None = None

    def prepare(self) -> Lot:
        """What is to be appended: the items that are publications and may be published. Made once, by any thread."""
        if self._lot is None:
            self._lot, self._places = Lot([], []), (places := list[int]())
            for index, item in enumerate(self.items):
                try:
                    self._take(self._lot, places, index, item)
                except TidegateError as error:
                    self._refuse(index, error.code, str(error))
            if self._beyond_quota:
                self._take_repeated(self._lot, places)
            self.items = ()
        return self._lot

    def simple_records(self) -> SimpleRecords | None:
        """The items as objects with id and time, if all are objects of sources that may be published as: these are
        perhaps publications that can be checked together with others.
        """
        if not self.items or self._lot is not None or set(map(type, self.items)) != {dict}:
            return None
        found = SimpleRecords([], [], {})
        for index, item in enumerate(self.items):
            if "time" not in item:
                item = {**item, "time": stamp(moment(self._now))}
                found.made_times.append(index)
            if "id" not in item:
                found.ids[index] = f"{self._prefix()}-{index}"
                item = {**item, "id": found.ids[index]}
            found.records.append(item)
        if self._covers is not None:
            sources = {source if type(source := record.get("source")) is str else "" for record in found.records}
            if not all(map(self._covers, sources)):
                return None
        return found

    def use(self, simple: SimpleRecords) -> None:
        """Use its records as they are: they were checked and are all to be appended."""
        self._places, self._ids, self.items = range(len(simple.records)), simple.ids, ()

    def _take(self, lot: Lot, places: list[int], index: int, item: Any) -> None:
        if type(item) is Unreadable:
            self._refuse(index, item.code, item.detail)
            return
        made_time = made_id = None
        if type(item) is dict:
            if item.get("time") is None:
                item = {**item, "time": (made_time := moment(self._now))}
            if item.get("id") is None:
                item = {**item, "id": (made_id := f"{self._prefix()}-{index}")}
        found = made_publication(item)
        if self._covers is not None and found.source not in self._covered:
            if not self._covers(found.source):
                self._refuse(index, "source", f"{_SOURCE}; got {shown(found.source)}")
                return
            self._covered.add(found.source)
        if micros(found.time) > self.latest:
            latest = stamp(moment(self.latest))
            self._refuse(index, "ahead", f"expected a time up to {latest}; got {stamp(found.time)}")
            return
        if found.valid_until is not None and self._limits is not None:
            wrong = self._limits.refusal(micros(found.valid_until), self._now)
            if isinstance(wrong, BeyondQuota) and made_id is None:
                self._beyond_quota.append(_BeyondQuota(index, found, made_time is not None, str(wrong)))
                return
            if wrong is not None:
                self._refuse(index, "validity", str(wrong))
                return
        if made_time is not None:
            lot.made_times.append(len(lot.publications))
        if made_id is not None:
            self._ids[index] = made_id
        lot.publications.append(found)
        places.append(index)

    def _take_repeated(self, lot: Lot, places: list[int]) -> None:
        """Take what is beyond the quota and known, for the log to say what it is; refuse the rest."""
        beyond, self._beyond_quota = self._beyond_quota, []
        for one, is_known in zip(beyond, self._known([one.publication for one in beyond]), strict=True):
            if not is_known:
                self._refuse(one.place, "validity", one.detail)
                continue
            if one.has_made_time:
                lot.made_times.append(len(lot.publications))
            lot.publications.append(one.publication)
            places.append(one.place)

    def _prefix(self) -> str:
        """How the ids begin that are made for this submission; nobody else makes such ids."""
        if self._made is None:
            self._made = secrets.token_hex(12)
        return self._made

    def _refuse(self, index: int, code: str, detail: str) -> None:
        self._refused.append(Refused(index, code, detail))

    def settle(self, outcome: Appended | Exception) -> None:
        """Say what became of the lot."""
        if isinstance(outcome, Exception):
            self.error = outcome
            return
        for place in outcome.conflicts:
            self._refuse(self._places[place], "conflict", _CONFLICT)
        self._publish(outcome.accepted, outcome.duplicates, outcome.position)

    def settle_each(self, outcomes: Sequence[Appended | Exception]) -> None:
        """Say what became of each of the lot's publications, which were appended one by one."""
        accepted, duplicates, position = 0, 0, 0
        for index, outcome in zip(self._places, outcomes, strict=True):
            if isinstance(outcome, TidegateError):
                self._ids.pop(index, None)
                self._refuse(index, outcome.code, str(outcome))
            elif isinstance(outcome, Exception):
                self.error = outcome
            else:
                accepted, duplicates = accepted + outcome.accepted, duplicates + outcome.duplicates
                position = outcome.position if outcome.accepted else position
                if outcome.conflicts:
                    self._refuse(index, "conflict", _CONFLICT)
        self._publish(accepted, duplicates, position)

    def _publish(self, accepted: int, duplicates: int, end: int) -> None:
        refused = sorted(self._refused, key=attrgetter("index"))
        self.published = Published(accepted, duplicates, refused, self._ids, end - 1 if accepted else None)
