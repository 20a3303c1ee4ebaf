"""The log against a plain list of rows, and the publications and versions that it takes."""

from __future__ import annotations

import pickle
import threading
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.log_contents import contents, frames, ids, plain
from tests.store.writing import NOON, rows
from tidegate.errors import PublicationError, StoreError
from tidegate.model import Publication
from tidegate.store import log_intake
from tidegate.store.log import Log
from tidegate.store.log_intake import PendingAppend, bundles

# --- a list of rows is the oracle -----------------------------------------------------------------------------------


VALUES = {
    "n": (pa.float64(), st.floats(-9, 9)),
    "i": (pa.int32(), st.integers(-9, 9)),
    "flag": (pa.bool_(), st.booleans()),
    "word": (pa.string(), st.text("aé😀", max_size=3)),
    "bag": (pa.list_(pa.float64()), st.lists(st.floats(-9, 9), max_size=3)),
    "day": (pa.date32(), st.dates(date(2026, 1, 1), date(2026, 2, 1))),
    "spot": (pa.struct([("lon", pa.float64()), ("lat", pa.float64())]), st.just({"lon": 1.0, "lat": 2.0})),
}


@st.composite
def tables(draw):
    count = draw(st.integers(1, 9))
    columns = {}
    for name in draw(st.sets(st.sampled_from(sorted(VALUES)))):
        kind, values = VALUES[name]
        columns[name] = pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), kind)
    return rows((f"p{i}" for i in range(count)), **columns)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), tables()),
        st.tuples(st.just("append"), tables()),
        st.tuples(st.just("batch"), tables()),
        st.tuples(st.just("reopen"), st.none()),
        st.tuples(st.just("retain"), st.floats(0, 1)),
        st.tuples(st.just("look"), st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(1, 5))),
    ),
    min_size=3,
    max_size=25,
)


@given(STEPS, st.sampled_from([1, 3000, 1 << 20]))
def test_a_log_is_a_list(steps, segment_bytes):
    with TemporaryDirectory() as directory:
        log, reader = Log(f"{directory}/log", segment_bytes=segment_bytes), Log(f"{directory}/log", create=False)
        kept, ends, first = [], [0], 0
        for step, what in steps:
            if step in ("append", "batch"):
                kept += plain(what)
                ends.append(len(kept))
                given = what if step == "append" else what.to_batches()[0]
                assert log.append(given).position == len(kept) == log.end == reader.end
            elif step == "reopen":
                log.close()
                log = Log(f"{directory}/log", segment_bytes=segment_bytes)
            elif step == "retain":
                before = ends[round(what * (len(ends) - 1))]
                log.retain(before=before)
                assert first <= log.begin <= max(first, before)
                first = log.begin
                assert first in ends
                assert first == reader.begin
            else:
                places = [end for end in ends if end >= first]
                low, high = sorted(round(part * (len(places) - 1)) for part in what[:2])
                low, high, pieces = places[low], places[high], what[2]
                for one in (log, reader):
                    assert contents(one, low, high, pieces) == kept[low:high]
                most = round(what[1] * 12) + 1
                after = [end for end in ends if end > low]
                cuts = [end for end in after if end <= low + most] or after[:1] or [low]
                assert log.cut(low, most) == reader.cut(low, most) == cuts[-1]
        assert contents(log) == contents(reader) == kept[first:]
        log.close()
        reader.close()


@given(st.lists(st.integers(1, 6), min_size=1, max_size=30), st.integers(1, 8))
def test_pieces_are_about_equal(sizes, pieces):
    with TemporaryDirectory() as directory, Log(directory) as log:
        for i, size in enumerate(sizes):
            log.append(rows(f"{i}-{j}" for j in range(size)))
        found = log.slices(0, log.end, pieces)
        assert [part.first_row for part in found] == [sum(part.rows for part in found[:i]) for i in range(len(found))]
        assert sum(part.rows for part in found) == sum(sizes)
        assert len(found) <= pieces
        for part in found:  # off by at most half a batch at either end
            assert part.rows <= sum(sizes) / pieces + max(sizes) + 1
        assert pickle.loads(pickle.dumps(found)) == found


def test_a_piece_ends_where_it_is_nearest_to_equal(tmp_path):
    with Log(tmp_path) as log:
        for name, size in (("a", 7), ("b", 6), ("c", 1), ("d", 6)):
            log.append(rows(f"{name}{i}" for i in range(size)))
        assert [part.rows for part in log.slices(0, 13, 2)] == [7, 6]
        assert [part.rows for part in log.slices(7, 20, 2)] == [6, 7]


def test_a_piece_is_of_one_file(tmp_path):
    with Log(tmp_path, segment_bytes=1) as log:
        for i in range(4):
            log.append(rows([f"p{i}"]))
        found = log.slices(1, 4, 1)
        assert [(Path(part.file).name, part.first_row, part.rows) for part in found] == [
            (f"{i:020d}.log", i, 1) for i in (1, 2, 3)
        ]
        assert log.slices(2, 2, 3) == []


