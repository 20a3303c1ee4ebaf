"""Files of every format that was ever written are read, or made again, and answer as they did."""

from __future__ import annotations

import orjson
import pytest

from tests.formats.kinds import KINDS
from tests.formats.write import HERE, unpacked
from tidegate import array_bundle
from tidegate.broker import backup_manifest, batch_record, bridge_record
from tidegate.engine import shards_record
from tidegate.errors import SnapshotError, StoreError
from tidegate.gateway import shared_numbers
from tidegate.index import snapshot
from tidegate.patterns import arrays
from tidegate.pipeline import begun_batches
from tidegate.runs import checkpoint
from tidegate.stages import shard_state
from tidegate.store import (
    announcements,
    cursors,
    data_directory,
    gone_rows,
    history_tables,
    identities,
    identity_settings,
    log_frames,
    manifest,
    notifications,
    principal_tables,
    queue_directory,
    queue_files,
    queue_frames,
    registry_tables,
    valid_files,
    valid_manifest,
    withdrawn_rows,
)

RELEASES = sorted(path.name for path in HERE.iterdir() if (path / "answers.json").exists())

#: What no later release may read: publications and events are known by their sources since the first, and subscriptions
#: of a registry by their subscribers since the third.
REFUSED = {
    ("0.1.0.dev1", "snapshot"): SnapshotError,
    ("0.1.0.dev1", "past"): SnapshotError,
    ("0.1.0.dev1", "shards"): StoreError,
    ("0.1.0.dev1", "checkpoint"): StoreError,
    ("0.1.0.dev2", "shards"): StoreError,
    ("0.1.0.dev2", "checkpoint"): StoreError,
    ("0.1.0.dev3", "shards"): StoreError,
    ("0.1.0.dev3", "checkpoint"): StoreError,
}


def test_every_kind_has_its_files_in_every_release():
    for release in RELEASES:
        assert {path.name.removesuffix(".tar.xz") for path in (HERE / release).glob("*.tar.xz")} <= KINDS.keys()
    assert {path.name.removesuffix(".tar.xz") for path in (HERE / RELEASES[-1]).glob("*.tar.xz")} == KINDS.keys()


@pytest.mark.parametrize(
    ("release", "kind"),
    [(release, kind) for release in RELEASES for kind in KINDS if (HERE / release / f"{kind}.tar.xz").exists()],
)
def test_what_a_release_has_written_answers_as_it_did(release, kind, tmp_path):
    expected = orjson.loads((HERE / release / "answers.json").read_bytes())[kind]
    files = unpacked(release, kind, tmp_path)
    if refused := REFUSED.get((release, kind)):
        with pytest.raises(refused, match=r"format|semantics"):
            KINDS[kind].answers(files)
        return
    found = KINDS[kind].answers(files)
    assert orjson.loads(orjson.dumps(found)) == expected


def test_the_page_has_the_number_of_every_format():
    page = (HERE.parents[1] / "docs" / "OPERATIONS.md").read_text("utf-8")
    rows = page.split("## Files, their formats, and damage", 1)[1].split("\n## ", 1)[0].splitlines()
    numbers = {
        "`index.json`": str(snapshot.FORMAT),
        "`shards.json`": str(shards_record._FORMAT),
        "bundles of arrays": f"`{array_bundle._MAGIC.decode()}`",
        "`ids/index`": str(identities._FORMAT),
        "`ids/settings.json`": str(identity_settings._FORMAT),
        "segments of a log": f"`{log_frames._MAGIC.decode()}` in every frame",
        "`….gone`": str(gone_rows._FORMAT),
        "`manifest-….json`": str(manifest._FORMAT),
        "`tidegate.json`": str(checkpoint._FORMAT),
        "`batches.json`": str(begun_batches._FORMAT),
        "`….journal` and `….queues`": f"`{queue_frames._MAGIC.decode()}` in every frame",
        "which files queues have": str(queue_files._FORMAT),
        "`run/numbers/….json`": str(shared_numbers._FORMAT),
        "`run/mqtt.json`": str(bridge_record._FORMAT),
        "the manifest of a backup": str(backup_manifest._FORMAT),
        "`….base`": str(queue_directory._FORMAT),
        "`….valid`": str(valid_files._FORMAT),
        "`valid.json`": str(valid_manifest._FORMAT),
        "`….withdrawn`": f"`{withdrawn_rows._MAGIC.decode()}` in every record",
        "`format.json`": str(data_directory._FORMAT),
        "| cursors": f"schema {len(cursors._PART.steps)}",
        "`batches.journal`": str(batch_record._FORMAT),
        "in Spark's state store": str(shard_state.FORMAT),
        "`facts.json`": str(arrays._FORMAT),
        "| registry": f"schema {len(registry_tables.PART.steps)}",
        "| principals": f"schema {len(principal_tables.PART.steps)}",
        "| announcements": f"schema {len(announcements.PART.steps)}",
        "| notification store": f"schema {len(notifications._PART.steps)}",
        "| history of events": f"schema {len(history_tables.PART.steps)}",
    }
    for file, number in numbers.items():
        (row,) = [row for row in rows if row.startswith("|") and file in row.split(" | ")[0]]
        assert row.split(" | ")[1] == number
