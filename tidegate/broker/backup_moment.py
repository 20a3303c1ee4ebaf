"""The moment that a backup is of: what a run, readers and publishers had in a data directory when nobody committed.

``taken`` holds files and begins to read databases, all at one moment; ``backup`` copies them afterwards, while
everything goes on. What is taken is what a crash at that moment would have left, and a run goes on from it as from a
crash. Why it is of one moment:

- A run commits batch n to its sinks, the queues and the valid set among them, with the ``CommitLock`` shared. The
  moment has it alone. So all sinks have the batches up to some n whole, and nothing of n + 1. A run opens its sinks and
  its record with the lock shared too, because they cut off then what a crash has left.
- Without the lock the run may still go from the commit of n to that of n + 1, where it waits. The runner in process
  writes that n + 1 has begun, which also says that n has ended, with the state of patterns after it, and does the work
  of n + 1; patterns write parts, and remove the files that neither the state after n nor that after n + 1 names. Spark
  writes that n is done (``commits/n``), then what n + 1 is (``offsets/n+1``), then the state after n + 1, and removes
  what is older than a hundred batches. So what the runner has written down is read before everything else and after
  it, and if it is not the same, all is taken again; that happens twice at the most. If it is the same, then

  - before the commit of n: the record says that n has begun, and the queues have n − 1. A run does n again.
  - after it: the record says the same, and the queues have n. A run does n again; the sinks know its number.
  - once n + 1 has begun: the record has n as done, and the queues have n. A run does n + 1 again: its parts, its state
    and its quarantine are overwritten or never named.

  In none of these has the runner begun fewer batches than the queues have, or ended more. The files of patterns that
  the record names were all there from the first look at it to the second. Spark's states of n + 1 can only be there if
  ``offsets/n+1`` is, and are overwritten when it is done again.
- A thread of the queues merges files, and maintenance drops old ones, of queues, valid set and log, without the lock. A
  file that goes between its name and its link is missed, and then all is taken again: there is a new manifest, and what
  was dropped of the log has been noted in a file beside it. The manifest of the queues is held first, then what it
  names. The valid set is held as a whole, and all is taken again if it has another manifest afterwards; the log has the
  rows after the one that the manifest says, for no run drops them before there is another.
- A journal of queues may end with a frame that a crash has torn, where no run has been since. It is cut off, for a run
  that starts meanwhile would write over it. For the same reason the runner's record, and the rows of the valid set that
  were withdrawn, are read as a whole.
- The log is looked at after the record and the queues, so it has every row that these name: rows are durable before a
  batch with them is cut. It is taken up to its last durable entry; appends go on behind it.
- The registry is looked at after the log, in one transaction for reading that lasts until it is copied, so it has every
  version that a row is stamped with; and before the second look at the record, so it still has the versions and pins
  that the run needs. Cursors, with all that is kept beside them, are read in the same way: before the registry, so that
  it has every version that is named there, and while no queue grows, so that none is beyond the end of its queue.

The index of identities is made again from the log, index snapshots from the registry (newer ones than the registry
that is brought back would even be wrong), and ``status.json`` by the next run: none of them is taken. Nor is anything
that the file of a run names outside of the directory.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tidegate.broker import batch_record
from tidegate.broker.held_files import HeldFiles
from tidegate.errors import StoreError
from tidegate.store.commit_lock import COMMIT_LOCK, CommitLock
from tidegate.store.data_directory import DataDirectory
from tidegate.store.log_segment import ENTRY, NOTES, LogSegment, data_file, index_file, segments
from tidegate.store.queue_files import COMMITTED, JOURNAL, MANIFEST, Committed, QueueFile, are_there, read_manifest
from tidegate.store.wakeups import PREFIX

__all__ = ["BackupMoment", "taken"]

#: Files that are no content: locks, and numbers that a run writes anew each second; and the record, read on its own.
_NOT_TAKEN = {"lock", COMMIT_LOCK, "status.json", batch_record.FILE}
#: How the names of files end that grow, may be torn at their end by a crash, and are not large: they are not linked.
_GROWING = (".withdrawn",)
#: Spark's lists of batches in a checkpoint: what they contain, and which are done.
_OFFSETS, _COMMITS = "spark/offsets", "spark/commits"
#: How often all is taken anew because something has moved or gone meanwhile.
_TRIES = 20
#: Seconds to wait for a database.
_PATIENCE = 60
#: The directory of the valid set.
_VALID = "valid"


@dataclass(frozen=True)
class BackupMoment:
    """What was taken: files that are held, connections by the names of their databases, and what these are of."""

    held: HeldFiles
    databases: dict[str, sqlite3.Connection]
    made_at: str
    batch: int
    rows: tuple[int, int]
    version: int


class _Moved(Exception):
    """The runner went on while all was taken."""


@contextmanager
def taken(data: DataDirectory, held: HeldFiles) -> Iterator[BackupMoment]:
    """Take all of a data directory at one moment; it stays readable while the context lasts."""
    if are_there(data.queues) and not data.checkpoint.is_dir():
        got = "none there: the file of its run names another place, of which nothing would be in the backup"
        raise StoreError("the checkpoint of a run beside its queues", got, str(data.checkpoint))
    with ExitStack() as opened:
        yield _taken(data, held, opened)


def _taken(data: DataDirectory, held: HeldFiles, opened: ExitStack) -> BackupMoment:
    with ExitStack() as alone:
        if data.checkpoint.is_dir():
            alone.enter_context(CommitLock(data.checkpoint).alone())
        for last in (*[False] * (_TRIES - 1), True):
            with ExitStack() as attempt:
                try:
                    found = _look(data, held, attempt)
                except (_Moved, FileNotFoundError) as error:
                    if last:
                        wanted = "a data directory with files that stay while it is looked at"
                        raise StoreError(wanted, f"{error}", str(data.path)) from None
                    held.let_go()
                    continue
                opened.push(attempt.pop_all())
                return found
    raise AssertionError("a last try")


def _look(data: DataDirectory, held: HeldFiles, opened: ExitStack) -> BackupMoment:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    written_down = _written_down(data)
    held.hold("format.json")
    _everything_in(data.checkpoint, data, held, linked=True)
    if written_down.record is not None:
        held.keep(f"{data.checkpoint.name}/{batch_record.FILE}", written_down.record)
    _queues(data, held)
    _everything_in(data.quarantine, data, held, linked=True)
    _everything_in(data.path / _VALID, data, held)
    rows = _log(data, held)
    databases = {path.name: _reading(path, opened) for path in (data.cursors, data.registry) if path.exists()}
    version = _version(databases[data.registry.name], data.registry) if data.registry.name in databases else 0
    if _written_down(data) != written_down:
        raise _Moved("the runner went on")
    return BackupMoment(held, databases, now, _last_batch(written_down), rows, version)


# --- the runner -----------------------------------------------------------------------------------------------------


class _WrittenDown(NamedTuple):
    """What the runner has written down: the record of the one in process, the names of Spark's lists of batches, and
    what tells the manifest of the valid set from another one.
    """

    record: bytes | None
    offsets: tuple[str, ...]
    commits: tuple[str, ...]
    valid: tuple[tuple[str, int, int], ...]


def _written_down(data: DataDirectory) -> _WrittenDown:
    try:
        record = (data.checkpoint / batch_record.FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        record = None
    manifests = sorted((data.path / _VALID).glob("*.json"))
    valid = tuple((path.name, path.stat().st_ino, path.stat().st_mtime_ns) for path in manifests)
    return _WrittenDown(record, _names(data.checkpoint / _OFFSETS), _names(data.checkpoint / _COMMITS), valid)


def _names(directory: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(name for name in os.listdir(directory) if _is_content(name)))
    except FileNotFoundError:
        return ()


def _last_batch(written_down: _WrittenDown) -> int:
    """The last batch that was begun; −1 if none."""
    if written_down.record is not None:
        return batch_record.last_begun(written_down.record)
    return max((int(name) for name in written_down.offsets if name.isdecimal()), default=-1)


def _everything_in(directory: Path, data: DataDirectory, held: HeldFiles, *, linked: bool | None = None) -> None:
    """All files of a directory and of those in it, but those that are being written, and sockets. They can be
    ``linked``, however small they are, where files are replaced and never changed in place.
    """
    if not directory.is_dir():
        return
    for where, _, names in os.walk(directory, onerror=_raised):
        for name in names:
            path = Path(where, name)
            if _is_content(name) and path.is_file():
                held.hold(str(path.relative_to(data.path)), linked=False if name.endswith(_GROWING) else linked)


def _raised(error: OSError) -> None:
    raise error


def _is_content(name: str) -> bool:
    """Whether a file is content, by its name. One that is being written begins with a point; so does a checksum of
    Spark's, ``.NAME.crc``, which belongs to a file that is whole.
    """
    is_whole = not name.startswith(".") or (name.endswith(".crc") and not name.startswith(".."))
    return is_whole and name not in _NOT_TAKEN and not name.startswith(PREFIX)


# --- queues and log -------------------------------------------------------------------------------------------------


def _queues(data: DataDirectory, held: HeldFiles) -> None:
    """The queues that the manifest names, and what else is in their directory that they do not write."""
    place = data.queues.name
    if not are_there(data.queues):
        return
    manifest = read_manifest(held.hold(f"{place}/{MANIFEST}").parent)
    assert manifest is not None, "a manifest that was just held"
    held.hold(f"{place}/{COMMITTED}")
    with closing(Committed(data.queues, writes=False)) as committed:
        journal, end = committed.read()
    for name, level in manifest.files:
        file = QueueFile(data.queues, name, level)
        held.hold(f"{place}/{name}", _whole(file, journal, end))
    if manifest.base is not None:
        held.hold(f"{place}/{manifest.base}")
    ours = (".journal", ".queues", ".base", ".new")
    for name in os.listdir(data.queues):
        path = data.queues / name
        is_ours = name.endswith(ours) or name in (MANIFEST, COMMITTED)
        if not is_ours and _is_content(name) and path.is_file():
            held.hold(f"{place}/{name}")


def _whole(file: QueueFile, journal: int, end: int) -> int:
    """Where the last whole frame of a file ends. What is known to be committed ends at a byte of a journal."""
    size = file.path.stat().st_size
    if file.level > JOURNAL or file.serial < journal or not size or (file.serial == journal and size == end):
        return size
    file.refresh()
    return file.end


def _log(data: DataDirectory, held: HeldFiles) -> tuple[int, int]:
    """The segments of the log up to the last durable row, and what is left of dropped ones; the rows there are."""
    if not data.log.is_dir():
        return 0, 0
    place = data.log.name
    firsts = segments(data.log)
    end = firsts[0]
    for name in os.listdir(data.log):
        if name.endswith(NOTES):
            held.hold(f"{place}/{name}")
    for first in firsts:
        with LogSegment(data.log, first) as segment:
            held.hold(f"{place}/{data_file(data.log, first).name}", segment.last.end_byte)
            held.hold(f"{place}/{index_file(data.log, first).name}", segment.count * ENTRY)
            end = segment.last.end_row
    held.keep(f"{place}/lock", b"")
    return firsts[0], end


# --- databases ------------------------------------------------------------------------------------------------------


def _reading(path: Path, opened: ExitStack) -> sqlite3.Connection:
    """A connection that sees the database as it is now until it is closed."""
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", timeout=_PATIENCE, isolation_level=None, uri=True)
        opened.callback(connection.close)
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    except sqlite3.Error as error:
        raise StoreError("a database that answers", str(error), str(path)) from None
    return connection


def _version(registry: sqlite3.Connection, path: Path) -> int:
    try:
        ((version,),) = registry.execute("SELECT version FROM tidegate_clock").fetchall()
    except (sqlite3.Error, ValueError) as error:
        raise StoreError("a registry", str(error), str(path)) from None
    return int(version)
