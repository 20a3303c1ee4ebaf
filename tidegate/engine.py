"""The engine in process: subscriptions in, publications in, notifications out, without Spark.

For edge devices, notebooks and tests; the pipeline on Spark runs the same index.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Self, overload

import pyarrow as pa

from tidegate.errors import PublicationError, SettingError, SubscriptionError, TidegateError, shown
from tidegate.explain import Explanation, explain
from tidegate.index import ArrowBatch, Batch, Index, ObjectBatch, outcome
from tidegate.index.catalogue import Catalogue
from tidegate.index.snapshot import load, save
from tidegate.language import DEFAULT_LIMITS, Attribute, Call, Instant, Limits, Node, from_json, parse, render_instant
from tidegate.model import Notification, Publication, Subscription, micros, moment
from tidegate.predicates import Filter, compile_filter

__all__ = ["Engine"]


class Engine:
    """Standing subscriptions, matched with publications as they come. Threads may share an engine.

    >>> engine = Engine()
    >>> engine.subscribe(Subscription(id="s1", subscriber="ann", where="no2 > 40"))
    >>> len(engine)
    1
    """

    def __init__(self, subscriptions: Iterable[Subscription] = (), *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._index, self._catalogue = Index(), Catalogue()
        self._changing = threading.Lock()
        self._now: datetime | None = None
        if isinstance(subscriptions, Subscription) or not isinstance(subscriptions, Iterable):
            raise SubscriptionError("subscriptions, one after the other", shown(subscriptions))
        with without_garbage_collection():
            for subscription in subscriptions:
                self.subscribe(subscription)
            _ = self._index.segments  # build now, not at the first publication

    # --- subscriptions ----------------------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        """Take a subscription; it sees every publication from now on. Nothing changes if it is refused."""
        if not isinstance(subscription, Subscription):
            raise SubscriptionError("a Subscription", shown(subscription))
        try:
            filter = compiled(subscription, self._limits)
            with self._changing:
                number = self._catalogue.add(subscription)
                try:
                    self._index.add(number, filter)
                except TidegateError:
                    self._catalogue.remove(subscription.id)
                    raise
        except TidegateError as error:
            error.at = f"{error.at} of subscription {shown(subscription.id)}" if error.at else shown(subscription.id)
            raise

    def unsubscribe(self, id: str) -> None:
        """End a subscription."""
        with self._changing:
            self._index.remove(self._catalogue.remove(id))

    def __len__(self) -> int:
        return len(self._catalogue)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and id in self._catalogue.numbers

    def __iter__(self) -> Iterator[Subscription]:
        """The subscriptions, in the order they came."""
        return (self._catalogue.subscription(number) for number in list(self._catalogue.numbers.values()))

    # --- publications -----------------------------------------------------------------------------------------------

    @overload
    def publish(self, publications: Sequence[Publication]) -> list[Notification]: ...
    @overload
    def publish(self, publications: pa.Table | pa.RecordBatch, *, grouped: bool = False) -> pa.Table: ...

    def publish(
        self, publications: Sequence[Publication] | pa.Table | pa.RecordBatch, *, grouped: bool = False
    ) -> list[Notification] | pa.Table:
        """Match publications; notifications come ordered by time and subscription id.

        An Arrow table gives an Arrow table: a row per notification, or with ``grouped`` one per publication that
        matched something, with the ids of its subscriptions in no particular order.
        """
        if isinstance(publications, pa.Table | pa.RecordBatch):
            batch: Batch = ArrowBatch(publications)
            matches = self._index.match(batch)
            return (outcome.grouped if grouped else outcome.flat)(batch, matches, self._catalogue)
        if grouped:
            raise SettingError("an Arrow table with grouped=True", shown(type(publications).__name__))
        if isinstance(publications, Publication | str | bytes | Mapping) or not isinstance(publications, Iterable):
            raise PublicationError("a list of publications or an Arrow table", shown(publications))
        batch = ObjectBatch(list(publications))
        return self._notifications(outcome.flat(batch, self._index.match(batch), self._catalogue))

    def advance(self, now: datetime) -> list[Notification]:
        """Tell the engine what time it is. Conditions on single publications have nothing to say to that."""
        if not isinstance(now, datetime) or now.tzinfo is None:
            raise SettingError("a datetime with a time zone", shown(now))
        if self._now is not None and now < self._now:
            raise SettingError(f"a time not before {self._now.isoformat()}", now.isoformat())
        self._now = now
        return []

    @staticmethod
    def _notifications(table: pa.Table) -> list[Notification]:
        columns = [
            table.column(name).to_pylist()
            for name in ("notification_id", "subscription_id", "subscriber", "publication_ids")
        ]
        times = [moment(m) for m in table.column("time").cast(pa.int64()).to_pylist()]
        return [
            Notification(id, subscription, subscriber, time, tuple(ids))
            for id, subscription, subscriber, ids, time in zip(*columns, times, strict=True)
        ]

    # --- looking ----------------------------------------------------------------------------------------------------

    def explain(self, id: str, publication: Publication) -> Explanation:
        """Why the subscription does, or does not, match the publication."""
        if not isinstance(publication, Publication):
            raise PublicationError("a Publication", shown(publication))
        subscription = self._catalogue.subscription(self._catalogue.number(id))
        node, bounds = condition(subscription, self._limits), activity(subscription)
        return explain(Call("and", (node, *bounds)) if bounds else node, publication)

    @property
    def index_bytes(self) -> int:
        """Bytes of the index: all arrays that matching reads."""
        return self._index.nbytes

    # --- keeping ----------------------------------------------------------------------------------------------------

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write a snapshot that ``load`` reads back without parsing anything."""
        with self._changing:
            save(self._index, self._catalogue, directory)

    @classmethod
    def load(cls, *directories: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> Engine:
        """The engine of a snapshot, or of several together; the arrays stay in their files until they are touched."""
        engine = cls(limits=limits)
        engine._index, engine._catalogue = load(*directories)
        return engine

    def close(self) -> None:
        """Wait for work aside to end. An engine can also be used in a ``with`` statement."""
        self._index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def condition(subscription: Subscription, limits: Limits) -> Node:
    """The expression of a subscription as a tree."""
    where = subscription.where
    return parse(where, limits) if isinstance(where, str) else from_json(where, limits)


def compiled(subscription: Subscription, limits: Limits) -> Filter:
    """The filter of a subscription, its time of activity included: that is a range of ``time`` like any other."""
    filter = compile_filter(condition(subscription, limits), subscription.where, limits)
    for bound in activity(subscription):
        filter &= compile_filter(bound)
    return filter


def activity(subscription: Subscription) -> list[Node]:
    """The time in which the subscription is active, as conditions."""
    bounds: list[Node] = []
    for op, when in ((">=", subscription.active_from), ("<", subscription.active_until)):
        if when is not None:
            at = micros(when)
            bounds.append(Call(op, (Attribute("time"), Instant(render_instant(at), at, False))))
    return bounds


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Loading makes many small objects and no cycles; looking for cycles would take a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
