"""``Strategy``: the abstract class by which a ``Node`` decides what to send because of the messages it receives.

The classes in ``overlay/strategies`` implement it. One instance belongs to one node.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from tidegate.overlay.messages import Announce, Interest, Message, Subscribe, Sync

__all__ = ["Sends", "Strategy", "qualified"]

#: Receivers and what they are sent, in that order.
Sends = list[tuple[str, Message]]


def qualified(node: str, id: str) -> str:
    """A user's id as other nodes know it, after the node's name.

    The first slash ends the node's name, and a bracket begins what nodes themselves add to an id.
    """
    name = node.replace("%", "%25").replace("/", "%2F").replace("[", "%5B")
    return f"{name}/{id.replace('%', '%25').replace('[', '%5B').replace('~', '%7E')}"


class Strategy(ABC):
    """What every strategy offers to its node. A strategy knows neither bytes nor whether links are cut."""

    name: ClassVar[str]
    crosses_once: ClassVar[bool] = False
    """Whether a reading that crosses a link again only says in which further result sets it is."""

    @abstractmethod
    def enter(self, node: str, validity: int) -> None:
        """Called once, by the node that the strategy belongs to."""

    @abstractmethod
    def meet(self, neighbour: str) -> None:
        """Called for each neighbour that is new."""

    @abstractmethod
    def leave(self, neighbour: str) -> None:
        """Called for a neighbour that has gone for good, after ``agree`` has removed its sensors and operators."""

    @abstractmethod
    def take(self, message: Message, sender: str, now: int) -> Sends:
        """What to send because of a message from a neighbour or from LOCAL; MessageError if it cannot be taken."""

    @abstractmethod
    def told(self, neighbour: str) -> tuple[tuple[Announce, ...], tuple[Subscribe | Interest, ...]]:
        """The announcements and subscriptions that a neighbour should know of; they go into a ``Sync``."""

    @abstractmethod
    def agree(self, sync: Sync, sender: str, now: int) -> Sends:
        """Replace all that is known of a neighbour by what its ``Sync`` says; the messages to send because of it."""

    @property
    @abstractmethod
    def compared(self) -> int:
        """How much was compared so far: parts with readings, boxes with boxes."""

    @property
    def undecided(self) -> int:
        """How often a check whether an operator is covered was given up because it took too long."""
        return 0
