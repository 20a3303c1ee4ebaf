"""The contract of a strategy: what one node does with what it hears. One instance belongs to one node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from tidegate.overlay.messages import Announce, Interest, Message, Subscribe, Sync

__all__ = ["Sends", "Strategy", "qualified"]

#: Receivers and what they are sent, in that order.
Sends = list[tuple[str, Message]]


def qualified(node: str, id: str) -> str:
    """A user's id as other nodes know it: the first stroke ends the node's name, a bracket begins what nodes add."""
    name = node.replace("%", "%25").replace("/", "%2F").replace("[", "%5B")
    return f"{name}/{id.replace('%', '%25').replace('[', '%5B').replace('~', '%7E')}"


class Strategy(ABC):
    """What every strategy offers to its node. It knows neither bytes nor whether links are cut."""

    name: ClassVar[str]

    @abstractmethod
    def enter(self, node: str, validity: int) -> None:
        """Called once, by the node that the strategy belongs to."""

    @abstractmethod
    def meet(self, neighbour: str) -> None:
        """A neighbour that is new."""

    @abstractmethod
    def leave(self, neighbour: str) -> None:
        """A neighbour that has gone for good, after all that he wanted and had was taken back."""

    @abstractmethod
    def take(self, message: Message, sender: str, now: int) -> Sends:
        """What to send because of a message from a neighbour or from LOCAL; MessageError if it cannot be taken."""

    @abstractmethod
    def told(self, neighbour: str) -> tuple[tuple[Announce, ...], tuple[Subscribe | Interest, ...]]:
        """What a neighbour should have been told of sensors and wishes."""

    @abstractmethod
    def agree(self, sync: Sync, sender: str, now: int) -> Sends:
        """Make what is known of a neighbour what the neighbour says."""

    @property
    @abstractmethod
    def compared(self) -> int:
        """How much was compared so far: parts with readings, boxes with boxes."""

    @property
    def undecided(self) -> int:
        """How often it took too long to find out whether an operator is covered."""
        return 0
