"""What had expired when the log took it: matched only by subscriptions that want it, and seen by patterns as ever."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.pipeline.lane import TIME
from tests.pipeline.references import Referred, check
from tidegate.broker.process_run import ProcessRun
from tidegate.index import ArrowBatch
from tidegate.model import micros
from tidegate.pipeline.flow import Flow
from tidegate.runs.sources import FilesSource, LogSource
from tidegate.stages import feed
from tidegate.stages.feed import Arrived
from tidegate.stages.select import SelectedBatch

NOW, SECOND = micros(TIME), 1_000_000


def moment(seconds):
    return TIME + timedelta(seconds=seconds)


def readings(first, numbers, validity):
    """Publications of TIME; ``validity`` has the second until which each is valid, None for one that has no end."""
    names = [f"p{first + i:03d}" for i in range(len(numbers))]
    columns = {
        "id": names,
        "source": ["z"] * len(names),
        "time": pa.array([moment(first + i) for i in range(len(names))], pa.timestamp("us", "UTC")),
        "n": pa.array(numbers, pa.float64()),
    }
    if any(until is not None for until in validity):
        ends = [None if until is None else moment(until) for until in validity]
        columns["valid_until"] = pa.array(ends, pa.timestamp("us", "UTC"))
    return pa.table(columns)


class Subscribed:
    """The oracle: who ever subscribed, when the log took what, and who is told of it, in obvious loops."""

    def __init__(self):
        self.subscriptions, self.publications, self.version = [], [], 0

    def subscribe(self, threshold, expired):
        self.version += 1
        self.subscriptions.append([self.version, None, threshold, expired])
        where = "n >= 0" if threshold is None else f"n >= {threshold}"
        return tg.Subscription(f"s{self.version}", "ann", where, expired=expired)

    def unsubscribe(self, which):
        living = [one for one in self.subscriptions if one[1] is None]
        self.version += 1
        one = living[which % len(living)]
        one[1] = self.version
        return f"ann/s{one[0]}"

    def append(self, stamp, numbers, validity):
        for number, until in zip(numbers, validity, strict=True):
            self.publications.append((stamp, self.version, number, until))

    def told(self):
        """Rows of the log and the versions of the subscriptions that are told of them."""
        found = set()
        for row, (stamp, version, number, until) in enumerate(self.publications):
            for since, ended, threshold, expired in self.subscriptions:
                is_active = since <= version and (ended is None or version < ended)
                is_valid = until is None or until > stamp
                if is_active and number >= threshold and (is_valid or expired):
                    found.add((row, since))
        return found


frames = st.lists(
    st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(-3, 3))), max_size=8
)  # numbers, and until when they are valid, in seconds after the append
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2), frames),
        st.tuples(st.just("append"), st.integers(0, 2), frames),
        st.tuples(st.just("subscribe"), st.integers(0, 5), st.booleans()),
        st.tuples(st.just("unsubscribe"), st.integers(0, 9), st.none()),
        st.tuples(st.just("run"), st.none(), st.none()),
    ),
    min_size=3,
    max_size=14,
)


def run(registry, directory, sinks, rows, make=ProcessRun, **settings):
    made = make(
        LogSource(directory / "log", rows=rows), registry, sinks, checkpoint=directory / "checkpoint", **settings
    )
    made.start(available_now=True)
    made.wait()
    made.close()


def plain(told):
    """The rows and versions of the notifications of subscriptions without a pattern."""
    return [
        pair for one in told if one["plain"] for pair in zip(one["fields"]["row"], one["fields"]["since"], strict=True)
    ]


@examples(12, phases=[Phase.explicit, Phase.generate])
@given(steps=steps, rows=st.sampled_from([1, 5, 1000]))
def test_the_runner_tells_whom_the_oracle_says(steps, rows):
    """In all forms of notifications, which ``check`` compares with each other."""
    with TemporaryDirectory() as name, tg.Registry(f"{name}/registry.db") as registry:
        directory, world, now, referred = Path(name), Subscribed(), [0], Referred()
        log = tg.Log(directory / "log", version=lambda: registry.version, clock=lambda: NOW + now[0] * SECOND)
        registry.subscribe(*(world.subscribe(2, expired) for expired in (False, True)))
        for what, some, more in steps:
            if what == "append":
                now[0] += some
                numbers, validity = [n for n, _ in more], [None if v is None else now[0] + v for _, v in more]
                log.append(readings(len(world.publications), numbers, validity))
                world.append(now[0], numbers, validity)
            elif what == "subscribe":
                registry.subscribe(world.subscribe(some, more))
            elif what == "unsubscribe" and any(one[1] is None for one in world.subscriptions):
                registry.unsubscribe(world.unsubscribe(some))
            elif what == "run":
                run(registry, directory, [referred], rows)
        now[0] += 10**6  # when a backlog is read does not matter
        run(registry, directory, [referred], rows)
        names = {since: f"ann/s{since}" for since, *_ in world.subscriptions}
        matches, _ = check(referred.told, log, names)
        found = plain(referred.told)
        assert len(found) == len(set(found)) == matches
        assert set(found) == world.told()
        log.close()


def test_patterns_see_what_had_expired(tmp_path):
    told = []
    for name, until in (("valid", 99), ("expired", 0)):
        with tg.Registry(tmp_path / f"{name}.db") as registry:
            registry.subscribe(
                tg.Subscription("best", "ann", "topk(2, 3, n)"),
                tg.Subscription("both", "ann", "together('PT9S', n > 1, n > 3)"),
                tg.Subscription("silent", "ann", "absent('PT1S', n > 3)"),
                tg.Subscription("after", "ann", "T_AFTER(event, past(n > 3))"),
            )
            (tmp_path / name).mkdir()
            with tg.Log(tmp_path / name / "log", version=lambda registry=registry: registry.version,
                        clock=lambda: NOW + SECOND) as log:  # fmt: skip
                log.append(readings(0, [1, 4, 2, 5], [until] * 4))
            referred = Referred()
            run(registry, tmp_path / name, [referred], 1000, lateness=0.0)
            told.append([one for one in referred.told if not one["plain"]])
    assert told[0] == told[1]
    assert sum(one["count"] for one in told[0]) > 3


def test_on_spark(spark, tmp_path):
    """Also of subscriptions in several layers, and of one that came later."""
    with (
        tg.Registry(tmp_path / "registry.db") as registry,
        tg.Log(tmp_path / "log", version=lambda: registry.version, clock=lambda: NOW) as log,
    ):
        world, referred = Subscribed(), Referred()
        for number in range(4):
            registry.subscribe(world.subscribe(number, number % 2 == 0), world.subscribe(1, True))
            numbers, validity = [0, 1, 2, 3, 4], [None, -1, 0, 1, None if number % 2 else -5]
            log.append(readings(len(world.publications), numbers, validity))
            world.append(0, numbers, validity)

        def flow(*arguments, **settings):
            return Flow(spark, *arguments, **settings)

        run(registry, tmp_path, [referred], 7, flow)
        check(referred.told, log, {since: f"ann/s{since}" for since, *_ in world.subscriptions})
        found = plain(referred.told)
        assert len(found) == len(set(found))
        assert set(found) == world.told()


class Everything:
    """A view that tells which publications it is said to have expired, in place of who is told of them."""

    names = frozenset({"n"})

    def match(self, batch, versions, expired):
        return expired

    def of_task(self):
        return 1

    def view(self, oldest, version):
        return self


@pytest.mark.parametrize(
    ("stamp", "kind", "expected"),
    [
        (NOW, 1, [True, True, False, False]),
        (NOW, 0, None),  # a time that producers chose says nothing
        (NOW - 2 * SECOND, 1, None),
    ],
)
def test_kafka_says_it_where_it_stamps_itself(stamp, kind, expected):
    validity = [-1, 0, 1, None]
    values = [
        orjson.dumps({"id": "p", "source": "z", "time": "2026-11-15T08:00:00Z", "n": 1}
                     | ({} if until is None else {"valid_until": moment(until)}))
        for until in validity
    ]  # fmt: skip
    batch = pa.record_batch(
        {
            "value": pa.array(values, pa.binary()),
            "timestamp": pa.array([stamp] * 4, pa.timestamp("us", "UTC")),
            "timestampType": pa.array([kind] * 4, pa.int32()),
        }
    )
    (arrived,) = feed.texts([batch], Everything())
    found = SelectedBatch(arrived)._matches
    assert (None if found is None else found.tolist()) == expected


def test_a_source_without_stamps_knows_no_expiry(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.jsonl").write_text(
        '{"id": "p", "source": "z", "time": "2026-11-15T08:00:00Z", "valid_until": "2001-01-01T00:00:00Z", "n": 1}\n'
    )
    with tg.Registry(tmp_path / "registry.db") as registry:
        registry.subscribe(tg.Subscription("s1", "ann", "n >= 0"))
        referred = Referred()
        made = ProcessRun(FilesSource(str(folder)), registry, [referred], checkpoint=tmp_path / "checkpoint")
        made.start(available_now=True)
        made.wait()
        made.close()
    assert sum(one["count"] for one in referred.told) == 1


def test_nothing_is_looked_at_where_no_publication_has_an_end():
    """The columns say so: no array is made for it."""
    batch = ArrowBatch.trusted(readings(0, [1, 2], [None, None]))
    found = SelectedBatch(Arrived(batch, Everything(), 1, [], taken=np.full(2, NOW)))._matches
    assert found is None
