"""The log against a plain list of rows; then killed, torn, damaged, full, and written from all sides at once."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import pickle
import random
import resource
import shutil
import threading
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.writing import NOON, append_in_threads, append_until_killed, rows
from tidegate.errors import PublicationError, SettingError, StoreError
from tidegate.model import Publication
from tidegate.store import log_intake, log_tail
from tidegate.store.log import Log, read
from tidegate.store.log_intake import PendingAppend, bundles

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tidegate.store.log", "pandas", "tidegate.records", "tidegate.index"])


def frames(log, begin=None, end=None, pieces=1):
    begin = log.begin if begin is None else begin
    return [frame for part in log.slices(begin, log.end if end is None else end, pieces) for frame in read(part)]


def plain(table):
    """Rows as dictionaries of what is there."""
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def contents(log, begin=None, end=None, pieces=1):
    """All rows, after a check that their numbers are consecutive."""
    found, row = [], log.begin if begin is None else begin
    for frame in frames(log, begin, end, pieces):
        assert frame.first_row == row
        found += plain(frame.batch)
        row += frame.batch.num_rows
    return found


def ids(log):
    return [row["id"] for row in contents(log)]


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
                assert log.append(given) == len(kept) == log.end == reader.end
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
        assert log.append(given) == 2001
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
        assert log.append(given) == len(values)
        found = {row["id"]: row.get("x") for row in contents(log)}
        expected = {p.id: p.attributes.get("x") for p in given}
        assert found == expected | {"p9": {"lon": 1.0, "lat": 2.0}}
        assert len(frames(log)) < len(values)
        sparse = [Publication(f"q{i}", "z7", NOON, {f"name {i}": i}) for i in range(200)]
        log.append(sparse)
        assert sum(frame.batch.num_columns * frame.batch.num_rows for frame in frames(log, len(values))) < 200 * 100
        assert len(contents(log)) == len(values) + 200
        assert log.append([]) == log.append(rows([])) == log.end == len(values) + 200


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
        (Publication("p", "z7", NOON), "a list of publications"),
        ({"id": ["a"]}, "a list of publications"),
        ("p1", "publications"),
        (None, "a list of publications"),
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
        assert log.append(rows(["c"])) == 2
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
            seen.append((log.append(rows([f"{thread}-{number}"])), before))

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


# --- many writers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segment_bytes", [5_000, 1 << 20])
def test_processes_and_threads_append_at_once(tmp_path, segment_bytes):
    with Log(tmp_path / "log", segment_bytes=segment_bytes) as log:
        writers = []
        for name in ("one", "two"):
            here, there = PROCESSES.Pipe(duplex=False)
            arguments = (tmp_path / "log", name, 3, 20, segment_bytes, there)
            writers.append((PROCESSES.Process(target=append_in_threads, args=arguments), here))
            writers[-1][0].start()
            there.close()
        waiting, found, seen = [here for _, here in writers], [], 0
        while waiting:
            for here in [here for here in waiting if here.poll(0.002)]:
                found += here.recv()
                waiting.remove(here)
            end = log.end
            assert sum(frame.batch.num_rows for frame in frames(log, seen, end, 3)) == end - seen
            seen = end
        for process, _ in writers:
            process.join()
        known = ids(log)
        for position, names in found:
            assert known[position - len(names) : position] == names
        assert len(known) == log.end == sum(len(names) for _, names in found)
        assert len(set(known)) == len(known)


# --- killed ---------------------------------------------------------------------------------------------------------


def kill_at_random(directory, runs, seed):
    chance, last_row, acknowledged = random.Random(seed), 0, {}
    for run in range(runs):
        here, there = PROCESSES.Pipe(duplex=False)
        process = PROCESSES.Process(target=append_until_killed, args=(directory, f"r{run}", there))
        process.start()
        there.close()
        got = [here.recv()]
        until = chance.uniform(0, 0.15)
        process.join(until)
        process.kill()
        process.join()
        try:
            while True:
                got.append(here.recv())
        except (EOFError, OSError):
            here.close()
        with Log(directory, create=False) as log:
            assert log.end >= got[-1][0]
            known = [row["id"] for row in contents(log, last_row)]
            assert all(name.startswith(f"r{run}-") for name in known)
            assert [int(name.split("-")[1]) for name in known] == list(range(len(known)))  # in order, each once
            for position, number, count in got:
                assert position == last_row + number + count
            assert len(known) >= got[-1][1] + got[-1][2]
            acknowledged[run], last_row = len(known), log.end
    with Log(directory) as log:
        assert ids(log) == [f"r{run}-{i}" for run, count in acknowledged.items() for i in range(count)]
        return len(log.slices(0, log.end, 1))


def test_killed_while_writing(tmp_path):
    kill_at_random(tmp_path / "log", 8, 1)


@pytest.mark.thorough
def test_killed_while_writing_very_often(tmp_path):
    assert kill_at_random(tmp_path / "log", 120, 2) > 5


class Killed(BaseException):
    """Stands for the end of the process: nothing that handles errors may see it."""


@given(st.integers(0, 40), st.floats(0, 1), st.sampled_from([1, 1 << 20]))
def test_killed_at_every_call_of_the_system(call, part, segment_bytes):
    """The n-th call that writes or syncs does a part of its work, then there is no process any more."""
    calls, write = 0, os.pwritev

    def dying(real):
        def run(file, *arguments):
            nonlocal calls
            calls += 1
            if calls <= call:
                return real(file, *arguments)
            if calls == call + 1 and real is write:
                data = b"".join(arguments[0])
                os.pwrite(file, data[: round(part * len(data))], arguments[1])
            raise Killed

        return run

    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_intake, "_ROWS", 3)
        log, done = Log(directory, segment_bytes=segment_bytes), 0
        patch.setattr(log_tail, "_sync", dying(log_tail._sync))
        for name in ("pwritev", "ftruncate", "fsync"):
            patch.setattr(os, name, dying(getattr(os, name)))
        try:
            for number in range(6):
                log.append(rows((f"{number}-{i}" for i in range(5)), **{"ab"[number % 2]: pa.array(range(5))}))
                done += 1
        except Killed:
            pass
        patch.undo()
        with Log(directory, segment_bytes=segment_bytes, create=False) as after:
            found = ids(after)
            whole = [f"{number}-{i}" for number in range(6) for i in range(5)]
            assert found in (whole[: 5 * done], whole[: 5 * done + 5])  # an append is there wholly or not at all
            assert after.append(rows(["after"])) == len(found) + 1
            assert ids(after) == [*found, "after"]


# --- damaged --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    """A log of five appends in two batches each: its directory, and the bytes after each."""
    directory = tmp_path_factory.mktemp("five")
    with pytest.MonkeyPatch.context() as patch, Log(directory) as log:
        patch.setattr(log_intake, "_ROWS", 2)
        ends = [0]
        for i in range(5):
            log.append(rows([f"{i}a", f"{i}b", f"{i}c"], **{"xy"[i % 2]: pa.array([1, 2, 3])}))
            ends.append(log.slices(0, log.end, 1)[0].last_byte)
    return directory, ends


FIVE = [f"{i}{letter}" for i in range(5) for letter in "abc"]
DAMAGES = st.tuples(
    st.integers(0, 5), st.binary(max_size=130), st.sampled_from(["cut", "flip", "more", "none"]), st.floats(0, 0.999)
)


@given(DAMAGES)
def test_what_is_whole_is_found_again(five, damage):
    """The index lost or shortened, with anything behind it, and the data damaged somewhere behind its last entry."""
    appends, garbage, what, where = damage
    with TemporaryDirectory() as parent:
        directory = Path(shutil.copytree(five[0], f"{parent}/log"))
        data, index, ends = directory / f"{0:020d}.log", directory / f"{0:020d}.index", five[1]
        known = index.read_bytes()[: 2 * appends * 40]
        index.write_bytes(known + garbage)
        if not known + garbage:
            index.unlink()
        content = bytearray(data.read_bytes())
        at = ends[appends] + int(where * (ends[-1] - ends[appends]))
        if what == "cut":
            del content[at:]
        elif what == "flip" and at < len(content):
            content[at] ^= 1 << int(where * 1000) % 8
        elif what == "more":
            content += bytes(content[: ends[1 + int(where * 3)]])  # whole frames, but not their turn
        data.write_bytes(content)
        least = sum(end <= at for end in ends[1:]) if what in ("cut", "flip") else 5
        with Log(directory) as log:
            found = ids(log)
            assert found == FIVE[: len(found)]
            assert len(found) % 3 == 0
            # What only pads a frame is not checked and may be flipped.
            assert len(found) == 3 * least or (what == "flip" and len(found) > 3 * least)
            assert data.stat().st_size == five[1][len(found) // 3]
            log.append(rows(["new"]))
            assert ids(log) == [*found, "new"]
        with Log(directory, create=False) as log:
            assert ids(log) == [*found, "new"]


def test_a_gap_in_the_index_is_mended(five, tmp_path):
    directory = Path(shutil.copytree(five[0], tmp_path / "log"))
    index = directory / f"{0:020d}.index"
    content = bytearray(index.read_bytes()[:400])
    content[80:120] = bytes(40)
    index.write_bytes(content)
    with (directory / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # one who only reads cannot mend it now
        with Log(directory, create=False) as log, pytest.raises(StoreError, match="with a gap"):
            ids(log)
    with Log(directory) as log:
        assert ids(log) == FIVE


def test_acknowledged_rows_that_are_gone_are_no_secret(five, tmp_path):
    directory = Path(shutil.copytree(five[0], tmp_path / "log"))
    data = directory / f"{0:020d}.log"
    with Log(directory) as log:
        (part,) = log.slices(0, log.end, 1)
        os.truncate(data, five[1][4] + 10)
        with pytest.raises(StoreError, match="bytes or more; got"):
            list(read(part))
        with pytest.raises(StoreError, match=r"remove the file .* \.index"):
            log.append(rows(["new"]))
    with pytest.raises(StoreError, match=r"remove the file .* \.index"):
        Log(directory)
    data.with_suffix(".index").unlink()
    with Log(directory) as log:
        assert ids(log) == FIVE[:12]


def test_a_damaged_frame_is_an_error(five, tmp_path):
    directory = Path(shutil.copytree(five[0], tmp_path / "log"))
    data = directory / f"{0:020d}.log"
    content = data.read_bytes()
    with Log(directory) as log:
        (part,) = log.slices(0, log.end, 1)
        data.write_bytes(content[: five[1][2]] + b"rust" + content[five[1][2] + 4 :])
        with pytest.raises(StoreError, match="a whole frame of the log; got b'rust'"):
            list(read(part))
        data.write_bytes(content[:72] + bytes(300) + content[372:])
        with pytest.raises(StoreError, match="a whole frame of the log"):
            list(read(part))


def test_older_segments_are_mended_too_and_never_cut(tmp_path):
    with Log(tmp_path, segment_bytes=1) as log:
        for i in range(4):
            log.append(rows([f"p{i}"]))
    (tmp_path / f"{1:020d}.index").unlink()
    (tmp_path / f"{2:020d}.index").write_bytes(b"garbage")
    with Log(tmp_path, segment_bytes=1) as log:
        assert ids(log) == ["p0", "p1", "p2", "p3"]
    data = tmp_path / f"{1:020d}.log"
    content = data.read_bytes()
    data.write_bytes(content[:-64])
    (tmp_path / f"{1:020d}.index").unlink()
    with pytest.raises(StoreError, match="expected rows up to 2; got whole frames up to row 1"):
        Log(tmp_path)
    assert data.read_bytes() == content[:-64]


def test_a_full_disk(tmp_path):
    with Log(tmp_path) as log:
        log.append(rows(["a"]))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        big = rows((f"p{i}" for i in range(5000)), n=pa.array(range(5000)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(StoreError, match="expected room to write; got File too large"):
                log.append(big)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        (part,) = log.slices(0, log.end, 1)
        assert Path(part.file).stat().st_size == part.last_byte
        assert log.append(big) == 5001
        assert ids(log) == ["a", *(f"p{i}" for i in range(5000))]


# --- old segments ---------------------------------------------------------------------------------------------------


@pytest.fixture
def six(tmp_path):
    """Six rows, a segment each, appended a minute apart; the clock stands a minute later."""
    clock = [0]

    def minute():
        clock[0] += 60_000_000
        return clock[0]

    with Log(tmp_path / "log", segment_bytes=1, clock=minute) as log:
        for i in range(6):
            log.append(rows([f"p{i}"]))
        log._clock = lambda: 7 * 60_000_000
        yield log


@pytest.mark.parametrize(
    ("wanted", "begin"),
    [
        ({"before": 0}, 0),
        ({"before": 3}, 3),
        ({"before": 6}, 5),
        ({"before": 99}, 5),
        ({"age": timedelta(minutes=4)}, 2),
        ({"age": timedelta(0)}, 5),
        ({"age": timedelta(days=1)}, 0),
        ({"size": 0}, 5),
        ({"size": 1 << 30}, 0),
        ({"size": 0, "before": 4}, 4),
        ({"age": timedelta(minutes=4), "before": 1}, 1),
        ({"age": timedelta(minutes=4), "size": 0}, 5),
    ],
)
def test_old_segments_are_dropped(six, wanted, begin):
    assert six.retain(**wanted) == begin
    assert six.begin == begin
    assert ids(six) == [f"p{i}" for i in range(begin, 6)]
    assert len(list(six.directory.iterdir())) == 1 + 2 * (6 - begin)


def test_the_size_that_is_kept(six):
    whole = sum(file.stat().st_size for file in six.directory.iterdir())
    first = sum(file.stat().st_size for file in six.directory.glob(f"{0:020d}.*"))
    assert six.retain(size=whole) == 0
    assert six.retain(size=whole - first) == 1
    assert six.retain(size=whole - first - 1) == 1


def test_who_reads_while_old_segments_go(six):
    reader = Log(six.directory, create=False)
    parts = reader.slices(0, 6, 1)
    early = list(read(parts[0]))
    assert six.retain(before=5) == 5
    assert plain(early[0].batch)[0]["id"] == "p0"
    with pytest.raises(StoreError, match="rows 1 and on, dropped"):
        list(read(parts[1]))
    for ask in (lambda: reader.slices(2, 6, 1), lambda: reader.cut(2, 1)):
        with pytest.raises(StoreError, match="rows that are kept, from 5 on; got row 2"):
            ask()
    assert six.append(rows(["p6"])) == reader.end == 7
    assert ids(reader) == ["p5", "p6"]
    reader.close()


def test_who_was_away_while_all_it_knew_was_dropped(tmp_path):
    writer = Log(tmp_path, segment_bytes=1)
    writer.append(rows(["a"]))
    with Log(tmp_path, create=False) as reader, Log(tmp_path) as other:
        assert reader.end == 1
        other.append(rows(["b"]))
        for name in "cdef":
            writer.append(rows([name]))
        writer.retain(size=0)
        assert reader.end == 6
        assert other.append(rows(["g"])) == 7
        assert reader.begin == 5
        assert ids(reader) == ["f", "g"]
    writer.close()


def test_dropping_that_was_interrupted_is_finished(six):
    (six.directory / f"{0:020d}.log").unlink()
    assert six.begin == 1
    six.retain(before=1)
    assert not (six.directory / f"{0:020d}.index").exists()
    assert ids(six) == ["p1", "p2", "p3", "p4", "p5"]


# --- opening, asking ------------------------------------------------------------------------------------------------


def test_a_log_that_is_not_there(tmp_path):
    with pytest.raises(StoreError, match="expected a log; got no directory"):
        Log(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()
    with pytest.raises(StoreError, match="expected a log; got a directory without one"):
        Log(tmp_path, create=False)
    (tmp_path / "lock").touch()
    with pytest.raises(StoreError, match="expected a log; got a directory without one"):
        Log(tmp_path, create=False)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="one with 'file' in it"):
        Log(tmp_path)
    with pytest.raises(StoreError, match="a directory with a log that can be used"):
        Log(tmp_path / "file" / "log")
    with pytest.raises(SettingError, match="the path of a directory"):
        Log(7)
    with pytest.raises(SettingError, match="at least 1 byte"):
        Log(tmp_path / "log", segment_bytes=0)


def test_reading_does_not_wait_for_writers(tmp_path):
    with Log(tmp_path) as log:
        log.append(rows(["a"]))
        with (tmp_path / "lock").open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with Log(tmp_path, create=False) as reader:
                assert reader.end == log.end == 1
                assert ids(reader) == ["a"]


def test_questions_without_an_answer(tmp_path):
    log = Log(tmp_path)
    log.append(rows(["a", "b"]))
    for ask, error, said in [
        (lambda: log.slices(0, 3, 1), StoreError, "rows up to 2, the end of the log; got rows 0 to 3"),
        (lambda: log.slices(2, 1, 1), StoreError, "got rows 2 to 1"),
        (lambda: log.cut(3, 1), StoreError, "rows up to 2"),
        (lambda: log.slices(1, 2, 1), SettingError, "a row where a batch begins; got 1, within one"),
        (lambda: log.slices(0, 1, 1), SettingError, "a row where a batch begins; got 1, within one"),
        (lambda: log.slices(0, 2, 0), SettingError, "at least 1 piece"),
        (lambda: log.cut(0, 0), SettingError, "at least 1 row"),
        (lambda: log.retain(), SettingError, "before, age or size"),
    ]:
        with pytest.raises(error, match=said):
            ask()
    log.close()
    log.close()
    for ask in (lambda: log.end, lambda: log.append(rows(["c"])), lambda: log.retain(size=0)):
        with pytest.raises(StoreError, match="expected an open log; got one that was closed"):
            ask()
    with Log(tmp_path) as log:
        assert ids(log) == ["a", "b"]


def test_an_index_that_cannot_be_written_loses_nothing(tmp_path, monkeypatch):
    with Log(tmp_path) as log:
        log.append(rows(["a"]))

        def fail(entries):
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(log._tail, "_add", fail)
        with pytest.raises(StoreError, match="an index that can be written; got Input/output error"):
            log.append(rows(["b"]))
        assert ids(log) == ["a"]
        monkeypatch.undo()
        assert log.append(rows(["c"])) == 3  # b was durable, and stays
        assert ids(log) == ["a", "b", "c"]
