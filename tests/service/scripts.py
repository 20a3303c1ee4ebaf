"""Draws scripts of the service in which steps meet: few sources, ids and principals, and expiry near the clock.

`scripts()` is the strategy. It keeps the clock and what was published while it draws, so that things are sent again
with the same or with other content, and expire one tick before, at and after the moments that matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.service.conditions import Always, And, Compare, Condition, IsNull, Not, Or, Value
from tests.service.steps import (
    Advance,
    Backup,
    Cut,
    Death,
    Fields,
    Limits,
    Maintain,
    Phase,
    Publication,
    Publish,
    Read,
    Register,
    Restart,
    Restore,
    Script,
    SetRead,
    Step,
    Subscribe,
    Subscription,
    Unpublish,
    Unregister,
    Unsubscribe,
)

SOURCES = ("s", "z")
IDS = ("1", "2", "3", "4")
PHASES: tuple[Phase, ...] = (None, None, "START", "END")
PRINCIPALS = ("ann", "bob")
SUBSCRIPTIONS = ("p", "q", "r")
DESTINATIONS = ("stream", "stream", "stream", "mqtt")
FIELDS: tuple[Fields, ...] = ("all", "all", "none", ("a",), ("b",), ("a", "b"))
VALUES: tuple[Value, ...] = (1, 2, 3, 2.0, 2.5, True, "x", "it's")

T = TypeVar("T")


SIMPLE: tuple[Condition, ...] = (
    Compare("a", ">", 1),
    Compare("a", "<=", 2),
    Compare("a", "<>", 2),
    Compare("b", "=", "x"),
    Compare("b", "<>", "it's"),
    Compare("b", ">=", 2),
    Compare("source", "=", "s"),
    Compare("source", "<>", "s"),
    Compare("phase", "=", "END"),
    IsNull("b"),
)
"""Each holds for some of the publications that are drawn, and not for others."""


@dataclass
class Drawing:
    """What a script has so far, as far as drawing its next step needs it."""

    draw: st.DrawFn
    limits: Limits
    clock: int = 0
    published: list[Publication] = field(default_factory=list)
    asked: dict[tuple[str, str], Subscription] = field(default_factory=dict)
    moments: list[int] = field(default_factory=list)
    """When something ends: a validity, a horizon, a subscription."""
    backed_up: bool = False

    def any_of(self, choices: Sequence[T]) -> T:
        return self.draw(st.sampled_from(choices))

    def often(self, times: int, of: int) -> bool:
        """True in so many of so many cases; False is simpler."""
        return bool(self.draw(st.integers(0, of - 1)) >= of - times)

    def steps(self) -> tuple[Step, ...]:
        """One step, or now and then some that belong together."""
        if self.often(1, 6):
            ends = (self.end_of_activity, self.after_the_horizon, self.after_delivery)
            return self.any_of((*ends, self.batch_run_again, self.new_session, self.back_to_the_backup))()
        often = (self.publish,) * 6 + (self.cut,) * 5 + (self.subscribe,) * 4
        seldom = (self.advance,) * 2 + (self.unpublish,) * 2 + (self.set_read,) * 2 + (self.whole_service,) * 2
        rare = (self.read, self.unsubscribe, self.maintain, self.session)
        return (self.any_of((*often, *seldom, *rare))(),)

    def end_of_activity(self) -> tuple[Step, ...]:
        """A subscription about when it ends: is it there, and what does it hear?"""
        asked = replace(self.subscription(), active_until=self.clock + self.draw(st.integers(-1, 1)))
        principal, id = self.any_of(PRINCIPALS), self.any_of(SUBSCRIPTIONS)
        assert asked.active_until is not None
        near = self.any_of((-1, 0, 1)) + asked.active_until + self.limits.lateness - self.clock
        asking = tuple(Subscribe(principal, id, asked, replace=replaces) for replaces in (False, True))
        after = self.any_of((Subscribe(principal, id, asked), Unsubscribe(principal, id), self.publish()))
        return (*asking, self.advance_by(max(near, 0)), Maintain(), after)

    def after_the_horizon(self) -> tuple[Step, ...]:
        """A publication that is sent or withdrawn again about when its identity ceases to count."""
        sent = self.new_publication()
        until = max(self.clock + self.limits.horizon, sent.valid_until or self.clock)
        near = self.any_of((-1, 0, 1)) + until - self.clock
        choices: tuple[Step, ...] = (
            Publish((sent,)),
            Publish((replace(sent, attributes=()),)),
            Unpublish(sent.source, sent.id),
        )
        return Publish((sent,)), self.advance_by(near), self.any_of(choices)

    def after_delivery(self) -> tuple[Step, ...]:
        """What two subscriptions of a queue were told of expires, is withdrawn or may not be read any more."""
        principal, sent = self.any_of(PRINCIPALS), self.publication()
        asking = (
            Subscribe(principal, SUBSCRIPTIONS[0], Subscription(Always(), expired=True), replace=self.often(1, 2)),
            Subscribe(principal, SUBSCRIPTIONS[1], Subscription(Always(), initial=True), replace=self.often(1, 2)),
        )
        choices = (self.advance, self.set_read, self.subscribe, self.whole_service)
        withdrawn = (Unpublish(sent.source, sent.id), Cut()) if self.often(1, 2) else ()
        return (*asking, Publish((sent,)), Cut(), *withdrawn, self.any_of(choices)(), Read(principal))

    def batch_run_again(self) -> tuple[Step, ...]:
        """A batch with a subscription that begins is killed, and the clock, the log and the registry go on."""
        sent = replace(self.new_publication(), valid_until=self.clock + self.draw(st.integers(1, 2)))
        self.published.append(sent)
        begun = (Publish((sent,)), self.subscribe(), Cut(self.any_of((Death.BEFORE_COMMIT, Death.AFTER_COMMIT))))
        between = (self.publish, self.subscribe, self.unpublish, self.set_read, self.session)
        return (*begun, self.advance_by(self.draw(st.integers(0, 2))), self.any_of(between)(), Cut())

    def new_session(self) -> tuple[Step, ...]:
        """A principal unregisters with something under way, and comes back before the runner knows."""
        principal = self.any_of(PRINCIPALS)
        asked = Subscribe(principal, self.any_of(SUBSCRIPTIONS), self.subscription())
        return self.publish(), Unregister(principal), asked, self.publish()

    def back_to_the_backup(self) -> tuple[Step, ...]:
        """Something is cut or not, then backed up, and what happens after it is undone."""
        self.backed_up = True
        choices = (self.publish, self.subscribe, self.unpublish, self.cut, self.set_read, self.session)
        undone = (self.any_of(choices)(), self.any_of(choices)())
        return self.any_of(choices)(), Backup(), *undone, Restore(), self.publish()

    def publish(self) -> Step:
        size = self.any_of((1, 1, 2, 3))
        sent = tuple(self.publication() for _ in range(size))
        return Publish(sent, appender=self.draw(st.integers(0, 2)))

    def publication(self) -> Publication:
        drawn = self.sent_again() if self.published and self.often(1, 4) else self.new_publication()
        self.published.append(drawn)
        self.moments.append(self.clock + self.limits.horizon)
        return drawn

    def new_publication(self) -> Publication:
        attributes = tuple((name, self.any_of(VALUES)) for name in ("a", "b") if self.often(3, 4))
        return Publication(
            self.any_of(SOURCES),
            self.any_of(IDS),
            self.any_of(PHASES),
            None if self.often(1, 8) else self.clock - self.draw(st.integers(0, 3)),
            self.valid_until(),
            attributes,
        )

    def valid_until(self) -> int | None:
        if self.often(1, 4):
            return None
        near = tuple(self.clock + span for span in (-1, 0, 1, 2, 2, 4, 4, 8))
        horizon, most = self.limits.horizon, self.limits.max_validity
        far = tuple(self.clock + span for span in (horizon, horizon + 1, horizon + 1, most, most, most + 1))
        until = self.any_of(near + far)
        self.moments.append(until)
        return until

    def sent_again(self) -> Publication:
        """One that was sent before: unchanged, in other words of the same content, or with other content."""
        before = self.any_of(self.published)
        doubles = tuple(
            (name, float(value) if type(value) is int else value) for name, value in reversed(before.attributes)
        )
        changes: dict[str, Any] = self.any_of(
            (
                {},
                {},
                {"attributes": doubles},
                {"attributes": (*before.attributes, ("c", 1))},
                {"time": self.clock if before.time is None else None},
                {"valid_until": self.valid_until()},
                {"phase": self.any_of(PHASES)},
            )
        )
        return replace(before, **changes)

    def unpublish(self) -> Step:
        source, id = self.any_of(SOURCES), self.any_of(IDS)
        if self.published and self.often(3, 4):
            known = self.any_of(self.published)
            source, id = known.source, known.id
        return Unpublish(source, id, appender=self.draw(st.integers(0, 2)))

    def advance(self) -> Step:
        """By a little, or to one tick before, at or after something that ends next."""
        ends = sorted({end - self.clock for end in self.moments if end > self.clock})[:2]
        if ends and self.often(1, 2):
            return self.advance_by(max(1, self.any_of(ends) + self.any_of((-1, 0, 1))))
        return self.advance_by(self.any_of((1, 1, 2, 4)))

    def advance_by(self, ticks: int) -> Step:
        self.clock += ticks
        return Advance(ticks)

    def condition(self) -> Condition:
        """One that holds for all publications or for many; a third are made of two."""
        one = Always() if self.often(2, 5) else self.any_of(SIMPLE)
        other = self.any_of(SIMPLE)
        return self.any_of((one, one, one, one, Not(other), And((one, other)), Or((one, other))))

    def subscribe(self) -> Step:
        name = self.any_of(PRINCIPALS), self.any_of(SUBSCRIPTIONS)
        before = self.asked.get(name)
        if before is not None and self.often(1, 8):
            return Subscribe(*name, before, replace=self.often(1, 2))
        self.asked[name] = self.subscription()
        return Subscribe(*name, self.asked[name], replace=self.often(1, 12) if before is None else self.often(7, 8))

    def subscription(self) -> Subscription:
        return Subscription(
            self.condition(),
            initial=self.often(3, 4),
            expired=self.often(1, 3),
            active_from=self.clock - self.draw(st.integers(0, 3)) if self.often(1, 8) else None,
            active_until=self.active_until() if self.often(1, 5) else None,
            fields=self.any_of(FIELDS),
            deliver=self.any_of(DESTINATIONS),
        )

    def active_until(self) -> int:
        until = self.clock + self.draw(st.integers(0, 3))
        self.moments.append(until + self.limits.lateness)
        return until

    def cut(self) -> Step:
        return Cut(self.any_of((None, None, None, None, *Death)))

    def read(self) -> Step:
        return Read(self.any_of(PRINCIPALS), self.any_of(DESTINATIONS), self.any_of((0, 0, 0, 1, 2, 5)))

    def set_read(self) -> Step:
        return SetRead(self.any_of(PRINCIPALS), self.condition() if self.often(3, 4) else None)

    def unsubscribe(self) -> Step:
        principal, id = self.any_of(tuple(self.asked)) if self.asked else (PRINCIPALS[0], SUBSCRIPTIONS[0])
        return Unsubscribe(principal, id)

    def maintain(self) -> Step:
        return Maintain()

    def session(self) -> Step:
        principal = self.any_of(PRINCIPALS)
        return Unregister(principal) if self.often(1, 2) else Register(principal)

    def whole_service(self) -> Step:
        choices: tuple[Step, ...] = (Restore(), Restore(), Backup()) if self.backed_up else (Restart(), Backup())
        chosen = self.any_of(choices)
        self.backed_up = self.backed_up or isinstance(chosen, Backup)
        return chosen


@st.composite
def scripts(draw: st.DrawFn, most: int = 20, limits: Limits | None = None) -> Script:
    """A script of up to so many steps after two subscriptions, in which at last everything is cut and read."""
    drawing = Drawing(draw, limits or Limits())
    drawn = [drawing.subscribe(), drawing.subscribe()]
    for _ in range(draw(st.integers(min(8, most), most))):
        drawn += drawing.steps()
    everything = [Read(principal, destination) for principal in PRINCIPALS for destination in ("stream", "mqtt")]
    return Script((*drawn, Cut(), *everything, drawing.advance(), *everything), drawing.limits)
