"""How an endpoint stands, by a model in other words, while time passes as the test says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.parts.profiles import examples
from tidegate.runs.webhooks_section import WebhooksSection
from tidegate.store.webhook_tables import STATES, Progress
from tidegate.webhooks.endpoint_states import (
    Failure,
    RetrySchedule,
    State,
    after_answer,
    after_failure,
    due_in,
    is_too_old,
)

SECOND = 1_000_000
SCHEDULE = RetrySchedule(first=2.0, longest=600.0, failing_after=3, give_up=5_000.0)


class Model(RuleBasedStateMachine):
    """All failures since the last answer are kept in a list, and everything follows from that."""

    def __init__(self):
        super().__init__()
        self.now = 1_700_000_000 * SECOND
        self.progress = Progress()

    @initialize()
    def begin(self):
        self.failed_at, self.is_verified, self.is_disabled, self.earliest = [], False, False, self.now

    @rule(seconds=st.floats(0, 2_000))
    def time_passes(self, seconds):
        self.now += int(seconds * SECOND)

    @rule()
    def it_answers(self):
        if not self.is_disabled:
            self.progress = after_answer(self.progress, self.now)
            self.failed_at, self.is_verified, self.earliest = [], True, self.now

    @rule(draw=st.floats(0, 1), asked=st.none() | st.floats(0, 2_000), is_gone=st.sampled_from([False] * 9 + [True]))
    def it_fails(self, draw, asked, is_gone):
        if self.is_disabled:
            return
        failure = Failure("status 500", asked, is_gone)
        self.progress = after_failure(self.progress, self.now, failure, SCHEDULE, draw)
        self.failed_at.append(self.now)
        for_ever = not self.is_verified and self.now - self.failed_at[0] >= 5_000 * SECOND
        self.is_disabled = is_gone or for_ever
        longest = 2.0
        for _ in self.failed_at[1:]:
            longest = min(600.0, longest * 2)
        self.earliest = self.now + int(max(draw * longest, min(asked or 0, 600.0)) * SECOND)

    @rule()
    def somebody_asks_to_verify(self):
        self.progress = Progress()
        self.begin()

    @invariant()
    def it_stands_as_the_model_says(self):
        if self.is_disabled:
            wanted = State.DISABLED
        elif not self.is_verified:
            wanted = State.UNVERIFIED
        else:
            wanted = State.FAILING if len(self.failed_at) >= 3 else State.ACTIVE
        assert self.progress.state == wanted
        assert self.progress.failures == len(self.failed_at)
        assert self.progress.failing_since == (self.failed_at[0] if self.failed_at else None)
        due = due_in(self.progress, self.now, SCHEDULE)
        if self.is_disabled:
            assert due is None
        else:
            assert due == pytest.approx(max(0, self.earliest - self.now) / SECOND, abs=1e-5)
            assert due <= 600

    @invariant()
    def nothing_is_given_up_early(self):
        for waited in (0, 4_999, 5_000, 20_000):
            matched_at = self.now - waited * SECOND
            fails_for = self.now - self.failed_at[0] if self.failed_at else 0
            wanted = waited >= 5_000 and fails_for >= 5_000 * SECOND
            assert is_too_old(self.progress, matched_at, self.now, SCHEDULE) == wanted


TestModel = Model.TestCase
TestModel.settings = examples(30, stateful_step_count=30)


@examples(100)
@given(st.integers(1, 10_000), st.floats(0, 1))
def test_waits_are_shares_of_a_doubling_wait_up_to_the_longest(failures, draw):
    wait = SCHEDULE.wait(failures, draw, None)
    assert 0 <= wait <= min(600.0, 2.0 * 2 ** min(failures - 1, 1000))
    assert SCHEDULE.wait(failures, 1.0, None) >= wait
    assert SCHEDULE.wait(failures, draw, 1e9) == 600


def test_a_clock_that_was_set_back_makes_nobody_wait_for_long():
    failed = after_failure(Progress(State.ACTIVE), 10**15, Failure("x"), SCHEDULE, 1.0)
    assert due_in(failed, 10**15, SCHEDULE) == 2
    assert due_in(failed, 10**15 - 601 * SECOND, SCHEDULE) == 0


def test_the_states_are_those_that_are_stored():
    assert tuple(State) == STATES


def test_what_holds_if_nothing_else_is_said():
    schedule = RetrySchedule.of(WebhooksSection())
    assert schedule == (2.0, 3600.0, 5, 3 * 86_400.0)
    assert [schedule.wait(n, 1.0, None) for n in (1, 2, 3, 11, 12, 40)] == [2, 4, 8, 2048, 3600, 3600]
