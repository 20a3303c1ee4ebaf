"""Backups and restores that cannot be: each is refused in one sentence, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

import tidegate as tg
from tests.broker.backed_up import World, all_items
from tests.parts.tied_process import tied
from tidegate import checked_json
from tidegate.broker import backup as backup_module
from tidegate.broker import backup_manifest, backup_moment, held_files
from tidegate.broker import restore as restore_module
from tidegate.broker.backup import back_up
from tidegate.broker.backup_manifest import BackupManifest
from tidegate.broker.restore import restore
from tidegate.errors import SettingError, StoreError
from tidegate.store.data_directory import DataDirectory


@pytest.fixture
def world(tmp_path):
    with World.made(tmp_path / "broker", 2) as made:
        made.subscribe(5, 7)
        made.publish(400)
        made.run()
        yield made


@pytest.fixture
def backup(world, tmp_path):
    back_up(world.data, tmp_path / "backup")
    return tmp_path / "backup"


def names(directory):
    return sorted(os.listdir(directory))


def test_everything_but_what_is_made_again_is_in_a_backup(world, backup):
    ids, valid = world.data.path / "ids", world.data.path / "valid"
    for directory in (ids, valid):
        directory.mkdir()
        (directory / "some").write_bytes(b"x" * 100_000)
    with tg.OpenQueues(world.data.path) as queues:
        queues.acknowledge("user1", 1)
    manifest = back_up(world.data, backup.with_name("second"))
    tops = {name.split("/")[0] for name in manifest.files}
    assert tops == {"format.json", "log", "registry.db", "queues", "cursors.db", "runner", "valid"}
    assert manifest == BackupManifest.read(backup.with_name("second"))
    assert (manifest.runner, manifest.batch, manifest.rows) == ("process", 0, (0, 400))
    assert manifest.version == world.registry.version
    assert not (world.data.path / ".backup").exists()
    data = backup.with_name("second") / "data"
    assert {str(path.relative_to(data)) for path in data.rglob("*") if path.is_file()} == manifest.files.keys()
    again = restore(backup.with_name("second"), backup.with_name("again")).data
    with tg.OpenQueues(again.path) as queues:
        assert queues.states("user1")[0].acknowledged == 0  # of an epoch that is no more
    assert (again.path / "valid" / "some").read_bytes() == b"x" * 100_000


def test_a_directory_that_was_never_run_can_be_backed_up(tmp_path):
    data = DataDirectory.made(tmp_path / "broker", "spark")
    manifest = back_up(data, tmp_path / "empty")
    assert (manifest.batch, manifest.rows, manifest.version, len(manifest.files)) == (-1, (0, 0), 0, 1)
    with World(data, 1) as world:
        world.subscribe(3, 0)
        world.publish(5)
        back_up(data, tmp_path / "backup")
    again = restore(tmp_path / "backup", tmp_path / "again").data
    with World(again, 1) as world:
        assert (world.log.end, world.registry.version, again.runner) == (5, 3, "spark")


def test_what_is_no_backup_is_refused(world, backup, tmp_path):
    (tmp_path / "other").mkdir()
    for place, got in ((tmp_path / "none", "no directory"), (tmp_path / "other", "without a manifest"),
                       (world.data.path, "without a manifest")):  # fmt: skip
        with pytest.raises(StoreError, match=f"expected a backup; got .*{got}"):
            restore(place, tmp_path / "again")
    facts = checked_json.unpacked((backup / "manifest.json").read_bytes())
    for changed, message in (
        ({"format": 2}, "a backup of format 1; got format 2, of a newer Tidegate"),
        ({"files": {"../x": [1, "00"]}}, "the manifest of a backup; got ValueError: a file '../x'"),
        ({"files": 5}, "the manifest of a backup; got AttributeError"),
        ({"more": 5}, "the manifest of a backup; got TypeError"),
    ):
        (backup / "manifest.json").write_bytes(checked_json.packed({**facts, **changed}))
        with pytest.raises(StoreError, match=message):
            restore(backup, tmp_path / "again")
    (backup / "manifest.json").write_bytes(checked_json.packed(facts)[:-9])
    with pytest.raises(StoreError, match="the manifest of a backup; got JSONDecodeError"):
        restore(backup, tmp_path / "again")
    assert "again" not in names(tmp_path)


def test_any_damaged_file_is_found_before_anything_is_in_place(world, backup, tmp_path):
    for name in BackupManifest.read(backup).files:
        path = backup / "data" / name
        content = path.read_bytes()
        if content:
            path.write_bytes(bytes([content[0] ^ 4]) + content[1:])
            with pytest.raises(StoreError, match=f"as it was backed up; got another one.*{path.name}"):
                restore(backup, tmp_path / "again")
        path.write_bytes(content + b"x")
        with pytest.raises(StoreError, match=f"a file of {len(content)} bytes; got {len(content) + 1}"):
            restore(backup, tmp_path / "again")
        path.unlink()
        with pytest.raises(StoreError, match="a file of the backup; got none"):
            restore(backup, tmp_path / "again")
        path.write_bytes(content)
    assert names(tmp_path) == ["backup", "broker"]
    restore(backup, tmp_path / "again")


def test_a_target_that_is_not_empty_is_left_as_it_is(world, backup, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    (tmp_path / "file").touch()
    for target in ("full", "file", "broker"):
        with pytest.raises(StoreError, match="a directory that is not there yet, or an empty one"):
            restore(backup, tmp_path / target)
        if target != "broker":
            with pytest.raises(StoreError, match="a directory that is not there yet, or an empty one"):
                back_up(world.data, tmp_path / target)
    assert names(tmp_path / "full") == ["mine"]
    with pytest.raises(SettingError, match="a directory outside of the data directory"):
        back_up(world.data, world.data.path / "backups" / "monday")
    (tmp_path / "empty").mkdir()
    restore(backup, tmp_path / "empty")


def test_a_valid_set_that_gets_another_manifest_meanwhile_is_looked_at_again(world, tmp_path, monkeypatch):
    """Files that are merged in between are not left out: the manifest that is taken names what is taken."""
    valid = world.data.path / "valid"
    valid.mkdir()
    (valid / "valid.json").write_text("1.valid")
    (valid / "1.valid").write_bytes(b"1" * 100_000)
    (valid / "2.withdrawn").write_bytes(b"w" * 100_000)
    hold, looks = held_files.HeldFiles.hold, []

    def merging(self, name, *rest, **more):
        if name == "valid/1.valid":
            looks.append(name)
            (valid / "3.valid").write_bytes(b"3" * 100_000)
            (valid / "new").write_text("3.valid")
            os.replace(valid / "new", valid / "valid.json")
        return hold(self, name, *rest, **more)

    monkeypatch.setattr(held_files.HeldFiles, "hold", merging)
    with monkeypatch.context() as patch:
        patch.setattr(backup_moment, "_TRIES", 2)
        with pytest.raises(StoreError, match="files that stay while it is looked at; got the runner went on"):
            back_up(world.data, tmp_path / "backup")
    monkeypatch.setattr(held_files.HeldFiles, "hold", hold)
    link, links = held_files.HeldFiles._link, []

    def noted(source, *rest):
        links.append(source.name)
        link(source, *rest)

    monkeypatch.setattr(held_files.HeldFiles, "_link", staticmethod(noted))
    back_up(world.data, tmp_path / "backup")
    assert {"1.valid", "3.valid"} <= set(links)
    assert "2.withdrawn" not in links
    assert len(looks) == 2


def test_two_at_once_are_refused(world, backup, tmp_path):
    with (
        held_files.HeldFiles.of(world.data.path),
        pytest.raises(StoreError, match="a data directory that no other backup uses; got one that process"),
    ):
        back_up(world.data, tmp_path / "second")
    assert "second" not in names(tmp_path)


def test_queues_whose_checkpoint_is_elsewhere_are_refused(world, tmp_path):
    world.data.checkpoint.rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="the checkpoint of a run beside its queues; got none there"):
        back_up(world.data, tmp_path / "backup")


def failing(monkeypatch, module, name, after):
    """Have a function of a module find the disk full after so many calls."""
    function, calls = getattr(module, name), []

    def called(*arguments, **more):
        calls.append(1)
        if len(calls) > after:
            raise OSError(28, "No space left on device", "somewhere")
        return function(*arguments, **more)

    monkeypatch.setattr(module, name, called)


@pytest.mark.parametrize("after", [0, 3, 8])
def test_a_full_disk_leaves_nothing(world, backup, tmp_path, monkeypatch, after):
    with monkeypatch.context() as patch:
        failing(patch, backup_module, "copied", after)
        with pytest.raises(StoreError, match="room to write, and files that can be read; got No space left"):
            back_up(world.data, tmp_path / "second")
        failing(patch, restore_module, "copied", after)
        with pytest.raises(StoreError, match="room to write, and files that can be read; got No space left"):
            restore(backup, tmp_path / "again")
    assert names(tmp_path) == ["backup", "broker"]
    assert not (world.data.path / ".backup").exists()


def test_a_full_disk_is_told_of_a_database_too(world, tmp_path, monkeypatch):
    class Full:
        def __init__(self, path):
            raise sqlite3.OperationalError("database or disk is full")

    real = sqlite3.connect

    def connected(path, **more):
        return real(path, **more) if more else Full(path)

    monkeypatch.setattr(backup_module.sqlite3, "connect", connected)
    with pytest.raises(StoreError, match="got database or disk is full"):
        back_up(world.data, tmp_path / "second")


def test_where_there_are_no_links_files_are_copied(world, tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(held_files, "_SMALL", 10)
    monkeypatch.setattr(held_files.os, "link", refused)
    back_up(world.data, tmp_path / "backup")
    told = all_items(world.data)
    again = all_items(restore(tmp_path / "backup", tmp_path / "again").data)
    assert {queue: items for queue, (_, items) in again.items()} == {queue: items for queue, (_, items) in told.items()}


SLOW = """
import sys, time
from pathlib import Path
import tidegate.broker.{module} as slowed
from tidegate.broker import file_copies
from tidegate.broker.backup import back_up
from tidegate.broker.restore import restore
from tidegate.store.data_directory import DataDirectory
whole = file_copies.copied
def slow(*arguments, **more):
    print("copying", flush=True)
    time.sleep(0.05)
    return whole(*arguments, **more)
