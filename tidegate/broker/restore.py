"""``restore``: a data directory from a backup, as it was at the moment that the backup is of.

What subscribers were told after that moment is not in it, and what they are told from now on has the numbers of that
again. So all queues get other epochs: whoever goes on with a number of before is told of a gap, and reads from the
oldest delivery that is kept. Acknowledgements of before go for the same reason.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from tidegate.broker.backup_manifest import DATA, BackupManifest
from tidegate.broker.file_copies import Progress, copied, made_empty, silent, synced, unusable
from tidegate.errors import StoreError
from tidegate.store.cursors import Cursors
from tidegate.store.data_directory import DataDirectory
from tidegate.store.directory_lock import DirectoryLock
from tidegate.store.log_tail import sync_directory
from tidegate.store.queue_files import are_there
from tidegate.store.queues import Queues

__all__ = ["Restored", "restore"]


class Restored(NamedTuple):
    """The data directory that was made, what its backup says, and how many queues have another epoch."""

    data: DataDirectory
    manifest: BackupManifest
    queues: int


def restore(backup: str | os.PathLike[str], directory: str | os.PathLike[str], progress: Progress = silent) -> Restored:
    """Make a data directory of a backup, where none is yet or an empty one.

    Every file is compared with its checksum on the way. The directory appears by a rename, whole, or not at all.
    """
    source, target = Path(backup).absolute(), Path(directory).absolute()
    manifest = BackupManifest.read(source)
    try:
        if made_empty(target, "for what is restored"):
            target.rmdir()
        aside = target.with_name(f".{target.name}.restoring")
        lock = DirectoryLock(str(aside), "data directory", "restore")
        try:
            _emptied(aside)
            _copied(source, aside, manifest, progress)
            count = _with_new_epochs(_found(aside, source))
            synced(aside)
            made_empty(target, "for what is restored")
            aside.rename(target)
            sync_directory(target.parent)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        finally:
            lock.release()
    except OSError as error:
        raise unusable(error, target) from None
    return Restored(_found(target, source), manifest, count)


def _emptied(aside: Path) -> None:
    """Remove what a restore that was killed has left."""
    for path in aside.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()


def _copied(source: Path, aside: Path, manifest: BackupManifest, progress: Progress) -> None:
    done = 0
    with progress(manifest.nbytes) as show:
        for name, known in manifest.files.items():
            show(done, name)
            path = source / DATA / name
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                raise StoreError("a file of the backup", "none", str(path)) from None
            if size != known.size:
                raise StoreError(f"a file of {known.size} bytes", f"{size}", str(path))
            if copied(path, aside / name).check != known.check:
                raise StoreError("a file as it was backed up", "another one, by its checksum", str(path))
            done += size
            show(done, name)


def _found(directory: Path, backup: Path) -> DataDirectory:
    found = DataDirectory.found(directory)
    if found is None:
        raise StoreError("the backup of a data directory", "one without format.json", str(backup))
    return found


def _with_new_epochs(data: DataDirectory) -> int:
    """Give the queues other epochs, and forget how far those of before were acknowledged; how many there are."""
    if not are_there(data.queues):
        return 0
    with Queues(data.queues) as queues:
        known = queues.renew_epochs()
    if data.cursors.exists():
        with Cursors(data.cursors) as cursors:
            cursors.forget(queue.epoch for queue in known)
    return len(known)