# --- what is taken --------------------------------------------------------------------------------------------------


def test_columns_are_plain_when_read(tmp_path):
    words = pa.array(["a", "b", "a"])
    given = rows("xyz", coded=words.dictionary_encode(), viewed=words.cast(pa.string_view()), whole=words)
    given = pa.concat_tables([given.slice(1, 2), given.slice(0, 1)])
    with Log(tmp_path) as log:
        log.append(given)
        (frame,) = frames(log)
        assert plain(frame.batch) == plain(given)
        kinds = {str(frame.batch.schema.field(name).type) for name in ("coded", "viewed", "whole")}
        assert kinds <= {"string", "large_string"}


def test_large_appends_are_cut_into_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(log_intake, "_ROWS", 10)
    with Log(tmp_path) as log:
        given = rows((f"p{i}" for i in range(2001)), n=pa.array(range(2001)))
        assert log.append(given).position == 2001
        sizes = [frame.batch.num_rows for frame in frames(log)]
        assert len(sizes) == 201
        assert set(sizes) == {9, 10}
        assert contents(log) == plain(given)
        monkeypatch.setattr(log_intake, "_BYTES", 100)
        log.append(given)
        assert 402 < len(frames(log, 2001)) < 804
        assert contents(log, 2001) == plain(given)


def test_publications_of_different_kinds(tmp_path):
    values = [1, "a", 2.5, True, [1], ["a"], [], NOON, date(2026, 1, 1), (1.0, 2.0), None, [True], [NOON], "b", [2.5]]
    given = [Publication(f"p{i}", "z7", NOON, {"x": value, "y": i}) for i, value in enumerate(values)]
    with Log(tmp_path) as log:
        assert log.append(given).position == len(values)
        assert [row["id"] for row in contents(log)] == [p.id for p in given]
        found = {row["id"]: row.get("x") for row in contents(log)}
        expected = {p.id: p.attributes.get("x") for p in given}
        assert found == expected | {"p9": {"lon": 1.0, "lat": 2.0}}
        assert len(frames(log)) < len(values)
        sparse = [Publication(f"q{i}", "z7", NOON, {f"name {i}": i}) for i in range(200)]
        log.append(sparse)
        assert sum(frame.batch.num_columns * frame.batch.num_rows for frame in frames(log, len(values))) < 200 * 100
        assert len(contents(log)) == len(values) + 200
        assert log.append([]).position == log.append(rows([])).position == log.end == len(values) + 200


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (rows(["a", "b"], n=pa.array([1.0, float("nan")])), "finite numbers"),
        (rows([""]), "non-empty string as the id"),
        (rows(["a"]).drop_columns(["time"]), "a column time"),
        (rows([], event=pa.array([], pa.string())), "reserved name"),
        (rows((f"p{i}" for i in range(5000)), n=pa.array([float("inf")] * 5000)), "finite numbers"),
        ([Publication("p", "z7", NOON, {"x": [1, "a"]})], "members are of one kind"),
        ([Publication("p", "z7", NOON), "q"], "publications"),
        ({"id": ["a"]}, "a field source"),
        ("p1", "a publication, a dict"),
        (None, "a publication, a dict"),
    ],
)
def test_wrong_publications_leave_nothing(tmp_path, wrong, said):
    with Log(tmp_path) as log:
        log.append(rows(["before"]))
        files = {file: file.read_bytes() for file in tmp_path.iterdir()}
        with pytest.raises(PublicationError, match=said):
            log.append(wrong)
        assert {file: file.read_bytes() for file in tmp_path.iterdir()} == files
        log.append(rows(["after"]))
        assert ids(log) == ["before", "after"]


def test_one_wrong_arrival_does_not_harm_the_others():
    good = [rows(["a"], n=pa.array([1.0])), [Publication("b", "z7", NOON)], [Publication("c", "z7", NOON, {"x": "a"})]]
    wrong = [rows(["w"], n=pa.array([float("nan")])), [Publication("v", "z7", NOON, {"x": [1, "a"]})]]
    arrivals = [PendingAppend(what) for what in (*good, *wrong, *good)]
    found = list(bundles(arrivals))
    order = [arrival for bundle in found for arrival in bundle.arrivals]
    assert {arrivals.index(arrival) for arrival in order} == {0, 1, 2, 5, 6, 7}
    for bundle in found:
        assert sum(batch.num_rows for batch in bundle.batches) == sum(arrival.rows for arrival in bundle.arrivals)
    assert [str(arrivals[i].error)[:8] for i in (3, 4)] == ["expected"] * 2


