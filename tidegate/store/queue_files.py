"""The files of a directory of queues: journals that grow by a frame per batch, and files of one merged frame.

The file ``committed`` says how far journals are durable: a reader looks no further.

A manifest says which files there are, in the order of their batches. The last of them is always a journal that is still
empty: the writer goes on there without touching the manifest, so that a batch costs one write and one sync. A file that
no manifest names is what a crash left, and goes when the directory is next opened for writing.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import NamedTuple

from tidegate import checked_json
from tidegate.errors import StoreError
from tidegate.store.log_tail import sync_directory
from tidegate.store.queue_frames import HEADER, MAGICS, QueueFrame, frame_size

__all__ = [
    "COMMITTED",
    "JOURNAL",
    "MANIFEST",
    "Committed",
    "QueueFile",
    "QueueManifest",
    "are_there",
    "create_file",
    "read_manifest",
    "total",
    "write_manifest",
]

MANIFEST, _FORMAT = "manifest.json", 1
COMMITTED = "committed"
#: The number of a journal, the byte after its last frame, and the checksum of both.
_END = struct.Struct("<qqI")
#: How often a reader looks at an end that does not fit its checksum: it may be written at the same moment.
_LOOKS = 20
#: The level of journals; a merged file is of one more than the highest level of what it was made of.
JOURNAL = 0


class QueueManifest(NamedTuple):
    """The files by name and level, oldest first; the file with the queues that were before; the last file's number."""

    files: tuple[tuple[str, int], ...]
    base: str | None
    serial: int


def are_there(directory: Path) -> bool:
    """Whether a directory has queues."""
    return (directory / MANIFEST).exists()


def read_manifest(directory: Path) -> QueueManifest | None:
    """The manifest of a directory; None if it has none."""
    path = directory / MANIFEST
    try:
        facts = checked_json.unpacked(path.read_bytes())
        if facts["format"] != _FORMAT:
            raise StoreError(f"queues of format {_FORMAT}", f"format {facts['format']}", str(path))
        return QueueManifest(tuple((name, level) for name, level in facts["files"]), facts["base"], facts["serial"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError("a manifest of queues", f"{type(error).__name__}: {error}", str(path)) from None


def write_manifest(directory: Path, manifest: QueueManifest) -> None:
    """Put a manifest in place of the one that is there, durably."""
    create_file(directory, f"{MANIFEST}.new", checked_json.packed({"format": _FORMAT, **manifest._asdict()}))
    os.replace(directory / f"{MANIFEST}.new", directory / MANIFEST)
    sync_directory(directory)


def create_file(directory: Path, name: str, data: bytes | bytearray = b"") -> None:
    """Write a file, durably but for its name, which ``sync_directory`` makes so. What fails leaves no file."""
    try:
        with open(directory / name, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            os.unlink(directory / name)
        raise


class Committed:
    """How far the journals of a directory are durable: the number of a journal, and the byte after its last frame.

    It is written after the frame is durable, and not synced: it may lag behind, and never runs ahead. So whoever finds
    fewer whole frames than it says has found damage and not a frame that was torn by a crash.
    """

    def __init__(self, directory: Path, *, writes: bool) -> None:
        self._path = directory / COMMITTED
        flags = os.O_RDWR | os.O_CREAT if writes else os.O_RDONLY
        self._file = os.open(self._path, flags | os.O_CLOEXEC, 0o666)

    @property
    def is_new(self) -> bool:
        """Whether nothing was written yet. A writer whose file was removed makes it again from the journals."""
        return not os.fstat(self._file).st_size

    def read(self) -> tuple[int, int]:
        for _ in range(_LOOKS):
            data = os.pread(self._file, _END.size, 0)
            if len(data) == _END.size:
                journal, end, check = _END.unpack(data)
                if zlib.crc32(data[:-4]) == check:
                    return journal, end
            sleep(0.001)
        raise StoreError("how far queues are committed, as it was written", "other bytes", str(self._path))

    def write(self, journal: int, end: int) -> None:
        data = _END.pack(journal, end, 0)
        os.pwrite(self._file, _END.pack(journal, end, zlib.crc32(data[:-4])), 0)

    def close(self) -> None:
        os.close(self._file)


class QueueFile:
    """A file of frames as a reader sees it. ``refresh`` finds the frames that were added since."""

    def __init__(self, directory: Path, name: str, level: int) -> None:
        self.path, self.name, self.level = directory / name, name, level
        self.serial = int(name.split(".")[0])
        self.frames: list[QueueFrame] = []
        self.end = 0
        """The byte after the last frame."""

    def refresh(self, until: int | None = None) -> list[QueueFrame]:
        """The frames that are new, up to a byte or up to the end. Bytes behind the last whole frame are one that was
        torn by a crash: the caller knows whether that can be.
        """
        if self.level > JOURNAL:
            found = [] if self.frames else list(self._mapped())
        else:
            until = self.path.stat().st_size if until is None else until
            found = list(self._read(until)) if until > self.end else []
        self.frames += found
        return found

    def expect(self, end: int) -> None:
        """A ``StoreError`` if the last whole frame ends before that byte."""
        if self.end < end:
            raise StoreError("frames of queues as they were written", "other bytes", f"byte {self.end} of {self.path}")

    def expect_whole(self) -> None:
        """A ``StoreError`` if there are bytes behind the last frame."""
        self.expect(self.path.stat().st_size)

    def take(self, frame: QueueFrame) -> None:
        """Note a frame that this process has written at the end."""
        self.frames.append(frame)
        self.end += frame.nbytes

    def _mapped(self) -> Iterator[QueueFrame]:
        with open(self.path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise StoreError("a frame of queues", "an empty file", str(self.path))
            data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        yield QueueFrame(data, str(self.path))
        self.end = len(data)

    def _read(self, size: int) -> Iterator[QueueFrame]:
        with open(self.path, "rb", buffering=0) as file:
            data = os.pread(file.fileno(), size - self.end, self.end)
        begin = 0
        while begin < len(data):
            length = frame_size(data[begin : begin + HEADER])
            if length is None or begin + length > len(data):
                self._refuse_what_follows(data, begin + 1)
                return
            try:
                frame = QueueFrame(memoryview(data)[begin : begin + length], f"byte {self.end} of {self.path}")
                frame.verify()
            except StoreError:
                self._refuse_what_follows(data, begin + length)
                return
            yield frame
            begin += length
            self.end += length

    def _refuse_what_follows(self, data: bytes, begin: int) -> None:
        """A frame that is not whole is the last one, unless it was damaged later: then others may follow it."""
        for magic in MAGICS:
            at = begin
            while (at := data.find(magic, at)) >= 0:
                if frame_size(data[at : at + HEADER]) is not None:
                    got = "a damaged one, with others behind it"
                    raise StoreError("frames of queues that are whole", got, f"byte {self.end} of {self.path}")
                at += 1


def total(files: Sequence[QueueFile]) -> int:
    """Bytes of all frames."""
    return sum(file.end for file in files)
