"""The record of batches: what each batch contains, written down before it is run, and what became of patterns' state.

``ProcessRun`` writes it. A batch that was begun and not ended when the process was killed is run again with the same
offsets, under the same number, by which sinks know whether they have it. Entries are lines with a checksum; a line that
is not whole is the last one, and its batch was not begun.
"""

from __future__ import annotations

import logging
import os
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from tidegate.closing import Closing
from tidegate.errors import StoreError
from tidegate.stages.shard_state import ShardState
from tidegate.store.log_tail import sync_directory

__all__ = ["FILE", "BatchRecord", "last_begun"]

_LOG = logging.getLogger("tidegate")
#: The name of the file in a checkpoint.
FILE = "batches.journal"
_FORMAT = 2
#: The file is written anew when it has grown to so many bytes.
_LARGE = 4 << 20
_sync = getattr(os, "fdatasync", os.fsync)

Offset = dict[str, Any]


class BatchRecord(Closing):
    """The record in the directory of a checkpoint.

    ``batch`` is the number of the last batch that was begun, −1 before the first; ``offset`` is where the last batch
    that has ended did, None before the first; ``begun`` is where the one ends that was begun and has not ended.
    """

    def __init__(self, checkpoint: str) -> None:
        self._path = Path(checkpoint, FILE)
        self.batch = -1
        self.offset: Offset | None = None
        self.begun: Offset | None = None
        self.state = ShardState()
        self._unwritten = b""
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._end = self._read(self._path.read_bytes())
            os.ftruncate(self._file, self._end)
            sync_directory(self._path.parent)
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError("a record of batches", f"{error.strerror or error}", str(self._path)) from None

    def _read(self, data: bytes) -> int:
        """Take all entries; the byte after the last whole one."""
        end = 0
        for line in data.splitlines(keepends=True):
            is_right = _is_right(line)
            if not (is_right and line.endswith(b"\n")):
                has_followers = end + len(line) < len(data)
                if is_right or has_followers or not _is_torn(line):
                    got = "a damaged line, with others behind it" if has_followers else "a damaged line"
                    raise StoreError("a record of batches as it was written", got, f"byte {end} of {self._path}")
                break
            entry = orjson.loads(line[9:-1])
            if entry["format"] != _FORMAT:
                raise StoreError(f"a record of format {_FORMAT}", f"format {entry['format']}", str(self._path))
            self._take(entry)
            end += len(line)
        return end

    def _take(self, entry: dict[str, Any]) -> None:
        if "begun" in entry:
            self.batch, self.begun = entry["batch"], entry["begun"]
        else:
            state = ShardState.from_json(entry["state"])
            self.state = replace(state, steps=(*self.state.steps, *state.steps)) if entry["more"] else state
            self.batch, self.offset, self.begun = entry["batch"], entry["ended"], None

    @property
    def path(self) -> str:
        return str(self._path)

    # --- writing ----------------------------------------------------------------------------------------------------

    def begin(self, batch: int, offset: Offset) -> None:
        """Write down, durably, where a batch ends, before anything of it is done."""
        self._write(_line({"batch": batch, "begun": offset}))
        self.batch, self.begun = batch, offset

    def end(self, state: ShardState) -> None:
        """Note that the batch has ended, and the state of patterns after it. It is written with the next one that
        begins: a batch of which that was not written is run again, and no sink takes it twice.
        """
        known, self.state = self.state, state
        more = state.snapshot == known.snapshot and len(state.steps) > len(known.steps) > 0
        told = replace(state, steps=state.steps[len(known.steps) :]) if more else state
        self._unwritten += _line({"batch": self.batch, "ended": self.begun, "state": told.to_json(), "more": more})
        self.offset, self.begun = self.begun, None

    def _write(self, line: bytes) -> None:
        data = self._unwritten + line
        try:
            if os.pwrite(self._file, data, self._end) != len(data):
                raise OSError(28, "No space left on device")
            _sync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self._end)
            raise StoreError("room to write", f"{error.strerror or error}", str(self._path)) from None
        self._end += len(data)
        self._unwritten = b""
        if self._end > _LARGE:
            try:
                self._begin_anew(line)
            except OSError as error:  # the old file has all of it: the next entry tries again
                _LOG.warning("the record of batches stays large: %s", error)

    def _begin_anew(self, line: bytes) -> None:
        """Put a file with the last two entries in the place of this one."""
        ended = {"batch": self.batch, "ended": self.offset, "state": self.state.to_json(), "more": False}
        data = (_line(ended) if self.offset is not None else b"") + line
        aside = self._path.with_suffix(".new")
        try:
            with open(aside, "w+b") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                anew = os.dup(file.fileno())
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        os.replace(aside, self._path)
        os.close(self._file)
        self._file, self._end = anew, len(data)
        sync_directory(self._path.parent)

    def close(self) -> None:
        """Write what is not written yet."""
        if self._file >= 0:
            try:
                if self._unwritten:
                    self._write(b"")
            finally:
                os.close(self._file)
                self._file = -1


def last_begun(data: bytes) -> int:
    """The number of the last batch that was begun, −1 if none, by the content of a record."""
    batch = -1
    for line in data.splitlines(keepends=True):
        if not (_is_right(line) and line.endswith(b"\n")):
            break
        batch = orjson.loads(line[9:-1])["batch"]
    return batch


def _is_right(line: bytes) -> bool:
    """Whether the checksum of a line is right. The line may still lack its end."""
    try:
        return int(line[:8], 16) == zlib.crc32(line[9:-1])
    except ValueError:
        return False


def _is_torn(line: bytes) -> bool:
    """Whether a line that is not right is one of which a crash has kept only a part: sectors that were not written
    yet are missing, or zeros.
    """
    return not line.endswith(b"\n") or bytes(2) in line


def _line(entry: dict[str, Any]) -> bytes:
    data = orjson.dumps({"format": _FORMAT, **entry})
    return b"%08x " % zlib.crc32(data) + data + b"\n"