def test_arrivals_that_fit_share_a_batch():
    arrivals = [PendingAppend(rows([f"p{i}"] * i, n=pa.array([1.0] * i))) for i in (1, 2, 3)]
    (bundle,) = bundles(arrivals)
    assert bundle.arrivals == arrivals
    assert [batch.column("id").to_pylist() for batch in bundle.batches] == [["p1", "p2", "p2", "p3", "p3", "p3"]]
    arrivals = [PendingAppend([Publication("a", "z7", NOON, {"x": x})]) for x in (1, "a", 2)]
    assert [bundle.arrivals for bundle in bundles(arrivals)] == [[arrival] for arrival in arrivals]


def test_frames_are_mapped_not_copied(tmp_path):
    with Log(tmp_path) as log:
        count = 30_000
        log.append(rows((f"p{i}" for i in range(count)), n=pa.array([float(i) for i in range(count)])))
        before = pa.total_allocated_bytes()
        (frame,) = frames(log)
        assert pa.total_allocated_bytes() - before < 10_000 < frame.batch.nbytes
        assert all(buffer.address % 8 == 0 for column in frame.batch.columns for buffer in column.buffers() if buffer)


# --- versions -------------------------------------------------------------------------------------------------------


def test_frames_are_stamped_with_the_version_and_the_time(tmp_path):
    versions, clock = iter([3, 3, 8]), iter([10, 5, 20])
    with Log(tmp_path, version=lambda: next(versions), clock=lambda: next(clock), segment_bytes=1) as log:
        for i in range(3):
            log.append(rows([f"p{i}"]))
        assert [(frame.version, frame.appended) for frame in frames(log)] == [(3, 10), (3, 10), (8, 20)]
        assert [(part.oldest_version, part.newest_version) for part in log.slices(1, 3, 1)] == [(3, 3), (8, 8)]
    with Log(tmp_path / "one", version=iter(range(9)).__next__) as log:
        for i in range(3):
            log.append(rows([f"p{i}"]))
        assert [(part.oldest_version, part.newest_version) for part in log.slices(1, 3, 1)] == [(1, 2)]


@pytest.mark.parametrize("wrong", [ZeroDivisionError("no registry"), KeyboardInterrupt()])
def test_without_a_version_nothing_is_written(tmp_path, wrong):
    def version():
        if answers:
            return answers.pop()
        raise wrong

    answers = [0]
    with Log(tmp_path, version=version) as log:
        log.append(rows(["a"]))
        size = Path(log.slices(0, 1, 1)[0].file).stat().st_size
        with pytest.raises(type(wrong)):
            log.append(rows(["b"]))
        assert Path(log.slices(0, 1, 1)[0].file).stat().st_size == size
        answers.append(7)
        assert log.append(rows(["c"])).position == 2
        assert ids(log) == ["a", "c"]


@pytest.mark.parametrize("segment_bytes", [1, 1 << 20])
def test_versions_never_go_back(tmp_path, segment_bytes):
    with Log(tmp_path, version=lambda: 5, segment_bytes=segment_bytes) as log:
        log.append(rows(["a"]))
    with Log(tmp_path, version=lambda: 4, segment_bytes=segment_bytes) as log:
        with pytest.raises(StoreError, match="a version of 5 or more"):
            log.append(rows(["b"]))
        assert ids(log) == ["a"]
    with Log(tmp_path / "new", version=lambda: -1) as log, pytest.raises(StoreError, match="a version of 0 or more"):
        log.append(rows(["b"]))


def test_a_stamp_is_no_older_than_the_call(tmp_path):
    state, lock, seen = [0], threading.Lock(), []

    def run(thread):
        for number in range(25):
            with lock:
                state[0] += 1
                before = state[0]
            seen.append((log.append(rows([f"{thread}-{number}"])).position, before))

    with Log(tmp_path, version=lambda: state[0]) as log:
        running = [threading.Thread(target=run, args=(thread,)) for thread in range(6)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        stamps = [frame.version for frame in frames(log) for _ in range(frame.batch.num_rows)]
        assert stamps == sorted(stamps)
        assert len(stamps) == len(seen) == 150
        for position, before in seen:
            assert stamps[position - 1] >= before
        assert len(frames(log)) < 150  # some shared a commit


def test_no_row_behind_a_standing_has_an_older_version(tmp_path):
    asked, answered = threading.Event(), threading.Event()

    def version():  # of an append that is under way while the registry moves on
        asked.set()
        assert answered.wait(10)
        return 1

    with Log(tmp_path, version=version) as log, Log(tmp_path, create=False) as reader:
        append = threading.Thread(target=log.append, args=(rows(["slow"]),))
        append.start()
        assert asked.wait(10)
        found = []
        look = threading.Thread(target=lambda: found.append(reader.standing(lambda: 2)))
        look.start()
        look.join(0.05)
        assert not found  # waits
        answered.set()
        look.join(10)
        append.join(10)
        assert found == [(1, 2)]
