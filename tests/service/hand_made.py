"""Short spellings for scripts that are written by hand: each makes one step, or reads one thing of the oracle."""

from typing import Any

from tests.service.comparison import do
from tests.service.conditions import Always, Compare, Condition, Value
from tests.service.oracle import Oracle
from tests.service.steps import Limits, Phase, Publication, Publish, Read, Step, Subscribe, Subscription, Unpublish

ALL = Always()
HIGH = Compare("a", ">", 40)
LIMITS = Limits(horizon=24, max_validity=720, lateness=2)


def publication(
    id: str,
    phase: Phase = None,
    *,
    source: str = "s",
    time: int | None = 0,
    valid_until: int | None = None,
    **attributes: Value,
) -> Publication:
    """A publication of source s; what else is named are its attributes."""
    return Publication(source, id, phase, time, valid_until, tuple(attributes.items()))


def publish(id: str, phase: Phase = None, **named: Any) -> Publish:
    return Publish((publication(id, phase, **named),))


def unpublish(id: str) -> Unpublish:
    return Unpublish("s", id)


def subscribe(id: str, where: Condition = ALL, *, replace: bool = False, who: str = "ann", **named: Any) -> Subscribe:
    return Subscribe(who, id, Subscription(where, **named), replace=replace)


class Walked:
    """A script that was walked by the oracle: its answers, and what there is to see at its end."""

    def __init__(self, *steps: Step) -> None:
        self.oracle = Oracle()
        self.oracle.begin(LIMITS)
        self.answers = [do(self.oracle, step) for step in steps]

    def queue(self, principal: str = "ann", destination: str = "stream") -> list[str]:
        """A line for each delivery: `number kind id [phase]: subscriptions` (of a retraction: what it retracts)."""
        queue = self.oracle.queues()[principal, destination]
        lines = []
        for delivery in queue.deliveries:
            named = " ".join(part for part in delivery.identity[1:] if part)
            told = delivery.retracts if delivery.kind == "retracted" else " ".join(delivery.subscriptions)
            lines.append(f"{delivery.number} {delivery.kind} {named}: {told}")
        return lines

    def epoch(self, principal: str = "ann", destination: str = "stream") -> str:
        return self.oracle.queues()[principal, destination].epoch

    def read(self, principal: str = "ann", after: int = 0) -> Any:
        return self.oracle.read(Read(principal, after=after))
