"""Examples for ``kernel_compilation`` of what the demo has none of: events, what is asked of the past, and the overlay.

Each is as small as it can be and still calls every kernel of its part with every list of types; what is matched or told
does not matter here.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from tidegate.covering import covers
from tidegate.covering.subsumption import Boxes, Exact, Pairwise, Probabilistic
from tidegate.engine import Engine
from tidegate.language.limits import NO_LIMITS
from tidegate.model import Publication, Subscription
from tidegate.overlay import Announce, Network, Reading, operator_of
from tidegate.overlay import Subscribe as Ask
from tidegate.overlay.strategies import FilterSplitForward
from tidegate.patterns import Combine
from tidegate.patterns.past import Past
from tidegate.subscriptions import compile_subscription

__all__ = ["compile_event_kernels", "compile_overlay_kernels"]

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_OF_THE_PAST = (
    "n > 1 AND T_DURING(start, past(n > 2))",
    "T_MEETS(event, past(n > 2, 'PT1H', 'PT1S'))",
    "T_AFTER(start, past(n > 2 AND T_AFTER(start, past(n > 3)), 'PT1H'))",
    "n < past(n, n > 1, 5) OR name = past(name, n > 1)",
)


def compile_event_kernels() -> None:
    """Events that begin, end, last and are forgotten, several at once and one at a time, and why nothing is told."""
    engine = Engine([Subscription(f"s{i}", "nobody", where) for i, where in enumerate(_OF_THE_PAST)])
    events = _events()
    engine.publish(events[:8])
    for event in events[8:]:
        engine.publish([event])
    for subscription in engine:
        engine.explain(subscription.id, Publication("p", "s", _BEGIN + timedelta(days=1), {"n": 3, "name": "x"}))
        engine.explain(subscription.id, Publication("e1", "s", _BEGIN + timedelta(days=1), {"n": 3}, phase="END"))
    engine.unsubscribe("s2")
    engine.publish(events[:1])
    one, other = (compile_subscription(Subscription("s", "nobody", where), NO_LIMITS) for where in _OF_THE_PAST[:2])
    covers(one, other)
    combine = Combine(0, None, 1)
    past = combine.families[Past.name]
    assert isinstance(past, Past)
    past.storage.begin()
    past.storage.pack()  # only after thousands of events
    combine.memory.forget(0, ())  # as well


def _events() -> list[Publication]:
    found = []
    for i in range(16):
        phase = ("START", "END", None, "INSTANT")[i % 4]
        id = f"e{i - 1 if phase == 'END' else i}"
        found.append(Publication(id, "s", _BEGIN + timedelta(seconds=i), {"n": i % 5, "name": "x"}, phase=phase))
    return found


def compile_overlay_kernels() -> None:
    """Boxes that cover another together, and readings that complete an operator at a broker of the overlay."""
    boxes = Boxes(2)
    for low in range(3):
        boxes.add((low, 0), (low + 1, 2))
    for way in (Pairwise(), Exact(), Probabilistic(np.random.default_rng(0))):
        way.covered(np.array([0.5, 0.5]), np.array([2.5, 1.5]), boxes)
    network = Network({"n1": ["n2"], "n2": ["n1"]}, strategy=lambda node: FilterSplitForward(), validity=600_000_000)
    network.tell("n1", Announce("z1", "wind"))
    network.tell("n1", Announce("z3", "rain"))
    where = "together('PT5M', source = 'z1' AND wind > 10, source = 'z3' AND rain > 2)"
    network.tell("n2", Ask(operator_of(Subscription("s1", "nobody", where))))
    network.tell("n1", Reading("r1", "z1", 12.5, time=0))
    network.tell("n1", Ask(operator_of(Subscription("s2", "nobody", where))))  # of readings that came before it
    network.tell("n1", Reading("r2", "z3", 3.0, time=1))
    network.clock = 1_000_000_000
    network.tell("n1", Reading("r3", "z1", 12.5, time=network.clock))  # when the others are too old
