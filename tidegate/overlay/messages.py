"""The messages between nodes, and between a node and its sensors and users, as frozen dataclasses.

``overlay/wire.py`` checks them and turns them into bytes. The docstrings name the algorithms of Jurca et al., §V.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model import Publication
from tidegate.overlay.operators import Operator

__all__ = [
    "LOCAL",
    "Announce",
    "Deliver",
    "Interest",
    "Message",
    "Publish",
    "Reading",
    "Refuse",
    "Revoke",
    "Subscribe",
    "Sync",
    "Unsubscribe",
]

#: The name of a node's own users and sensors, as sender and as receiver.
LOCAL = ""


@dataclass(frozen=True, slots=True)
class Announce:
    """A sensor is there: its kind of reading and its place (Algorithm 1)."""

    source: str
    attribute: str
    location: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Revoke:
    """A sensor has gone."""

    source: str


@dataclass(frozen=True, slots=True)
class Subscribe:
    """An operator is wanted (Algorithm 4)."""

    operator: Operator


@dataclass(frozen=True, slots=True)
class Interest:
    """A plain condition in CQL2 is wanted; for the strategy ``covering``."""

    id: str
    where: str


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """An operator or condition is no longer wanted."""

    id: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A sensor's reading (Algorithm 5); ``time`` in microseconds since 1970.

    Where every operator has a result set of its own, ``results`` are the ids of the operators in whose result sets
    this reading is; each of them counts as one event of traffic.
    """

    id: str
    source: str
    value: float
    time: int
    results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Publish:
    """A publication of any kind; for the strategy ``covering``."""

    publication: Publication


@dataclass(frozen=True, slots=True)
class Sync:
    """All that one side of a link wants the other to know, when the link is made or comes back.

    ``held`` are the keys (``journal.key_of``) of readings and publications that the sender has received and that need
    not be sent again.
    """

    announced: tuple[Announce, ...] = ()
    wanted: tuple[Subscribe | Interest, ...] = ()
    held: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refuse:
    """A message was not taken, and why."""

    reason: str
    code: str = "message"


@dataclass(frozen=True, slots=True)
class Deliver:
    """To a user: readings (or a publication) that a subscription asks for; each is delivered once."""

    subscription: str
    events: tuple[Reading | Publish, ...]


Message = Announce | Revoke | Subscribe | Interest | Unsubscribe | Reading | Publish | Sync | Refuse | Deliver
