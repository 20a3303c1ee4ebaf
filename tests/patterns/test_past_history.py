"""The past across restarts, on each database: an engine that was closed and made again from its history goes on as if
nothing had been, and subscriptions that come later see what the history remembers.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from itertools import count
from signal import SIGKILL

import pytest

import tidegate as tg
from tests.parts.databases import DATABASES
from tests.parts.mariadb import mariadb
from tests.parts.postgres import postgres
from tests.patterns.following_oracle import act, assert_same, wheres_of
from tests.patterns.oracle import World
from tests.patterns.past_events import counted, event, part
from tests.patterns.strategies import Action, at, lasting, looks_back, thrown, unruly

__all__ = ["mariadb", "postgres"]


@pytest.fixture(params=DATABASES)
def fresh(request, tmp_path):
    """Gives the address of a new, empty database each time it is called."""
    if request.param == "sqlite":
        numbers = count()
        return lambda: str(tmp_path / f"{next(numbers)}.db")
    return request.getfixturevalue({"postgresql": "postgres", "mariadb": "mariadb"}[request.param])


class Running:
    """An engine with a history that can be closed and opened again with the same subscriptions."""

    def __init__(self, url: str, *wheres: str, **settings) -> None:
        self.url, self.settings = url, settings
        self.open([tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(wheres)])

    def open(self, subscriptions) -> None:
        self.history = tg.History(self.url, **self.settings)
        self.engine = tg.Engine(subscriptions, history=self.history)

    def restart(self) -> None:
        subscriptions = sorted(self.engine, key=lambda s: s.id)
        self.history.close()
        self.open(subscriptions)

    def ids(self, *publications) -> str:
        """What is told of, one publication a call; with several subscriptions as ``subscription:id``."""
        found = [n for p in publications for n in self.engine.publish([p])]
        alone = len(self.engine) == 1
        return " ".join(n.publications[0] if alone else f"{n.subscription}:{n.publications[0]}" for n in found)


@pytest.fixture
def begin(fresh):
    """Opens engines on new databases, or on the one given, and closes what they leave open."""
    opened = []

    def begin(*wheres: str, url: str | None = None, **settings) -> Running:
        opened.append(Running(fresh() if url is None else url, *wheres, **settings))
        return opened[-1]

    yield begin
    for running in opened:
        running.history.close()


# --- examples -----------------------------------------------------------------------------------------------------


def test_events_are_remembered(begin):
    #    Y [────]   restart   a is after it, and b is not
    running = begin("T_AFTER(time, past(n = 9))")
    assert running.ids(event("Y", 1, 3, time=3, n=9)) == ""
    running.restart()
    assert running.ids(part("INSTANT", "b", 3), part("INSTANT", "a", 4)) == "a"


def test_a_running_event_runs_on(begin):
    #    Y [────── restart ──── restart ───]
    running = begin("T_DURING(time, past(n = 9))", "T_AFTER(time, past(n = 9))")
    assert running.ids(part("START", "Y", 1, n=9)) == ""
    running.restart()
    assert running.ids(part("INSTANT", "a", 2)) == "s0:a"
    running.restart()
    assert running.ids(part("START", "Y", 2), part("END", "Y", 3), part("INSTANT", "b", 4)) == "s1:b"
    running.restart()
    assert running.ids(part("INSTANT", "c", 5), part("END", "Y", 6)) == "s1:c"
    assert running.history.refused_counts() == {"second start": 1, "end without start": 1}


#: Publishes five STARTs of which each but the first is told, and is gone without a word.
KILLED = """
import os, signal, sys
import tidegate as tg
from tests.patterns.past_events import part

