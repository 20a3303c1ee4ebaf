"""What a gateway does for the clients of a script, over the real log, registry, principals, sessions and queues."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from tests.service import steps
from tests.service.conditions import text
from tests.service.product_values import TICK, identity_of, item_of, items_of, subscription_of
from tests.service.steps import Item, Limits, PublishAnswer, SubscribeAnswer
from tidegate.broker.open_queues import OpenQueues
from tidegate.broker.session_states import ConnectionState, SessionState
from tidegate.broker.sessions import Sessions
from tidegate.closing import Closing
from tidegate.errors import SubscriptionError, UnknownSubscription
from tidegate.gateway.submission import Published, Submission
from tidegate.language import DEFAULT_LIMITS
from tidegate.store.data_directory import DataDirectory
from tidegate.store.log import Log
from tidegate.store.log_rows import LogRows
from tidegate.store.principals import Principals
from tidegate.store.registry import Registry
from tidegate.store.replacing import Outcome, Wanted
from tidegate.store.subscribing import checked
from tidegate.store.valid_usage import ValidUsage
from tidegate.store.validity_limits import ValidityLimits

APPENDERS = 3
ANSWERS: dict[Outcome, SubscribeAnswer] = {
    Outcome.MADE: "made",
    Outcome.SAME: "same",
    Outcome.REPLACED: "replaced",
}
WHOLE = 1_000_000


class Gateway(Closing):
    """The processes of a broker but its runner: several that append, and one that reads queues."""

    def __init__(self, data: DataDirectory, registry: Registry, limits: Limits, clock: Callable[[], int]) -> None:
        self.data, self.registry, self.clock = data, registry, clock
        with ExitStack() as opened:
            usage = ValidUsage(data.valid)
            opened.callback(usage.close)
            self.validity = ValidityLimits(limits.max_validity * TICK, usage.is_over)
            self.principals = opened.enter_context(Principals(registry))
            self.logs = [opened.enter_context(self.opened_log()) for _ in range(APPENDERS)]
            queues = opened.enter_context(OpenQueues(data.path, clock=clock))
            self.sessions = opened.enter_context(Sessions(queues, registry, clock=clock))
            self.rows = opened.enter_context(LogRows(data.log))
            self.opened = opened.pop_all()

    def opened_log(self) -> Log:
        return self.data.open_log(limits=self.validity, version=lambda: self.registry.version, clock=self.clock)

    def close(self) -> None:
        self.opened.close()

    # The log

    def publish(self, step: steps.Publish) -> tuple[PublishAnswer, ...]:
        log = self.logs[step.appender]
        submission = Submission([item_of(sent) for sent in step.publications], now=self.clock(), limits=log.limits)
        lot, before = submission.prepare(), log.end
        [outcome] = log.append_all([lot])
        submission.settle(outcome)
        if submission.error is not None:
            raise submission.error
        assert submission.published is not None, "a submission that was settled"
        return self.answers(step.publications, before, log.end, submission.published)

    def answers(
        self, given: Sequence[steps.Publication], before: int, end: int, told: Published
    ) -> tuple[PublishAnswer, ...]:
        """What became of each: the log has those that were taken, and the others are told or duplicates."""
        new = [identity_of(content) for content in self.rows.publications(range(before, end))] if end > before else []
        assert len(new) == told.accepted
        refused = {one.index: one.code for one in told.refused}
        found: list[PublishAnswer] = []
        for place, publication in enumerate(given):
            if place in refused:
                found.append("conflict" if refused[place] == "conflict" else "refused")
            elif publication.identity in new:
                new.remove(publication.identity)
                found.append("accepted")
            else:
                found.append("duplicate")
        assert not new, "what was appended was given"
        assert found.count("duplicate") == told.duplicates
        return tuple(found)

    def unpublish(self, step: steps.Unpublish) -> bool:
        (was_there,) = self.logs[step.appender].unpublish([(step.source, step.id)])
        return was_there

    # The registry

    def subscribe(self, step: steps.Subscribe) -> SubscribeAnswer:
        """A PUT; with the right If-Match it replaces what is there, and nothing is not there."""
        try:
            wanted = checked(subscription_of(step), DEFAULT_LIMITS)
        except SubscriptionError:
            return "refused"
        is_expected = (lambda there: there is not None) if step.replace else None
        [put] = self.registry.put(step.principal, [Wanted(wanted, is_expected)])
        return ANSWERS.get(put.outcome, "refused")

    def unsubscribe(self, step: steps.Unsubscribe) -> bool:
        try:
            self.registry.unsubscribe(f"{step.principal}/{step.id}")
        except UnknownSubscription:
            return False
        return True

    def set_read(self, step: steps.SetRead) -> None:
        self.principals.put(step.principal, read=None if step.read is None else text(step.read))

    # Sessions

    def register(self, step: steps.Register) -> None:
        self.sessions.register(step.principal)

    def unregister(self, step: steps.Unregister) -> bool:
        if self.sessions.state(step.principal) is SessionState.UNKNOWN:
            return False
        self.sessions.unregister(step.principal)
        return True

    def read(self, step: steps.Read) -> tuple[Item, ...]:
        """All that a connection takes which goes on after a number."""
        if self.sessions.state(step.principal) is SessionState.UNKNOWN:
            return ()
        connection = self.sessions.connect(step.principal, after=step.after, destination=step.destination)
        told = []
        while connection.state is ConnectionState.OPEN and (page := connection.take(WHOLE)):
            told += page
        connection.close()
        return tuple(items_of(told))
