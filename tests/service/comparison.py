"""Walks one script through the oracle and a product and tells the first difference in words.

It knows the steps and the protocol `Service`, and nothing of what a product is. A driver of the product calls
`compare(script, service)` inside a hypothesis test over `scripts()`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.service import steps
from tests.service.conditions import kind_of, text
from tests.service.oracle import Oracle
from tests.service.steps import Queue, QueueName, Script, Service, Step

METHODS = {
    steps.Publish: "publish",
    steps.Unpublish: "unpublish",
    steps.Advance: "advance",
    steps.Subscribe: "subscribe",
    steps.Unsubscribe: "unsubscribe",
    steps.SetRead: "set_read",
    steps.Register: "register",
    steps.Unregister: "unregister",
    steps.Maintain: "maintain",
    steps.Cut: "cut",
    steps.Restart: "restart",
    steps.Backup: "backup",
    steps.Restore: "restore",
    steps.Read: "read",
}

AFTER_THESE_QUEUES_ARE_COMPARED = (steps.Cut, steps.Restart, steps.Restore)


def compare(script: Script, product: Service) -> None:
    """Fail with the first difference between what the oracle expects of a script and what the product does."""
    difference = first_difference(script, product)
    if difference is not None:
        raise AssertionError(difference)


def first_difference(script: Script, product: Service) -> str | None:
    oracle = Oracle()
    oracle.begin(script.limits)
    product.begin(script.limits)
    epochs = Epochs()
    for place, step in enumerate(script.steps):
        expected = do(oracle, step)
        try:
            got = do(product, step)
        except Exception as error:
            error.add_note(so_far(script, place))
            raise
        found = difference_of_answers(step, expected, got)
        if found is None and isinstance(step, AFTER_THESE_QUEUES_ARE_COMPARED):
            found = difference_of_queues(oracle.queues(), product.queues(), epochs)
        if found is not None:
            return f"{found}\n\n{so_far(script, place)}"
    return None


def so_far(script: Script, place: int) -> str:
    return f"after these steps, with {script.limits}:\n{told(script.steps[: place + 1])}"


def do(service: Service, step: Step) -> Any:
    return getattr(service, METHODS[type(step)])(step)


def difference_of_answers(step: Step, expected: Any, got: Any) -> str | None:
    if isinstance(step, steps.Read):
        if expected is None:
            return None
        return difference_of_lists(f"read of {step.principal}/{step.destination} after {step.after}", expected, got)
    return None if expected == got else f"answer to {step}:\n  expected {expected}\n  got      {got}"


def difference_of_queues(
    expected: Mapping[QueueName, Queue], got: Mapping[QueueName, Queue], epochs: "Epochs"
) -> str | None:
    """A product may have empty queues that nobody expects; a destination that nobody asked for is no fault."""
    for name in sorted(expected.keys() | got.keys()):
        queue = "queue " + "/".join(name)
        if name not in got:
            return f"{queue}:\n  expected {expected[name]}\n  got      no such queue"
        if name not in expected:
            if got[name].deliveries:
                return f"{queue}:\n  expected no such queue\n  got      {got[name]}"
            continue
        found = difference_of_lists(queue, expected[name].deliveries, got[name].deliveries)
        if found is not None:
            return found
        if not epochs.agree(expected[name].epoch, got[name].epoch):
            return f"{queue}: {epochs.why(expected[name].epoch, got[name].epoch)}"
    return None


def difference_of_lists(what: str, expected: Sequence[Any], got: Sequence[Any]) -> str | None:
    for place in range(max(len(expected), len(got))):
        mine = expected[place] if place < len(expected) else "nothing more"
        theirs = got[place] if place < len(got) else "nothing more"
        if not same(mine, theirs):
            before = "".join(f"\n  equal    {item}" for item in expected[:place])
            return f"{what}, entry {place + 1}:{before}\n  expected {mine}\n  got      {theirs}"
    return None


def same(mine: Any, theirs: Any) -> bool:
    """Whether two entries are equal; Python's TRUE equals 1, and a whole number must come back as one."""
    if mine != theirs:
        return False
    if not isinstance(mine, steps.Notification):
        return True
    return all(
        kind_of(value) == kind_of(theirs.attributes[name])
        and (not isinstance(value, int) or isinstance(theirs.attributes[name], int))
        for name, value in mine.attributes.items()
    )


class Epochs:
    """Which epoch of the product stands for which of the oracle; they are random, so only their changes compare."""

    def __init__(self) -> None:
        self.of_product: dict[str, str] = {}

    def agree(self, expected: str, got: str) -> bool:
        if expected in self.of_product:
            return self.of_product[expected] == got
        if got in self.of_product.values():
            return False
        self.of_product[expected] = got
        return True

    def why(self, expected: str, got: str) -> str:
        if expected in self.of_product:
            return f"expected the epoch {self.of_product[expected]} as before; got the new epoch {got}"
        return f"expected an epoch that no queue has had; got {got} again"


def told(walked: Sequence[Step]) -> str:
    """The steps with the clock, one to a line; conditions as CQL2."""
    lines, clock = [], 0
    for place, step in enumerate(walked, start=1):
        lines.append(f"{place:3} at {clock:4}  {of_step(step)}")
        clock += step.ticks if isinstance(step, steps.Advance) else 0
    return "\n".join(lines)


def of_step(step: Step) -> str:
    """A step without what it leaves at the default."""
    if isinstance(step, steps.Publish):
        return f"Publish by {step.appender}: " + ", ".join(changed(each) for each in step.publications)
    if isinstance(step, steps.Subscribe):
        verb = "Replace" if step.replace else "Subscribe"
        return f"{verb} {step.principal}/{step.id}: {changed(step.subscription)}"
    return changed(step)


def changed(value: Any) -> str:
    """A frozen value with those of its fields that are not the default."""
    parts = []
    for name, described in type(value).__dataclass_fields__.items():
        given = getattr(value, name)
        if given != described.default:
            parts.append(f"{name}={text(given) if name in ('where', 'read') and given else given!r}")
    return f"{type(value).__name__}({', '.join(parts)})"
