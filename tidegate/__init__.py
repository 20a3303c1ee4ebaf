"""Tidegate: standing subscriptions over streams of sensor readings, events and logs.

The public names are in ``__all__``. Each is imported when it is first used, so that a program that uses ``Engine`` does
not wait for Spark, and the small processes that Spark starts for our source do not wait for the compiler.
"""

from importlib import import_module
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.broker.open_queues import OpenQueues
    from tidegate.client.async_broker import AsyncBroker
    from tidegate.client.connection import connect
    from tidegate.client.items import DeliveredNotification, Gap, Retraction, Skipped
    from tidegate.client.plain_broker import Broker
    from tidegate.engine import Engine
    from tidegate.engine.explanation import Explanation
    from tidegate.errors import (
        AccessError,
        BrokerError,
        ConflictError,
        LimitError,
        OntologyError,
        ParseError,
        PipelineError,
        PublicationError,
        RefusedError,
        SettingError,
        SnapshotError,
        StoreError,
        SubscriptionError,
        SubscriptionWarning,
        TidegateError,
        TypeMismatch,
        UnknownFunction,
        UnknownSubscription,
    )
    from tidegate.language import Limits
    from tidegate.model import Notification, Publication, Subscription
    from tidegate.ontologies.ontology import Ontology
    from tidegate.pipeline.explain import explain_run
    from tidegate.pipeline.match import match
    from tidegate.pipeline.session import session
    from tidegate.shapes.named_shapes import NamedShape
    from tidegate.store.history import History
    from tidegate.store.log import Log
    from tidegate.store.notifications import NotificationStore
    from tidegate.store.registry import Registry

__version__ = "0.1.0"

__all__ = [
    "AccessError",
    "AsyncBroker",
    "Broker",
    "BrokerError",
    "ConflictError",
    "DeliveredNotification",
    "Engine",
    "Explanation",
    "Gap",
    "History",
    "LimitError",
    "Limits",
    "Log",
    "Notification",
    "NotificationStore",
    "OntologyError",
    "OpenQueues",
    "ParseError",
    "PipelineError",
    "Publication",
    "PublicationError",
    "RefusedError",
    "Registry",
    "Retraction",
    "SettingError",
    "Skipped",
    "SnapshotError",
    "StoreError",
    "Subscription",
    "SubscriptionError",
    "SubscriptionWarning",
    "TidegateError",
    "TypeMismatch",
    "UnknownFunction",
    "UnknownSubscription",
    "__version__",
    "connect",
    "explain_run",
    "load_ontology",
    "load_shapes",
    "match",
    "session",
]

#: The modules of all public names that are not errors.
_HOMES = {
    "tidegate.broker.open_queues": ("OpenQueues",),
    "tidegate.client.async_broker": ("AsyncBroker",),
    "tidegate.client.connection": ("connect",),
    "tidegate.client.items": ("DeliveredNotification", "Gap", "Retraction", "Skipped"),
    "tidegate.client.plain_broker": ("Broker",),
    "tidegate.engine.engine": ("Engine",),
    "tidegate.engine.explanation": ("Explanation",),
    "tidegate.language": ("Limits",),
    "tidegate.model": (
        "Notification",
        "Publication",
        "Subscription",
    ),
    "tidegate.pipeline.explain": ("explain_run",),
    "tidegate.pipeline.match": ("match",),
    "tidegate.pipeline.session": ("session",),
    "tidegate.store.history": ("History",),
    "tidegate.store.log": ("Log",),
    "tidegate.store.notifications": ("NotificationStore",),
    "tidegate.store.registry": ("Registry",),
}
#: Packages whose modules import what an extra brings, and the extra.
_EXTRAS = {"tidegate.pipeline.": "spark", "tidegate.client.": "client"}
_HOME_OF = dict.fromkeys(__all__, "tidegate.errors") | {name: home for home, names in _HOMES.items() for name in names}


def load_shapes(path: "str | PathLike[str]") -> "list[NamedShape]":
    """Take the shapes of a file, which expressions may name from now on: ``shape(close, 'my-shape') <= 3.5``.

    A TOML file has tables ``[shapes.my-shape]`` with ``points``, a list of 3 or more numbers, and, if wanted,
    ``meaning``; in a CSV file each row has a name and then numbers. Load before you subscribe, in every process that
    does, and before ``match``, which tells Spark's workers. All shapes of a file are taken or none; a name that is
    known keeps its points, and other points for it are an error.
    """
    from tidegate.errors import SettingError, shown
    from tidegate.shapes.named_shapes import load

    if not isinstance(path, str | PathLike):
        raise SettingError("the path of a file of shapes", shown(path))
    return load(fspath(path))


def load_ontology(
    *sources: "str | PathLike[str]", prefixes: "Mapping[str, str] | None" = None, format: str | None = None
) -> "Ontology":
    """Take an ontology, by which expressions mean ``isA``, ``related`` and the like from now on.

    Files are RDF/XML, Turtle, N-Triples or JSON-LD by their endings, or all of one ``format`` (rdfxml, turtle,
    ntriples, jsonld); what they import is not fetched. ``prefixes`` are those of expressions and publications, such as
    ``{"vin": "http://…#"}``. What follows under OWL 2 RL is worked out once. The ontology takes the place of the one
    before, also for engines that run; where it cannot be read or contradicts itself, the one before stays.
    """
    from tidegate.ontologies.current import load

    return load(*sources, prefixes=prefixes, format=format)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME_OF[name]
    extra = next((extra for package, extra in _EXTRAS.items() if home.startswith(package)), None)
    if extra is not None:
        from tidegate.extras import require

        require(extra, f"tg.{name}")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
