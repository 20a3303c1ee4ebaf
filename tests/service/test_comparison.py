"""The comparison finds what is wrong with a product, by drawn scripts: each broken service here is found by them.

The broken services are the oracle with one rule of the contract taken away. What they show is that the drawn scripts
come to the place where the rule matters, and that the report names it.
"""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.errors import NoSuchExample

from tests.service.comparison import compare, first_difference
from tests.service.hand_made import HIGH, LIMITS, publish, subscribe, unpublish
from tests.service.oracle import Oracle
from tests.service.oracle_state import TakenCut
from tests.service.scripts import scripts
from tests.service.steps import Advance, Cut, Notification, Queue, Read, Register, Script

DRAWN = settings(
    max_examples=2000, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


@settings(deadline=None)
@given(scripts())
def test_the_oracle_agrees_with_itself_about_every_script(script):
    compare(script, Oracle())


class IdentityWithoutSource(Oracle):
    def publish_one(self, publication):
        for _, logged in self.state.publications(len(self.state.log)):
            if logged.publication.identity[1:] == publication.identity[1:] and self.known(logged):
                publication = replace(publication, source=logged.publication.source)
        return super().publish_one(publication)


class IdentityWithoutPhase(Oracle):
    def publish_one(self, publication):
        for _, logged in self.state.publications(len(self.state.log)):
            if logged.publication.identity[:2] == publication.identity[:2] and self.known(logged):
                publication = replace(publication, phase=logged.publication.phase)
        return super().publish_one(publication)


class HorizonOfAppendOnly(Oracle):
    def known(self, logged):
        return logged.appended + self.limits.horizon > self.clock


class HorizonOneLonger(Oracle):
    def known(self, logged):
        return super().known(logged) or logged.appended + self.limits.horizon == self.clock


class UnpublishingFreesTheIdentity(Oracle):
    def known(self, logged):
        row = self.state.log.index(logged)
        return super().known(logged) and not self.state.withdrawn(row, len(self.state.log))


class ValidAtTheClock(Oracle):
    def in_valid_set(self, row, logged, cut):
        return super().in_valid_set(row, logged, TakenCut(cut.rows, cut.version, self.clock))


class WithdrawnStillInTheValidSet(Oracle):
    def in_valid_set(self, row, logged, cut):
        return logged.publication.valid_until is not None and logged.valid(cut.time)


class BatchRunAgainReachesFurther(Oracle):
    def finish_begun_batch(self):
        if self.state.died_before_commit is not None:
            self.state.died_before_commit = TakenCut(len(self.state.log), self.state.version, self.clock)
        super().finish_begun_batch()


class InitialOfEveryCut(Oracle):
    def beginning(self, before, cut):
        return [made for made in self.deliverable(cut) if made.alive(cut.version)]


class EndedOnesBegin(Oracle):
    def beginning(self, before, cut):
        return [made for made in self.deliverable(cut) if before.version < made.made]


class InitialOfWhatIsLiveToo(Oracle):
    def initially(self, made, logged):
        return made.subscription.initial and made.matches(logged)


class InitialLosesTheVersionOfThePublish(Oracle):
    def initially(self, made, logged):
        return super().initially(made, logged) and logged.version < made.made - 1


class LiveAfterTheEnd(Oracle):
    def live(self, made, logged):
        return super().live(replace(made, ended=None if made.ended is None else made.ended + 1), logged)


class LiveWithoutTheVersionThatMadeIt(Oracle):
    def live(self, made, logged):
        return super().live(replace(made, made=made.made + 1), logged)


class ExpiryIsNotJudgedWhenMatching(Oracle):
    def live(self, made, logged):
        return made.alive(logged.version) and made.matches(logged)


class ExpiryIsJudgedByTheRunnersClock(Oracle):
    def live(self, made, logged):
        return super().live(made, logged) and (made.subscription.expired or logged.valid(self.clock))


class ToldAfterUnregistering(Oracle):
    def deliverable(self, cut):
        return [made for made in self.state.subscriptions if made.made <= cut.version]


class RetractsOnlyTheFirst(Oracle):
    def retract(self, stone):
        for queue in self.state.queues.values():
            before = len(queue.entries)
            retracted = [entry.row for entry in queue.entries if entry.kind != "retracted" and entry.row in stone.rows]
            super().retract(stone)
            if len(retracted) > len(set(retracted)):
                del queue.entries[before + len(set(retracted)) :]


class RestoreKeepsEpochs(Oracle):
    def restore(self, step):
        epochs = {name: queue.epoch for name, queue in self.backed_up.queues.items()}
        super().restore(step)
        for name, queue in self.state.queues.items():
            queue.epoch = epochs[name]


class RestoreForgetsNothing(Oracle):
    def restore(self, step):
        log = self.state.log
        super().restore(step)
        self.state.log[len(self.state.log) :] = log[len(self.state.log) :]


class ReadIsNotRemade(Oracle):
    def set_read(self, step):
        self.state.reads[step.principal] = step.read or self.may_read("")


class InitialAgainForAnotherRead(Oracle):
    def make(self, principal, id, subscription, first=None):
        super().make(principal, id, subscription)


class OnlyQueuesThatSubscriptionsName(Oracle):
    def begin_session(self, principal):
        self.state.registered.add(principal)


class RetractionsOfTheUnreadable(Oracle):
    def item(self, principal, number, entry):
        if entry.kind == "retracted":
            principal = ""
        return super().item(principal, number, entry)


class ExpiredNamesEverybody(Oracle):
    def item(self, principal, number, entry):
        item = super().item(principal, number, entry)
        if isinstance(item, Notification):
            return replace(item, subscriptions=tuple(sorted(made.id for made in entry.told)))
        return item


class EndsOneTickLate(Oracle):
    def maintain(self, step):
        self.clock -= 1
        super().maintain(step)
        self.clock += 1


BROKEN = [
    IdentityWithoutSource,
    IdentityWithoutPhase,
    HorizonOfAppendOnly,
    HorizonOneLonger,
    UnpublishingFreesTheIdentity,
    ValidAtTheClock,
    WithdrawnStillInTheValidSet,
    BatchRunAgainReachesFurther,
    InitialOfEveryCut,
    EndedOnesBegin,
    InitialOfWhatIsLiveToo,
    InitialLosesTheVersionOfThePublish,
    LiveAfterTheEnd,
    LiveWithoutTheVersionThatMadeIt,
    ExpiryIsNotJudgedWhenMatching,
    ExpiryIsJudgedByTheRunnersClock,
    ToldAfterUnregistering,
    RetractsOnlyTheFirst,
    RestoreKeepsEpochs,
    RestoreForgetsNothing,
    ReadIsNotRemade,
    InitialAgainForAnotherRead,
    OnlyQueuesThatSubscriptionsName,
    RetractionsOfTheUnreadable,
    ExpiredNamesEverybody,
    EndsOneTickLate,
]


def found(service: type[Oracle]) -> bool:
    try:
        find(
            scripts(), lambda script: first_difference(script, service()) is not None, settings=DRAWN, random=Random(20)
        )
    except NoSuchExample:
        return False
    return True


#: What only one script in hundreds shows.
RARE = {ValidAtTheClock, ExpiredNamesEverybody}


@pytest.mark.parametrize(
    "broken",
    [pytest.param(one, marks=pytest.mark.thorough) if one in RARE else one for one in BROKEN],
    ids=lambda service: service.__name__,
)
def test_drawn_scripts_find_a_rule_that_is_missing(broken):
    assert found(broken)


class NothingRetracted(Oracle):
    def retract(self, stone):
        pass


def test_the_report_names_the_queue_the_entry_and_the_steps():
    begin = (subscribe("p", HIGH), publish("1", a=50), Advance(3), unpublish("1"))
    script = Script((*begin, Cut(), publish("2", valid_until=5)), LIMITS)
    assert first_difference(script, Oracle()) is None
    with pytest.raises(AssertionError) as raised:
        compare(script, NothingRetracted())
    queue, equal, *rest = str(raised.value).splitlines()
    assert queue == "queue ann/stream, entry 2:"
    assert equal.startswith("  equal    Delivery(number=1, kind='publication', identity=('s', '1', None), ")
    assert rest == [
        "  expected Delivery(number=2, kind='retracted', identity=('s', '1', None), subscriptions=(), retracts=1)",
        "  got      nothing more",
        "",
        "after these steps, with Limits(horizon=24, max_validity=720, lateness=2):",
        "  1 at    0  Subscribe ann/p: Subscription(where='a > 40')",
        "  2 at    0  Publish by 0: Publication(source='s', id='1', attributes=(('a', 50),))",
        "  3 at    0  Advance(ticks=3)",
        "  4 at    3  Unpublish(source='s', id='1')",
        "  5 at    3  Cut()",
    ]


def test_an_exception_of_the_product_has_the_steps_with_it():
    class Broken(Oracle):
        def advance(self, step):
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken") as raised:
        compare(Script((Advance(1),), LIMITS), Broken())
    assert raised.value.__notes__[0].splitlines()[1:] == ["  1 at    0  Advance(ticks=1)"]


def test_whole_numbers_and_truth_must_come_back_as_they_are():
    class Doubles(Oracle):
        def read(self, step):
            return tuple(replace(item, attributes={"a": float(item.attributes["a"])}) for item in super().read(step))

    def script(value):
        return Script((subscribe("p"), publish("1", a=value), Cut(), Read("ann")), LIMITS)

    assert first_difference(script(5.0), Doubles()) is None
    assert "read of ann/stream after 0, entry 1" in (first_difference(script(5), Doubles()) or "")
    assert "read of ann/stream after 0, entry 1" in (first_difference(script(True), Doubles()) or "")


class EmptyQueuesForAll(Oracle):
    def queues(self):
        return {("bob", "mqtt"): Queue("some epoch"), **super().queues()}


class NoQueueAtRegistration(Oracle):
    def queues(self):
        return {name: queue for name, queue in super().queues().items() if queue.deliveries}


def test_an_empty_queue_may_be_there_unasked_but_not_be_missing():
    script = Script((Register("ann"), Cut()), LIMITS)
    assert first_difference(script, EmptyQueuesForAll()) is None
    assert "got      no such queue" in (first_difference(script, NoQueueAtRegistration()) or "")
