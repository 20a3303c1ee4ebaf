"""What the history of a run must say, in obvious loops over the frames that it read; and streams of events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson

import tidegate as tg

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
#: Subscriptions, and what their inner filters ask.
ASKED = {
    "T_DURING(time, past(n > 6))": lambda n: n > 6,
    "n < past(n, n > 4, 3)": lambda n: n > 4,
    "T_AFTER(time, past(n < 2))": lambda n: n < 2,
    "NOT T_INTERSECTS(event, past(n = 3, 'PT2S'))": lambda n: n == 3,
}
WHERE = list(ASKED)


def second(number):
    return NOON + timedelta(seconds=number)


class Stream:
    """Publications of a few events, many of them wrong; each has a number ``k`` of its own."""

    def __init__(self, random, disorder):
        self._random, self._disorder, self._second, self._number = random, disorder, 0.0, 0

    def frame(self, count):
        return [self._publication() for _ in range(count)]

    def _publication(self):
        random = self._random
        self._second += random.choice([0, 0, 0.5, 1, 3])
        self._number += 1
        when = self._second - random.choice([0, 0, 0, self._disorder])
        told = {"k": self._number, "n": float(random.randrange(9))}
        phase = random.choice(["START", "START", "INSTANT", "END", "END", None])
        start, end = (second(when + random.choice([-1, 0, 0, 2])) if random.random() < 0.2 else None for _ in range(2))
        if start is not None and end is not None and end < start:
            start, end = end, start
        return tg.Publication(
            random.choice("abc"), random.choice("xy"), second(when), told, phase=phase, start=start, end=end
        )

    def last(self):
        """One an hour later, after which nothing waits but itself."""
        self._second += 3600
        return [tg.Publication("last", "x", second(self._second), {"k": 0, "n": 0.0})]


class Account:
    """What becomes of publications that are judged in order of time, all of them by one account of events."""

    def __init__(self, keep=None):
        self.keep, self.begun, self.ended, self.refused = keep, {}, {}, []
        self._lives = {}

    def judge(self, p, is_wanted):
        key, time = (p.source, p.id), p.time
        life = self._lives.get(key)
        if life and self.keep is not None and life["over"] and time - life["last"] > self.keep:
            life = None
        if reason := self._refusal(p, life):
            self.refused.append((reason, p.attributes["k"]))
            return
        if p.phase == "START":
            self._lives[key] = {"k": p.attributes["k"], "start": p.start or time, "over": False}
            self.begun[p.attributes["k"]] = (p.start or time, None)
        elif p.phase == "END":
            self.ended[life["k"]] = (p.attributes["k"], p.end or time)
            life["over"], life["last"] = True, time
        elif is_wanted:
            self.begun[p.attributes["k"]] = (p.start or p.end or time, p.end or p.start or time)

    @staticmethod
    def _refusal(p, life):
        if p.phase == "END":
            if life is None or life["over"]:
                return "end without start"
            if (p.end or p.time) < life["start"]:
                return "end before start"
            if p.start is not None and p.start != life["start"]:
                return "other start"
        elif p.phase is not None and life is not None:
            return "second start"
        elif p.phase == "START" and p.end is not None:
            return "start with an end"
        elif p.phase == "INSTANT" and (p.start or p.end or p.time) != (p.end or p.start or p.time):
            return "instant that lasts"
        return None


def in_order(frames, lateness):
    """Frame and publication of all that is not late and does not wait at the end, in the order of patterns."""
    phases = {None: 0, "START": 1, "INSTANT": 2, "END": 3}
    newest, taken = None, []
    for number, frame in enumerate(frames):
        taken += [(number, p) for p in frame if newest is None or p.time >= newest - lateness]
        newest = max([p.time for p in frame] + ([] if newest is None else [newest]))
    if lateness:
        taken = [(number, p) for number, p in taken if p.time < newest - lateness]
    turn = (lambda number: number) if not lateness else (lambda number: 0)
    return sorted(taken, key=lambda one: (one[1].time, turn(one[0]), one[1].id, phases[one[1].phase], one[1].source))


def written(history):
    """What is in a history: beginnings and ends by the numbers ``k``, and refusals; and that numbers follow times."""

    def k(body):
        return int(orjson.loads(body)["attributes"]["k"])

    events = history.events(100_000)[::-1]
    begun = {k(one.body): (one.start, one.end if one.end_seq is None else None) for one in events}
    ended = {k(one.body): (k(one.end_body), one.end) for one in events if one.end_seq is not None}
    refused = [(one.reason, k(one.body)) for one in history.refused(10_000)[::-1]]
    numbered = [(one.seq, one.time) for one in events]
    numbered += [(one.end_seq, one.end_time) for one in events if one.end_seq is not None]
    assert [number for number, _ in sorted(numbered)] == list(range(1, len(numbered) + 1))
    times = [time for _, time in sorted(numbered)]
    assert times == sorted(times)
    assert len(begun) == len(events)
    assert all(one.end_seq > one.seq for one in events if one.end_seq is not None)
    assert sum(history.refused_counts().values()) == len(refused) == len(set(refused))
    return begun, ended, sorted(refused)
