"""Backups of data directories: ``back_up`` makes one while everything goes on.

A backup is a directory with the files of a data directory, in ``data``, and a manifest with their checksums. What is in
it is of one moment (``backup_moment``). All files are copies: a backup that shared files with the directory would be
damaged together with it. ``restore`` makes a data directory of it again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from tidegate import __version__
from tidegate.broker.backup_manifest import DATA, BackupManifest
from tidegate.broker.backup_moment import BackupMoment, taken
from tidegate.broker.file_copies import (
    CopiedFile,
    Progress,
    Shown,
    checked,
    copied,
    made_empty,
    silent,
    synced,
    unusable,
)
from tidegate.broker.held_files import HeldFiles
from tidegate.errors import SettingError, StoreError
from tidegate.store.data_directory import DataDirectory
from tidegate.store.log_tail import sync_directory

__all__ = ["back_up"]

#: Pages of a database that are copied at a time.
_PAGES = 4096


def back_up(data: DataDirectory, target: str | os.PathLike[str], progress: Progress = silent) -> BackupManifest:
    """Make a backup of a data directory in a directory that is not there yet, or empty. A run, publishers and readers
    go on meanwhile; a commit of the run waits while files are held, tens of microseconds each.

    If it fails nothing is left of it; if it is killed, no manifest.
    """
    where = Path(target).absolute()
    root, real = data.path.resolve(), where.resolve()
    if root == real or root in real.parents:
        raise SettingError("a directory outside of the data directory", str(target), "the target of the backup")
    try:
        with ExitStack() as held:
            files = held.enter_context(HeldFiles.of(data.path))
            was_made = made_empty(where, "for the backup")
            try:
                with taken(data, files) as moment:
                    manifest = _copied(data, moment, where, progress)
                synced(where)
                manifest.write(where)
                sync_directory(where.parent)
            except BaseException:
                _removed(where, was_made)
                raise
        return manifest
    except OSError as error:
        raise unusable(error, where) from None


def _copied(data: DataDirectory, moment: BackupMoment, target: Path, progress: Progress) -> BackupManifest:
    held, files, done = moment.held, dict[str, CopiedFile](), 0
    sizes = {name: (data.path / name).stat().st_size for name in moment.databases}
    with progress(sum(held.lengths.values()) + sum(sizes.values())) as show:
        for name, connection in moment.databases.items():
            files[name] = _database(connection, data.path / name, target / DATA / name, show)
            done += sizes[name]
        for name, length in sorted(held.lengths.items()):
            show(done, name)
            files[name] = copied(held.path(name), target / DATA / name, length)
            done += length
            show(done, name)
    facts = moment.made_at, __version__, data.runner, moment.batch, moment.rows, moment.version
    return BackupManifest(*facts, files)


def _database(given: sqlite3.Connection, source: Path, target: Path, show: Shown) -> CopiedFile:
    """Copy what a connection sees, page by page."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with closing(sqlite3.connect(target)) as written:
            given.backup(written, pages=_PAGES, progress=lambda *_: show(0, source.name))
    except sqlite3.Error as error:
        raise StoreError("room to write, and a database that answers", str(error), str(source)) from None
    target.chmod(stat.S_IMODE(source.stat().st_mode))
    return checked(target)


def _removed(target: Path, was_made: bool) -> None:
    with suppress(OSError):  # what is left is no backup
        shutil.rmtree(target / DATA, ignore_errors=True)
        for name in os.listdir(target):
            (target / name).unlink()
        if was_made:
            target.rmdir()
