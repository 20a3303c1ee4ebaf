"""``tg.match``: a DataFrame of publications in, a DataFrame of notifications out, batch or streaming.

It composes with any Spark code before and after it. The subscriptions may be a list, a DataFrame, or a registry that
changes while the query runs. Select and combine are those of ``Flow``; patterns over a batch DataFrame are in
``match_batch.py``.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import partial
from uuid import uuid4

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidegate.engine.settings import checked_lateness
from tidegate.errors import PublicationError, SettingError, SubscriptionError, shown
from tidegate.language import DEFAULT_LIMITS, Limits
from tidegate.model import LOCATION_PARTS, RESERVED, Subscription
from tidegate.pipeline.combine import combined
from tidegate.pipeline.match_batch import in_order
from tidegate.pipeline.parquet_times import with_instants
from tidegate.pipeline.shard_keys import keys
from tidegate.runs.quarantine import Quarantine
from tidegate.stages import feed
from tidegate.stages.combine import CombineStep
from tidegate.stages.log_planner import REFERENCE
from tidegate.stages.select import Select, Subscriptions
from tidegate.stages.select_task import SHARDED, NotificationRows, ReceiptRows, SelectTask
from tidegate.stages.shard_parts import ShardFiles
from tidegate.stages.shard_state import CombineSettings
from tidegate.store.index_layers import IndexLayers
from tidegate.store.registry import Registry
from tidegate.store.stored_subscription import StoredSubscription
from tidegate.subscriptions import compile_subscription
from tidegate.subscriptions.doubts import warn
from tidegate.time_zones import HINT, TimeZone, Zone

__all__ = ["FLAT", "GROUPED", "match", "shelved"]

FLAT = (
    "notification_id string, subscription_id string, subscriber string, time timestamp, "
    "publication_ids array<string>, score double, distance double"
)
GROUPED = "publication_id string, time timestamp, subscription_ids array<string>"


def match(
    publications: DataFrame,
    subscriptions: Iterable[Subscription] | DataFrame | Registry,
    *,
    grouped: bool = False,
    storage: str | os.PathLike[str] | None = None,
    quarantine: str | os.PathLike[str] | None = None,
    lateness: timedelta = timedelta(0),
    limits: Limits = DEFAULT_LIMITS,
    timezone: Zone = None,
) -> DataFrame:
    """Match publications with subscriptions, on Spark.

    Columns ``id``, ``source``, ``time``, ``start``, ``end``, ``phase``, ``location``, ``valid_until`` are what their
    names say, every other is an attribute; one named ``attributes`` that is a VARIANT, a map, a struct or a JSON string
    is expanded to the attributes that some subscription asks about. The result has a row per notification, or with
    ``grouped`` a row per publication that matched, with the ids of its subscriptions. Times without a time zone are
    refused, unless ``timezone`` says which is meant.

    ``storage`` is where index snapshots go for subscriptions that are no registry: a temporary directory by default,
    which every machine must reach. Rows that are no publications are left out and written, with the reason, to files
    in ``quarantine``; by default to a directory of that name in the storage.

    To patterns a batch DataFrame is what appeared together: they see it in order of time, and the clock ends at its
    newest publication. Of a stream each micro-batch appears together, ``lateness`` is how far publications may be out
    of order, and the state is Spark's, in its checkpoint. Whether a stream is matched with patterns is settled here: a
    registry that has none yet is matched without.
    """
    if not isinstance(publications, DataFrame):
        raise PublicationError("a Spark DataFrame of publications", shown(publications))
    source, how = fed(publications, TimeZone.named(timezone))
    chosen = shelved(publications, subscriptions, storage, limits)
    kept = os.fspath(quarantine) if quarantine is not None else f"{chosen.index_storage.rstrip('/')}/quarantine"
    select, form, schema = Select(how, chosen), *(("grouped", GROUPED) if grouped else ("flat", FLAT))
    refused = Quarantine.at(kept, uuid4().hex[:8])
    plain = source.mapInArrow(SelectTask(select, NotificationRows(form), refused), schema)
    version = chosen.version if chosen.version is not None else _current(chosen)
    view = chosen.view(version, version)
    if not len(view.patterns):
        return plain
    late = checked_lateness(lateness)
    if publications.isStreaming and chosen.registry is None:  # only a registry identifies them after a restart
        raise SubscriptionError(
            "a Registry, for a stream and subscriptions with patterns", "another kind of subscriptions"
        )
    shards = keys(int(publications.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1))
    only_patterns = len(view.patterns) == len(view.since)
    alone = refused if only_patterns else None  # else the task of ``plain`` writes the quarantine
    if publications.isStreaming:
        files = ShardFiles(f"{chosen.index_storage.rstrip('/')}/parts", per_query=True)
        parts = source.mapInArrow(SelectTask(select, ReceiptRows((), files, shards), alone), SHARDED)
        settings = CombineSettings(late, limits.combinations)
        patterned = combined(parts, CombineStep(files, shards, chosen, settings, form=form), schema)
    else:
        patterned = in_order(source, select, shards, form, limits.combinations, schema, alone)
    return patterned if only_patterns else plain.unionByName(patterned)


def _current(chosen: Subscriptions) -> int:
    assert chosen.registry is not None
    return chosen.registry.version


# --- subscriptions --------------------------------------------------------------------------------------------------


def shelved(
    publications: DataFrame,
    subscriptions: Iterable[Subscription] | DataFrame | Registry,
    storage: str | os.PathLike[str] | None,
    limits: Limits,
) -> Subscriptions:
    """The subscriptions in the form that Spark sends to the workers."""
    if isinstance(subscriptions, Registry):
        if storage is not None:
            raise SettingError("the registry's own storage", f"storage={shown(os.fspath(storage))}")
        version = None if publications.isStreaming else subscriptions.version
        subscriptions.prepare(*2 * (subscriptions.version if version is None else version,))
        return Subscriptions(subscriptions.index_storage, subscriptions, version)
    rows = list(_rows(subscriptions, limits))
    if storage is None:
        master = str(publications.sparkSession.conf.get("spark.master", ""))
        if not master.startswith("local"):
            raise SettingError("a storage that every machine reaches, for a master that is not local", "storage=None")
        storage = tempfile.mkdtemp(prefix="tidegate-match-")
        atexit.register(shutil.rmtree, storage, ignore_errors=True)
    location = f"{os.fspath(storage).rstrip('/')}/{uuid4().hex}"
    IndexLayers(location).extend(0, len(rows), rows)
    return Subscriptions(location, version=len(rows))


def _rows(subscriptions: Iterable[Subscription] | DataFrame, limits: Limits) -> Iterator[StoredSubscription]:
    if isinstance(subscriptions, DataFrame):
        subscriptions = _collected(subscriptions)
    elif isinstance(subscriptions, Subscription | str | bytes) or not isinstance(subscriptions, Iterable):
        raise SubscriptionError("subscriptions: a list, a DataFrame or a Registry", shown(subscriptions))
    seen = set()
    for subscription in subscriptions:
        if not isinstance(subscription, Subscription):
            raise SubscriptionError("a Subscription", shown(subscription))
        if subscription.id in seen:
            raise SubscriptionError("an id that is not in use", shown(subscription.id))
        seen.add(subscription.id)
        # a mistake is raised here, in the user's call, not in a worker
        warn(subscription, compile_subscription(subscription, limits), limits)
        yield StoredSubscription.of(subscription, len(seen))


def _collected(subscriptions: DataFrame) -> Iterator[Subscription]:
    fields = ("id", "subscriber", "where", "active_from", "active_until")
    missing = [name for name in fields[:3] if name not in subscriptions.columns]
    if subscriptions.isStreaming or missing:
        got = "a stream" if subscriptions.isStreaming else f"columns {', '.join(subscriptions.columns)}"
        raise SubscriptionError("a batch DataFrame of subscriptions with columns id, subscriber and where", got)
    for row in subscriptions.select(*[name for name in fields if name in subscriptions.columns]).toArrow().to_pylist():
        yield Subscription(**row)


# --- publications ---------------------------------------------------------------------------------------------------


def fed(publications: DataFrame, zone: TimeZone | None = None) -> tuple[DataFrame, feed.Feed]:
    """The DataFrame that goes to the workers, and the feed that reads it. A wrong column is an error at once."""
    if publications.columns == list(REFERENCE):
        return publications, feed.slices
    names = publications.columns
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise PublicationError("each column once", f"{shown(twice)} twice")
    for name in ("id", "source", "time"):
        if name not in names:
            raise PublicationError(f"a column {name}", f"columns {', '.join(names)}")
    if "event" in names:
        raise PublicationError("columns start and end", "a column event, which is a reserved name")
    parts = [name for name in LOCATION_PARTS if name in names]
    if len(parts) == 1 or (parts and "location" in names):
        got = f"a column {parts[0]} {'alone' if len(parts) == 1 else 'as well'}"
        raise PublicationError("location, or both location.lon and location.lat", got)
    publications = with_instants(publications)
    columns = [_column(field, zone) for field in publications.schema]
    if any("." in name or "`" in name for name in names):  # ``mapInArrow`` takes such names for paths
        columns = [column.alias(f"column_{i}") for i, column in enumerate(columns)]
        return publications.select(*columns), partial(feed.rows, zone=zone, names=tuple(names))
    return publications.select(*columns), partial(feed.rows, zone=zone)


def _column(field: T.StructField, zone: TimeZone | None) -> Column:
    column = F.col(f"`{field.name.replace('`', '``')}`")
    kind, expected = field.dataType, RESERVED.get(field.name)
    if field.name == "attributes":
        if isinstance(kind, T.VariantType | T.MapType | T.StructType):
            return F.to_json(column).alias("attributes")
        if not isinstance(kind, T.StringType):
            raise PublicationError(
                "a VARIANT, a map, a struct or a JSON string as attributes", kind.simpleString(), "column 'attributes'"
            )
        return column
    at = f"column {shown(field.name)}"
    if isinstance(kind, T.TimestampNTZType) and expected in (None, "time"):
        if zone is None:
            raise PublicationError(f"timestamps with a time zone {HINT}", kind.simpleString(), at)
        return column
    if expected == "text" and not isinstance(kind, T.StringType | T.NullType):
        raise PublicationError(f"strings as {field.name}", kind.simpleString(), at)
    if expected == "time" and not isinstance(kind, T.TimestampType | T.StringType | T.NullType):
        raise PublicationError(f"timestamps with a time zone as {field.name}", kind.simpleString(), at)
    if expected == "point" and not (isinstance(kind, T.NullType) or _is_place(kind)):
        raise PublicationError(f"points (struct lon, lat) as {field.name}", kind.simpleString(), at)
    if field.name in LOCATION_PARTS and not isinstance(kind, T.NumericType | T.NullType):
        raise PublicationError(f"numbers as {field.name}", kind.simpleString(), at)
    if expected is None and not _is_value(kind):
        wanted = "numbers, strings, truth values, timestamps with a time zone, dates, points (struct lon, lat) or lists"
        raise PublicationError(wanted, kind.simpleString(), at)
    return column


_PLAIN = T.NumericType | T.StringType | T.BooleanType | T.TimestampType | T.DateType | T.NullType


def _is_value(kind: T.DataType) -> bool:
    return isinstance(kind, _PLAIN) or _is_point(kind) or (isinstance(kind, T.ArrayType) and _is_member(kind))


def _is_member(kind: T.ArrayType) -> bool:
    return isinstance(kind.elementType, _PLAIN)


def _is_point(kind: T.DataType) -> bool:
    return isinstance(kind, T.StructType) and {"lon", "lat"} <= set(kind.names)


def _is_place(kind: T.DataType) -> bool:
    """Whether values of the type can be locations: points, GeoJSON, WKB or lists of two numbers."""
    if isinstance(kind, T.ArrayType):
        return isinstance(kind.elementType, T.NumericType)
    if isinstance(kind, T.StructType) and set(kind.names) in ({"type", "coordinates"}, {"x", "y"}):
        return True
    return isinstance(kind, T.BinaryType) or _is_point(kind)
