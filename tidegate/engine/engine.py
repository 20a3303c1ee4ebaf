"""The engine in process: subscriptions in, publications in, notifications out, without Spark.

``Engine`` gives subscriptions without a pattern to an ``Index`` and those with one to ``PatternShards``. It is for edge
devices, notebooks and tests; the pipeline on Spark runs the same index and patterns. Knows nothing of Spark.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import pyarrow as pa

from tidegate.closing import Closing
from tidegate.engine.ahead import AheadCheck
from tidegate.engine.event_history import EventHistory
from tidegate.engine.explain import explain, explain_pattern
from tidegate.engine.explanation import Explanation
from tidegate.engine.pattern_shards import PatternShards
from tidegate.engine.renewal import compiled_anew
from tidegate.engine.settings import checked_keep, checked_lateness, kept_by
from tidegate.errors import PublicationError, SettingError, SubscriptionError, TidegateError, shown
from tidegate.index import ArrowBatch, Batch, Index, ObjectBatch, notification_tables
from tidegate.index.catalogue import Catalogue
from tidegate.index.ontology_answers import OntologyAnswers
from tidegate.index.small_tables import flat_of, publications_of
from tidegate.index.snapshot import load, save
from tidegate.language import DEFAULT_LIMITS, Limits
from tidegate.model import Notification, Publication, Subscription, micros
from tidegate.ontologies import current as ontologies
from tidegate.patterns import Pattern, Raised
from tidegate.predicates.ontology import asking
from tidegate.records.given import Given, Tabular, as_publications
from tidegate.subscriptions import bounded_expression, compile_subscription
from tidegate.subscriptions.bulk import without_garbage_collection
from tidegate.subscriptions.doubts import warn
from tidegate.time_zones import TimeZone, Zone

__all__ = ["Engine"]


class Engine(Closing):
    """Standing subscriptions, matched with publications as they come. Threads may share an engine.

    >>> engine = Engine()
    >>> engine.subscribe(Subscription(id="s1", subscriber="ann", where="no2 > 40"))
    >>> len(engine)
    1
    """

    def __init__(
        self,
        subscriptions: Iterable[Subscription] = (),
        *,
        lateness: timedelta = timedelta(0),
        limits: Limits = DEFAULT_LIMITS,
        keep: timedelta | None = None,
        history: EventHistory | None = None,
        ahead: timedelta | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._limits = limits
        self._ahead = AheadCheck.of(ahead, clock)
        self._index, self._catalogue = Index(), Catalogue()
        keep = kept_by(history, keep)
        self._stage = PatternShards(checked_lateness(lateness), limits.combinations, keep=checked_keep(keep, limits))
        if history is not None:
            if lateness:
                raise SettingError("no lateness for an engine with a history", shown(lateness))
            self._stage.attach(history)
        self._changing = threading.RLock()
        self._now: datetime | None = None
        self._shapeless = self._oversized = 0
        self._counting = threading.Lock()
        self._asked, self._renewed = OntologyAnswers(), 0
        if isinstance(subscriptions, Subscription) or not isinstance(subscriptions, Iterable):
            raise SubscriptionError("subscriptions, one after the other", shown(subscriptions))
        with without_garbage_collection():
            for subscription in subscriptions:
                self.subscribe(subscription)
            _ = self._index.segments  # build now, not at the first publication
            self._stage.settle()

    # --- subscriptions ----------------------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        """Take a subscription; it sees every publication from now on. Nothing changes if it is refused.

        Warns (``SubscriptionWarning``) of one that can hardly be meant as it is written.
        """
        if not isinstance(subscription, Subscription):
            raise SubscriptionError("a Subscription", shown(subscription))
        try:
            with asking() as asked:
                found = compile_subscription(subscription, self._limits)
            warn(subscription, found, self._limits)
            with self._changing:
                self._notice()
                number = self._catalogue.add(subscription)
                try:
                    if isinstance(found, Pattern):
                        self._stage.add(number, found)
                    else:
                        self._index.add(number, found)
                except Exception:
                    self._catalogue.remove(subscription.id)
                    raise
                if asked:
                    self._asked.note(number, asked)
        except TidegateError as error:
            error.at = f"{error.at} of subscription {shown(subscription.id)}" if error.at else shown(subscription.id)
            raise

    def unsubscribe(self, id: str) -> None:
        """End a subscription."""
        with self._changing:
            number = self._catalogue.remove(id)
            self._asked.forget(number)
            if number in self._stage.patterns:
                self._stage.remove(number)
            else:
                self._index.remove(number)

    def _notice(self) -> None:
        """If another ontology was loaded, compile anew the subscriptions whose meaning it changes, all at once."""
        if self._asked.version == ontologies.version():
            return
        with self._changing:
            if self._asked.version != ontologies.version():
                changed = self._asked.renew()
                if changed:
                    self._renew(changed)
                self._renewed = len(changed)

    def _renew(self, changed: list[int]) -> None:
        """Index subscriptions anew. Threads that match meanwhile use the old index; patterns wait for the lock."""
        with without_garbage_collection():
            renewed = compiled_anew(changed, self._catalogue, self._asked, self._limits)
            for before in renewed.patterns_before:
                self._stage.remove(before)
            for number, pattern in renewed.patterns:  # only after all that shared a filter were removed
                self._stage.add(number, pattern)
            index = self._index.changed(renewed.filters_before, renewed.filters)
        self._index, old = index, self._index
        old.close()
        renewed.warn_of_unknown()

    def __len__(self) -> int:
        return len(self._catalogue)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and id in self._catalogue.numbers

    def __iter__(self) -> Iterator[Subscription]:
        """The subscriptions, in the order they came."""
        return (self._catalogue.subscription(number) for number in list(self._catalogue.numbers.values()))

    # --- publications -----------------------------------------------------------------------------------------------

    @overload
    def publish(
        self,
        publications: Publication | Mapping[str, Any] | Sequence[Publication | Mapping[str, Any]],
        *,
        timezone: Zone = None,
    ) -> list[Notification]: ...
    @overload
    def publish(
        self, publications: Given, *, grouped: Literal[True], as_dictionary: bool = False, timezone: Zone = None
    ) -> pa.Table: ...
    @overload
    def publish(
        self, publications: Tabular, *, grouped: bool = False, as_dictionary: bool = False, timezone: Zone = None
    ) -> pa.Table: ...

    def publish(
        self, publications: Given, *, grouped: bool = False, as_dictionary: bool = False, timezone: Zone = None
    ) -> list[Notification] | pa.Table:
        """Match publications; notifications come ordered by time and subscription id.

        A publication, a dict as in JSON Lines, or a list of these gives a list. A table of Arrow, pandas, polars,
        GeoPandas or another library with ``__arrow_c_stream__`` gives an Arrow table, a row per notification. Times of
        dicts and tables that have no time zone are refused, unless ``timezone`` says which is meant.

        With ``grouped`` it is a table with a row per publication that matched something, with the ids of its
        subscriptions in no particular order. Notifications of patterns are grouped by the publication that raised them,
        with the time of the notification. With ``as_dictionary``, too, the ids are dictionary-encoded: nothing is
        faster within a process, but a table that leaves it takes the ids of all subscriptions along.
        """
        self._notice()
        zone = TimeZone.named(timezone) if timezone is not None else None
        if type(publications) is not list or not _are_objects(publications):
            publications = as_publications(publications, zone)
            if not isinstance(publications, list):
                return self._publish_table(publications, zone, grouped, as_dictionary)
        batch = ObjectBatch(list(publications))  # the caller's list may change
        if self._ahead is not None:
            batch = self._ahead.timely(batch)
        return self._grouped(batch, as_dictionary) if grouped else self._listed(batch)

    def _publish_table(
        self, table: pa.Table | pa.RecordBatch, zone: TimeZone | None, grouped: bool, as_dictionary: bool
    ) -> pa.Table:
        few = publications_of(table)
        batch: Batch = ArrowBatch(table, zone=zone) if few is None else ObjectBatch(few)
        if self._ahead is not None:
            batch = self._ahead.timely(batch)
        return self._grouped(batch, as_dictionary) if grouped else self._flat(batch)

    def _listed(self, batch: ObjectBatch) -> list[Notification]:
        found = notification_tables.listed(batch, self._index.match(batch), self._catalogue)
        raised = self._raised(batch)
        self._count(batch)
        return notification_tables.with_raised(found, raised, self._catalogue) if raised else found

    def _flat(self, batch: Batch) -> pa.Table:
        if isinstance(batch, ObjectBatch):
            return flat_of(self._listed(batch))
        plain = notification_tables.flat(batch, self._index.match(batch), self._catalogue)
        raised = self._raised(batch)
        self._count(batch)
        return notification_tables.flat_with_raised(plain, raised, self._catalogue)

    def _grouped(self, batch: Batch, as_dictionary: bool) -> pa.Table:
        plain = notification_tables.grouped(batch, self._index.match(batch), self._catalogue, as_dictionary)
        raised = self._raised(batch, ids=False)
        self._count(batch)
        return notification_tables.grouped_with_raised(plain, raised, self._catalogue, as_dictionary)

    def _count(self, batch: Batch) -> None:
        if batch.oversized or batch.shapeless:
            with self._counting:
                self._oversized += batch.oversized
                self._shapeless += batch.shapeless

    def _raised(self, batch: Batch, ids: bool = True) -> list[Raised]:
        if not self._stage.patterns:
            self._stage.note(batch)
            return []
        with self._changing:
            return self._stage.publish(batch, ids)

    def advance(self, now: datetime) -> list[Notification]:
        """Tell the engine what time it is: windows expire and silences are noticed, without any publication."""
        if not isinstance(now, datetime) or now.tzinfo is None:
            raise SettingError("a datetime with a time zone", shown(now))
        if self._now is not None and now < self._now:
            raise SettingError(f"a time not before {self._now.isoformat()}", now.isoformat())
        self._now = now
        self._notice()
        with self._changing:
            raised = self._stage.advance(micros(now))
        return notification_tables.with_raised([], raised, self._catalogue)

    # --- looking ----------------------------------------------------------------------------------------------------

    def explain(self, id: str, publication: Publication) -> Explanation:
        """Why the subscription does, or does not, match the publication, as if it came next.

        Nothing is changed. For a pattern the state of its shard is copied; publications wait meanwhile.
        """
        if not isinstance(publication, Publication):
            raise PublicationError("a Publication", shown(publication))
        self._notice()
        batch = ObjectBatch([publication])
        with self._changing:
            number = self._catalogue.number(id)
            node = bounded_expression(self._catalogue.subscription(number), self._limits)
            if number in self._stage.patterns:
                trial = self._stage.trial(number, batch)
                told = notification_tables.with_raised([], [trial.raised], self._catalogue)
                found = explain_pattern(node, publication, trial, told)
            else:
                found = explain(node, publication)
        if self._ahead is not None and self._ahead.refuses(batch) is not None:
            found = replace(found, held=False, reason="it is dated too far ahead, and so refused", told=())
        return found

    @property
    def index_bytes(self) -> int:
        """Bytes of the index: all arrays that matching reads."""
        return self._index.nbytes + self._stage.patterns.index.nbytes

    @property
    def state_bytes(self) -> int:
        """Bytes of what patterns remember."""
        return self._stage.nbytes

    @property
    def late(self) -> int:
        """Publications that came too late for patterns."""
        return self._stage.late

    @property
    def ahead(self) -> int:
        """Publications that were dated too far ahead of the engine's clock, and so not matched."""
        return 0 if self._ahead is None else self._ahead.refused

    @property
    def unscored(self) -> int:
        """How often a publication had no score for a ``topk``: an attribute was missing, or it is no finite number."""
        return self._stage.count("unscored")

    @property
    def shapeless(self) -> int:
        """How often a ``shape`` was asked of a value that has none: no series of numbers, with a gap, or constant."""
        return self._shapeless

    @property
    def oversized(self) -> int:
        """How often LIKE was asked of a bag with too many members or characters to be compared with patterns."""
        return self._oversized

    @property
    def letterless(self) -> int:
        """How many patterns of LIKE have no letter, as ``_%_``, so that each is compared with every text."""
        return self._index.letterless + self._stage.patterns.index.letterless

    @property
    def refused(self) -> dict[str, int]:
        """How many publications could not be part of an event (an END without its START, say), by reason."""
        return self._stage.refused

    @property
    def renewed(self) -> int:
        """How many subscriptions changed their meaning when the engine last noticed a new ontology."""
        return self._renewed

    @property
    def cut(self) -> int:
        """How often a ``together`` had more combinations than the limit, so that some raised no notification."""
        return self._stage.count("cut")

    # --- keeping ----------------------------------------------------------------------------------------------------

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write a snapshot that ``load`` reads back without parsing anything."""
        with self._changing:
            numbers = np.array(sorted(self._catalogue.numbers.values()), np.int64)
            place = np.full(self._catalogue.numbers_given, -1, np.int64)
            place[numbers] = np.arange(len(numbers))

            def more(aside: Path) -> None:
                self._stage.save(aside, place)
                self._asked.save(aside, place)

            save(self._index, self._catalogue, directory, numbers, more)

    @classmethod
    def load(
        cls,
        *directories: str | os.PathLike[str],
        limits: Limits = DEFAULT_LIMITS,
        keep: timedelta | None = None,
        history: EventHistory | None = None,
        ahead: timedelta | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> Engine:
        """The engine of a snapshot, or of several together; the arrays stay in their files until they are touched.

        What patterns remember comes back with a single snapshot. Of several, patterns begin anew. With a history, the
        past is what that remembers.
        """
        index, catalogue = load(*directories)
        engine = cls(limits=limits, keep=keep, ahead=ahead, clock=clock)
        engine._index, engine._catalogue = index, catalogue
        kept = checked_keep(kept_by(history, keep), limits)
        engine._stage = PatternShards.load([Path(directory) for directory in directories], limits.combinations, kept)
        if history is not None:
            if engine._stage.lateness:
                raise SettingError("no lateness for an engine with a history", "a snapshot of one with a lateness")
            engine._stage.attach(history)
        engine._asked = OntologyAnswers.load([Path(directory) for directory in directories])
        engine._now = engine._stage.now
        return engine

    def close(self) -> None:
        """Wait for threads in the background to end. An engine can also be used in a ``with`` statement."""
        self._index.close()
        self._stage.close()


def _are_objects(given: list[Any]) -> bool:
    """Whether all are publications."""
    for one in given:  # noqa: SIM110  # ``all`` takes four times as long for one
        if type(one) is not Publication:
            return False
    return True
