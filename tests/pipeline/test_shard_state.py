"""What survives a kill of a flow: records that are read as they were written, and refused in another format."""

from __future__ import annotations

import os

import orjson
import pytest

from tests.pipeline.lane import Lane, Stream, Task, running, subscription
from tidegate import array_bundle, checked_json
from tidegate.errors import SettingError, StoreError
from tidegate.index.versioned import View
from tidegate.patterns import Standing
from tidegate.runs.checkpoint import Begun, begun
from tidegate.stages import live_shard
from tidegate.stages.select_task import ReceiptRows, SelectTask
from tidegate.stages.shard_parts import read_pieces
from tidegate.stages.shard_state import (
    FORMAT,
    TOGETHER,
    CombineSettings,
    PartReference,
    ShardChanges,
    ShardState,
    StepRecord,
)

PART = PartReference(7, 100, ((3, 100), (4, 250)), 300, "part-000000000002-0-1-a", 64)
EMPTY = PartReference(None, None, (), 301, None, 0)
STATE = ShardState(
    "token",
    4,
    "state-000000000001-1-b",
    1000,
    (
        StepRecord((PART, EMPTY), "change-000000000002-1-c", CombineSettings(5_000_000, 10, 7)),
        StepRecord((PartReference(TOGETHER, 1, ((4, 1),), None, None, 0),), None, CombineSettings(0)),
    ),
)


def test_a_state_is_read_as_it_was_written():
    assert ShardState.from_json(STATE.to_json()) == STATE
    assert ShardState.from_json(ShardState().to_json()) == ShardState()
    assert PartReference.from_json(PART.to_json()) == PART


def test_a_state_names_the_files_it_is_built_from():
    assert STATE.files == {"part-000000000002-0-1-a", "change-000000000002-1-c", "state-000000000001-1-b"}
    assert STATE.size == 64
    assert ShardState().files == set()


def test_a_step_is_brief_where_nobody_came_or_went():
    step = StepRecord((PART, EMPTY), None, CombineSettings(0))
    assert [part.versions for part in step.brief().parts] == [((4, 250),), ()]
    assert STATE.steps[0].brief() == STATE.steps[0]


def test_changes_are_read_as_they_were_written():
    standing = Standing(3, 3, 9, "topk", "{}", [1.0, 2.0], [b"\x00" * 16, b"\xff" * 16], None, 50)
    changes = ShardChanges([standing], [(1, 4)])
    _, facts = array_bundle.unpacked(changes.packed())
    assert ShardChanges.unpacked(facts) == changes
    with pytest.raises(StoreError, match="the changes of a shard in format 3; got 1"):
        ShardChanges.unpacked({**facts, "format": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            STATE.to_json().replace(f'"format":{FORMAT}', '"format":99'),
            "the state of a shard in format 3; got format 99",
        ),
        ("{}", "the state of a shard; got KeyError"),
        ("no JSON", "the state of a shard; got JSONDecodeError"),
        (STATE.to_json().replace('"token":', '"tide":'), "the state of a shard; got TypeError"),
    ],
)
def test_what_is_no_state_is_refused(text, message):
    with pytest.raises(StoreError, match=message):
        ShardState.from_json(text)


def test_a_checkpoint_is_what_it_was_begun_as(tmp_path):
    first = begun(str(tmp_path), "log a", True, 2)
    assert first == Begun(first.query, "log a", True, 2)
    assert begun(str(tmp_path), "log a", True, 8) == first  # shards are settled
    with pytest.raises(SettingError, match="the source that this checkpoint belongs to: log a; got log b"):
        begun(str(tmp_path), "log b", True, 2)
    with pytest.raises(SettingError, match="patterns as this checkpoint was begun: True; got False"):
        begun(str(tmp_path), "log a", False, 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"format": 4, "query": "q"}, "a checkpoint of format 3; got format 4"),
        (
            {"format": 1, "query": "q", "source": "log a", "patterns": True, "shards": 2},
            "of semantics 3; got semantics 1,",
        ),
        (
            {"format": 2, "semantics": 1},
            r"end it there \(tidegate run FILE --available-now\), then take a new checkpoint",
        ),
        ({"format": 2, "semantics": 4}, "a checkpoint of semantics 3; got semantics 4, of a newer Tidegate"),
        ({"query": "q", "source": "log a"}, "a checkpoint of tidegate run; got KeyError"),
        ([], "a checkpoint of tidegate run; got"),
    ],
)
def test_a_checkpoint_of_another_format_is_refused(tmp_path, content, message):
    is_old = content == [] or content.get("format", 1) == 1
    (tmp_path / "tidegate.json").write_bytes(orjson.dumps(content) if is_old else checked_json.packed(content))
    with pytest.raises(StoreError, match=message):
        begun(str(tmp_path), "log a", True, 2)


def test_a_task_that_only_feeds_patterns_matches_no_other_subscription(tmp_path, monkeypatch):
    """So ``tg.match`` with plain subscriptions and patterns matches the plain ones once."""
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(live_shard, "_MAPPED", {})
    lane = Lane(tmp_path)
    lane.registry.subscribe(*(subscription(number) for number in range(8)))
    lane.log.append(Stream(1).frame())
    monkeypatch.setattr(View, "match", lambda *_: pytest.fail("the plain index was asked"))
    task = SelectTask(lane.work.select, ReceiptRows((), lane.files, lane.keys), None)
    (partition,) = lane.reader.partitions({"row": 0}, lane.cut(lane.log.end))
    with running(Task(0)):
        (batch,) = task(lane.reader.read(partition))
    references = [PartReference.from_json(row["payload"]) for row in batch.to_pylist() if row["kind"] == "part"]
    assert all(reference.file for reference in references)
    assert len(references) == len(lane.keys)


def test_a_part_whose_offsets_lead_astray_is_refused(tmp_path):
    """Although its checksum is right: kernels rely on them."""
    lane = Lane(tmp_path)
    lane.registry.subscribe(*(subscription(number) for number in range(4)))
    lane.log.append(Stream(1).frame())
    (partition,) = lane.reader.partitions({"row": 0}, lane.cut(lane.log.end))
    with running(Task(0)):
        list(lane.work(lane.reader.read(partition)))
    part = next(name for name in sorted(os.listdir(tmp_path / "patterns")) if name.startswith("part-"))
    arrays, facts = lane.files.read(part)
    assert len(read_pieces((arrays, facts), part)) == 1
    for name, wrong in (("0/start", 10**9), ("0/offsets", -1), ("0/hits", 99), ("0/hits", -1)):
        broken = {key: array.copy() for key, array in arrays.items()}
        broken[name][1] = wrong
        lane.files.write(part, array_bundle.packed(broken, facts))
        with pytest.raises(StoreError, match="a part of a batch; got arrays of other lengths; at part-"):
            read_pieces(lane.files.read(part), part)
    for short in (arrays | {"0/time": arrays["0/time"][1:]}, {"0/time": arrays["0/time"]}):
        with pytest.raises(StoreError, match="a part of a batch"):
            read_pieces((short, facts), part)