slowed.copied = slow
back_up(DataDirectory.found(sys.argv[1]), sys.argv[2]) if "{module}" == "backup" else restore(sys.argv[1], sys.argv[2])
"""


@pytest.mark.parametrize("module", ["backup", "restore"])
def test_a_kill_leaves_what_is_not_mistaken_and_the_next_one_works(world, backup, tmp_path, module):
    given = world.data.path if module == "backup" else backup
    command = [sys.executable, "-c", SLOW.format(module=module), str(given), str(tmp_path / "second")]
    process = subprocess.Popen(tied(command), stdout=subprocess.PIPE)
    for _ in range(3):
        assert process.stdout.readline() == b"copying\n"
    time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    if module == "backup":
        assert (tmp_path / "second" / "data").is_dir()
        with pytest.raises(StoreError, match="without a manifest"):
            restore(tmp_path / "second", tmp_path / "again")
        assert (world.data.path / ".backup").is_dir()
        back_up(world.data, tmp_path / "third")
        assert not (world.data.path / ".backup").exists()
        restore(tmp_path / "third", tmp_path / "again")
    else:
        assert "second" not in names(tmp_path)
        assert ".second.restoring" in names(tmp_path)
        restore(backup, tmp_path / "second")
        assert names(tmp_path) == ["backup", "broker", "second"]


def test_the_manifest_is_written_last(world, tmp_path, monkeypatch):
    def failed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(backup_manifest.BackupManifest, "write", failed)
    with pytest.raises(KeyboardInterrupt):
        back_up(world.data, tmp_path / "backup")
    assert names(tmp_path) == ["broker"]