engine = tg.Engine([tg.Subscription("s", "ann", "T_DURING(time, past(TRUE))")], history=tg.History(sys.argv[1]))
for i in range(5):
    for notification in engine.publish([part("START", f"a{i}", i)]):
        print(*notification.publications, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.contract
def test_a_killed_process_loses_nothing(fresh, begin):
    done = subprocess.run([sys.executable, "-c", KILLED, url := fresh()], capture_output=True, text=True, check=False)
    assert done.returncode == -SIGKILL, done.stderr
    assert done.stdout.split() == ["a1", "a2", "a3", "a4"]
    running = begin("T_DURING(time, past(TRUE))", url=url)
    assert len(running.history) == 5
    assert running.ids(*(part("END", f"a{i}", 6 + i) for i in range(5))) == "a0 a1 a2 a3", "then nothing runs"
    assert running.engine.refused == {}


def test_the_interval_of_an_end_begins_with_the_start_before_the_restart(begin):
    running = begin("T_EQUALS(event, past(n = 9))")
    running.ids(event("Y", 1, 5, time=1, n=9), part("START", "a", 2, 1, n=9))
    running.restart()
    assert running.ids(part("END", "a", 5)) == "a"


@pytest.mark.contract
def test_values_are_remembered_as_they_were(begin):
    values = {"n": 0.1 + 0.2, "big": 2**53 - 1, "t": "äöü 😀 'x'", "when": at(7.000001), "flag": True}
    for name, value in values.items():
        running = begin(f"v = past({name}, TRUE, 3)", "NOT w = past(n, flag)")
        running.ids(event("Y", 1, time=1, **values))
        running.restart()
        wanted = "" if name == "flag" else "s0:a"
        assert running.ids(part("INSTANT", "a", 2, v=value), part("INSTANT", "b", 2, v="other")) == wanted, name
        assert running.ids(part("INSTANT", "c", 3, w=0.3)) == "s1:c", "no rounding on the way"
        assert running.ids(part("INSTANT", "d", 3, w=0.1 + 0.2)) == ""


def test_the_last_few_are_the_last_few_after_a_restart(begin):
    running = begin("n = past(n, TRUE, 2)")
    running.ids(*(part("INSTANT", f"y{i}", 1, n=i) for i in range(3)))
    running.restart()
    assert running.ids(part("INSTANT", "a", 1, n=1)) == "a"
    assert running.ids(part("INSTANT", "b", 1, n=1)) == "b"
    assert running.ids(part("INSTANT", "c", 1, n=2)) == "", "two others came since"


def test_a_later_subscription_sees_what_is_remembered(begin):
    running = begin("T_AFTER(time, past(n = 9))")
    running.ids(event("Y", 1, 2, time=2, n=9, m=1), event("Z", 1, 2, time=2, n=8, m=2), part("START", "R", 2, n=9))
    running.engine.subscribe(tg.Subscription("late", "ann", "m = past(m, TRUE)"))
    assert running.ids(part("INSTANT", "a", 2, m=2)) == "", "nobody wanted Z"
    assert running.ids(part("INSTANT", "b", 3, m=1)) == "late:b s0:b"
    assert running.ids(part("INSTANT", "c", 4, m=2)) == "late:c s0:c", "a, which the later one wanted"
    running.engine.subscribe(tg.Subscription("last", "ann", "T_DURING(time, past(n = 9))"))
    assert running.ids(part("INSTANT", "d", 4)) == "last:d s0:d", "R still runs"
    assert running.ids(part("END", "R", 4), part("INSTANT", "e", 5)) == "s0:R s0:e"


def test_all_starts_and_ends_are_remembered(begin):
    """Lives must survive a restart, whoever wants them."""
    running = begin("T_AFTER(time, past(n = 9))")
    running.ids(part("START", "Y", 1, n=5), part("END", "Y", 3, n=9), part("START", "Z", 3, n=5))
    running.restart()
    running.engine.subscribe(tg.Subscription("late", "ann", "T_CONTAINS(event, past(n = 5))"))
    assert running.ids(event("a", 0, 4, time=3)) == "late:a"
    assert running.ids(part("START", "Z", 4), part("END", "Z", 4, 4), event("b", 2.5, 5, time=4)) == "s0:Z late:b s0:b"
    assert running.history.refused_counts() == {"second start": 1}


def test_a_later_subscription_sees_things_as_they_were(begin):
    #     a was during Y, which was running then; that Y had ended before a was told later
    running = begin("T_AFTER(time, past(TRUE))")
    running.ids(part("START", "Y", 1, n=9), part("INSTANT", "a", 2, n=8), part("END", "Y", 3, 1.5))
    running.restart()
    where = "T_AFTER(time, past(n = 8 AND T_DURING(time, past(n = 9))))"
    running.engine.subscribe(tg.Subscription("late", "ann", where))
    assert running.ids(part("INSTANT", "b", 4)) == "late:b s0:b"


def test_new_subscriptions_at_a_restart_see_what_is_remembered(begin):
    running = begin("T_AFTER(time, past(n = 9))")
    running.ids(event("Y", 1, 2, time=2, n=9), event("Z", 4, 5, time=5, n=8))
    running.history.close()
    again = begin("T_MEETS(event, past(TRUE))", url=running.url)
    assert again.ids(event("a", 0, 1, time=9), event("b", 3, 4, time=9)) == "a"


def test_forgetting_by_age(begin):
    running = begin("T_AFTER(time, past(n = 9))", keep=timedelta(seconds=5))
    running.ids(part("START", "R", 0, n=9), event("Y", 1, 2, time=2, n=9))
    running.restart()
    assert running.ids(part("INSTANT", "a", 7), part("INSTANT", "b", 7.000001)) == "a"
    running.restart()
    assert running.ids(part("INSTANT", "c", 7.000002), part("END", "R", 8), part("INSTANT", "d", 9)) == "d"


def test_forgetting_by_count(begin):
    #    of three the first is forgotten once the third is there
    running = begin("n = past(n, n > 0)", most=2)
    assert running.ids(*(part("INSTANT", f"y{n}", 1, n=n) for n in (1, 2, 3))) == ""
    assert running.ids(part("INSTANT", "a", 2, n=-1, m=1)) == ""
    running.restart()
    assert running.ids(part("INSTANT", "b", 2, n=1)) == ""
    assert running.ids(part("INSTANT", "c", 2, n=3)) == "c"


# --- random scripts -----------------------------------------------------------------------------------------------


def follows(script, begin, places: set[int], **settings) -> None:
    """Engine and oracle do the same, and at these places the engine begins again from its history.

    The oracle does not: it only forgets how late it is.
    """
    running, world, wheres = begin(**settings), World(history=True, **settings), wheres_of(script)
    for i, action in enumerate(script):
        if i in places:
            running.restart()
            world.restart()
        wanted = getattr(world, action.what)(action.operand) or []
        assert_same(act(running.engine, action, i % 3 == 0), wanted, wheres, f"action {i}: {action}")
    assert counted(running.history.refused_counts()) == world.refused


def all_wanted(script) -> list[Action]:
    return [Action("subscribe", tg.Subscription("all", "ann", "T_AFTER(time, past(TRUE))")), *script]


def only_more(script) -> list[Action]:
    """Without what ends something: nobody goes, so nobody comes again, and the clock is that of the stream."""
    found: list[Action] = []
    for action in script:
        if action.what == "publish" or (action.what == "subscribe" and action not in found):
            found.append(action)
    return found


def made(seed: int, most: int, depth: int, disorder: int = 0, refused: bool = False) -> tuple[list[Action], set[int]]:
    dice = thrown(seed)
    stream = unruly(dice, most // 2, most, disorder) if refused else lasting(dice, most // 2, most, disorder)
    script = looks_back(dice, stream, depth=depth, ordinary=False, ends=False)
    script = only_more(script)
    return script, {dice(range(1, len(script))) for _ in range(3)}


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_restart_changes_nothing(begin, seed, refused):
    script, places = made(seed, most=40, depth=2, refused=refused)
    follows(script, begin, places)


@pytest.mark.parametrize("seed", range(100, 104))
def test_a_restart_changes_nothing_where_all_is_wanted(begin, seed):
    script, places = made(seed, most=40, depth=3)
    follows(all_wanted(script), begin, places)


@pytest.mark.parametrize("seed", range(200, 204))
def test_a_restart_at_every_action_changes_nothing(begin, seed):
    script, _ = made(seed, most=16, depth=2)
    follows(all_wanted(script), begin, set(range(len(script))))


@pytest.mark.parametrize("keep", [2, 9])
@pytest.mark.parametrize("seed", range(300, 303))
def test_restarts_with_forgetting_by_age(begin, seed, keep):
    script, places = made(seed, most=40, depth=1)
    follows(all_wanted(script), begin, places, keep=timedelta(seconds=keep))


@pytest.mark.parametrize("most", [1, 5, 20])
@pytest.mark.parametrize("seed", range(400, 402))
def test_restarts_with_forgetting_by_count(begin, seed, most):
    script, places = made(seed, most=40, depth=1)
    follows(all_wanted(script), begin, places, most=most)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(500, 510))
def test_restarts_in_long_streams(begin, seed):
    script, places = made(seed, most=600, depth=2)
    follows(all_wanted(script), begin, places)
