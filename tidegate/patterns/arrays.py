"""The state of patterns as named flat arrays that grow: on the heap, or in files that any process of a machine maps.

Each ``Combine`` has one ``Arrays``, in which its ``Memory`` and its families keep all their state. So a snapshot is a
copy of arrays, and a Spark worker that takes over a shard maps the files that another worker left. Beside the arrays
are the ``ShardFacts``. Knows nothing of what either mean.
"""

from __future__ import annotations

import math
import mmap
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate import checked_json
from tidegate.errors import StoreError
from tidegate.patterns.shard_facts import ShardFacts

__all__ = ["Arrays", "Growing"]

_FACTS = "facts.json"
#: The format of the files. Those of another one are not used: the arrays are built again.
_FORMAT = 3


class Growing:
    """An array with room at its end. ``data`` is all of it, ``length`` how many rows are in use."""

    __slots__ = ("_path", "data", "length")

    def __init__(self, data: NDArray[Any], length: int, path: Path | None) -> None:
        self.data, self.length, self._path = data, length, path

    @property
    def used(self) -> NDArray[Any]:
        """The rows that are in use."""
        return self.data[: self.length]

    def padded(self, length: int, value: Any) -> NDArray[Any]:
        """A copy of the rows in use, filled up with ``value`` to ``length`` rows."""
        found = np.full(length, value, self.data.dtype)
        found[: self.length] = self.used
        return found

    def reserve(self, more: int) -> NDArray[Any]:
        """Make room for so many more rows, and return the whole array."""
        wanted = self.length + more
        if wanted > len(self.data):
            rows = max(wanted, 2 * len(self.data), 16)
            shape = (rows, *self.data.shape[1:])
            if self._path is None:
                larger = np.zeros(shape, self.data.dtype)
                larger[: self.length] = self.used
                self.data = larger
            else:
                self.data = _mapped(self._path, self.data.dtype, shape)
        return self.data

    def extend(self, rows: NDArray[Any]) -> None:
        """Append rows."""
        self.reserve(len(rows))[self.length : self.length + len(rows)] = rows
        self.length += len(rows)

    def replace(self, rows: NDArray[Any]) -> None:
        """Hold these rows and no others; they may be of another width."""
        if rows.shape[1:] != self.data.shape[1:]:
            self.data = (
                np.zeros((0, *rows.shape[1:]), self.data.dtype)
                if self._path is None
                else _mapped(self._path, self.data.dtype, (0, *rows.shape[1:]))
            )
        self.length = 0
        self.extend(rows)


def _mapped(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """An array over a file, which is made as large as it takes. A file never shrinks: others may have it mapped."""
    size = int(math.prod(shape)) * dtype.itemsize
    with open(path, "r+b" if path.exists() else "w+b") as file:
        if os.fstat(file.fileno()).st_size < size:
            _grow(file.fileno(), size)
        if not size:
            return np.zeros(shape, dtype)
        return np.frombuffer(mmap.mmap(file.fileno(), size), dtype).reshape(shape)


def _grow(file: int, size: int) -> None:
    """Make a file larger, with room on the disk: a page without it would end the process when it is written to."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, size)
        else:
            os.truncate(file, size)
    except OSError as error:
        raise StoreError("room for what patterns remember", f"{error.strerror}", "the cache directory") from None


class Arrays:
    """Arrays by name, and the facts that go with them."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._files = uuid4().hex
        self._arrays: dict[str, Growing] = {}
        self.facts = ShardFacts()
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)

    def get(self, name: str, dtype: Any, width: int | None = None) -> Growing:
        """The array of that name, empty if it is new."""
        found = self._arrays.get(name)
        if found is None:
            shape = (0,) if width is None else (0, width)
            path = None if self._directory is None else self._directory / name
            found = self._arrays[name] = Growing(np.zeros(shape, dtype), 0, path)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of what is in use."""
        return sum(array.length * array.data.strides[0] for array in self._arrays.values())

    # --- keeping ----------------------------------------------------------------------------------------------------

    def copied(self) -> dict[str, NDArray[Any]]:
        """A copy of everything, facts included: the snapshot."""
        arrays = {name: array.used.copy() for name, array in self._arrays.items()}
        return {**arrays, _FACTS: np.frombuffer(orjson.dumps(self.facts.to_json()), np.uint8)}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take the arrays and facts of a snapshot in place of those here."""
        self.facts = ShardFacts.from_json(orjson.loads(arrays[_FACTS].tobytes()))
        for name, rows in arrays.items():
            if name != _FACTS:
                self.get(name, rows.dtype, rows.shape[1] if rows.ndim > 1 else None).replace(rows)

    # --- files ------------------------------------------------------------------------------------------------------

    def publish(self, token: str) -> None:
        """Mark the files as whole, with the token that names their state."""
        assert self._directory is not None
        shapes = {name: [a.data.dtype.str, a.data.shape, a.length] for name, a in self._arrays.items()}
        aside = self._directory / f"{_FACTS}.new"
        told = {"token": token, "files": self._files, "arrays": shapes, "facts": self.facts.to_json()}
        aside.write_bytes(checked_json.packed({"format": _FORMAT, **told}))
        aside.replace(self._directory / _FACTS)

    def retract(self) -> None:
        """Remove the mark before the files are changed, so that no other process adopts them."""
        assert self._directory is not None
        (self._directory / _FACTS).unlink(missing_ok=True)

    @property
    def token(self) -> str | None:
        """The token of the state in the files; None if they are not marked as whole."""
        told = self._told()
        return None if told is None else str(told["token"])

    def _told(self) -> dict[str, Any] | None:
        assert self._directory is not None
        try:
            told = checked_json.unpacked((self._directory / _FACTS).read_bytes())
        except (OSError, ValueError):
            return None
        return told if told.get("format") == _FORMAT and self._are_there(told["arrays"]) else None

    def _are_there(self, arrays: dict[str, Any]) -> bool:
        """Whether the files are as large as they were: what cleans temporary files may have taken some of them."""
        assert self._directory is not None
        for name, (dtype, shape, _) in arrays.items():
            size = int(math.prod(shape)) * np.dtype(dtype).itemsize
            try:
                if size and os.stat(self._directory / name).st_size < size:
                    return False
            except OSError:
                return False
        return True

    def adopt(self, token: str) -> bool:
        """Map the files that another process has published, if they have that token; else change nothing."""
        assert self._directory is not None
        told = self._told()
        if told is None or told["token"] != token:
            return False
        if told["files"] != self._files:  # other files of the same names: those mapped here may have been deleted
            self._arrays.clear()
            self._files = told["files"]
        self.facts = ShardFacts.from_json(told["facts"])
        for name, (dtype, shape, length) in told["arrays"].items():
            mine = self._arrays.get(name)
            if mine is None or list(mine.data.shape) != shape or mine.data.dtype.str != dtype:
                path = self._directory / name
                self._arrays[name] = mine = Growing(_mapped(path, np.dtype(dtype), tuple(shape)), 0, path)
            mine.length = length
        for name in self._arrays.keys() - told["arrays"].keys():
            del self._arrays[name]
        return True
