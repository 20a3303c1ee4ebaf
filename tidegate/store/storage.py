"""A storage: directories and small files by name, at a path of this machine or at a URL.

A path is used where it is, and every process of the machine maps the same files. What lies at a URL (``file://``,
``hdfs://``, ``s3://``: whatever ``pyarrow.fs`` opens) is copied to this machine once and mapped from there. Knows
nothing of what the files hold.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as fs

from tidegate.errors import StoreError, shown
from tidegate.machine_cache import cache_directory

__all__ = ["Storage", "storage_at", "synced"]


class Storage(Protocol):
    """Files and directories by name. A reader never sees one that is only partly written."""

    def names(self) -> list[str]: ...
    def age(self, name: str) -> float: ...
    def read(self, name: str) -> bytes | None: ...
    def write(self, name: str, data: bytes) -> None: ...
    def put(self, name: str, write: Callable[[Path], None]) -> None: ...
    def local(self, name: str) -> Path: ...
    def remove(self, name: str) -> None: ...


def storage_at(location: str | os.PathLike[str]) -> Storage:
    """The storage at a path of this machine or at a URL."""
    text = os.fspath(location)
    if "://" not in text:
        return _Here(Path(text))
    try:
        filesystem, root = fs.FileSystem.from_uri(text)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError("a URL of a storage that can be opened", f"{error}", shown(text)) from None
    return _Elsewhere(text, filesystem, root)


class _Here:
    """A directory of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError("a directory that can be used", f"{error.strerror}", shown(str(root))) from None

    def __str__(self) -> str:
        return str(self._root)

    def names(self) -> list[str]:
        return [name for name in os.listdir(self._root) if not name.startswith(".")]

    def age(self, name: str) -> float:
        try:
            return time.time() - (self._root / name).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def read(self, name: str) -> bytes | None:
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        aside = self._root / f".{name}-{uuid4().hex}"
        try:
            with self._written():
                with aside.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(aside, self._root / name)
                synced(self._root)
        finally:
            aside.unlink(missing_ok=True)  # what found no room must not take any

    def put(self, name: str, write: Callable[[Path], None]) -> None:
        aside = self._root / f".{name}"
        try:
            with self._written():
                write(aside)
                for path in (*aside.rglob("*"), aside):
                    synced(path)
            os.replace(aside, self._root / name)
            synced(self._root)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def local(self, name: str) -> Path:
        return self._root / name

    def remove(self, name: str) -> None:
        path = self._root / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def _written(self) -> _Complaint:
        return _Complaint(str(self._root))


class _Complaint:
    """Turns the ``OSError`` of a failing write into a ``StoreError``."""

    def __init__(self, at: str) -> None:
        self._at = at

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, OSError):
            raise StoreError("room to write", f"{error.strerror or error}", self._at) from None


class _Elsewhere:
    """A directory of any file system that Arrow opens, with a copy on this machine of what is mapped."""

    def __init__(self, url: str, filesystem: fs.FileSystem, root: str) -> None:
        self._url, self._files, self._root = url, filesystem, root.rstrip("/")
        self._copies = cache_directory() / blake2b(url.encode(), digest_size=8).hexdigest()
        self._files.create_dir(self._root, recursive=True)

    def __str__(self) -> str:
        return self._url

    def names(self) -> list[str]:
        found = self._files.get_file_info(fs.FileSelector(self._root))
        return [info.base_name for info in found if not info.base_name.startswith(".")]

    def age(self, name: str) -> float:
        changed = self._files.get_file_info(f"{self._root}/{name}").mtime_ns
        return 0.0 if changed is None else time.time() - changed / 1e9

    def read(self, name: str) -> bytes | None:
        try:
            with self._files.open_input_stream(f"{self._root}/{name}") as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        aside = f"{self._root}/.{name}-{uuid4().hex}"
        with self._files.open_output_stream(aside) as file:
            file.write(data)
        self._files.move(aside, f"{self._root}/{name}")

    def put(self, name: str, write: Callable[[Path], None]) -> None:
        """Write it on this machine, where it will be mapped too, and copy it out. Whole once a manifest names it."""
        copy = self._copies / name
        with tempfile.TemporaryDirectory(dir=_made(self._copies)) as aside:
            write(Path(aside) / name)
            target = f"{self._root}/{name}"
            self._files.create_dir(target, recursive=True)
            fs.copy_files(str(Path(aside) / name), target, destination_filesystem=self._files)
            os.replace(Path(aside) / name, copy)

    def local(self, name: str) -> Path:
        copy = self._copies / name
        if not copy.exists():
            with (_made(self._copies) / f".{name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # one worker copies, the others wait
                if not copy.exists():
                    with tempfile.TemporaryDirectory(dir=self._copies) as aside:
                        (Path(aside) / name).mkdir()
                        fs.copy_files(f"{self._root}/{name}", str(Path(aside) / name), source_filesystem=self._files)
                        os.replace(Path(aside) / name, copy)
                    self._drop_old()
        return copy

    def _drop_old(self) -> None:
        """Remove copies of what is no longer in the storage. Processes that have mapped them keep what is mapped."""
        there = set(self.names())
        for path in self._copies.iterdir():
            name = path.name
            if name.startswith(".") and name.endswith(".lock"):
                if name[1:-5] not in there:
                    path.unlink(missing_ok=True)
            elif name.startswith(("layer-", "merge-")) and name not in there:
                shutil.rmtree(path, ignore_errors=True)

    def remove(self, name: str) -> None:
        path = f"{self._root}/{name}"
        try:
            if self._files.get_file_info(path).type == fs.FileType.Directory:
                self._files.delete_dir(path)
            else:
                self._files.delete_file(path)
        except FileNotFoundError:
            return


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def synced(path: Path) -> None:
    """Wait until a file, or a directory's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
