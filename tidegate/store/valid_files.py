"""Files of the valid set: publications with all they say, sorted by row, in groups of one schema each.

A file is written once, as a bundle of arrays (``array_bundle``), whose checksums are verified when it is opened; the
content of a group is a stream of Arrow, which is read in place. Knows neither which publications are still valid nor
which file comes after which.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate import array_bundle
from tidegate.errors import StoreError

__all__ = ["ValidFile", "ValidGroup", "ValidRows", "joined", "write_file"]

_FORMAT = 1
#: Publications that are read together: their columns stay in the processor's cache.
_TOGETHER = 65_536


class ValidRows(NamedTuple):
    """What is known of publications beside what they say: an element for each, in the order of the rows."""

    row: NDArray[np.int64]
    version: NDArray[np.int64]
    """The version of the registry with which the log stamped them."""
    until: NDArray[np.int64]
    """How long they are valid, in microseconds since 1970."""

    def where(self, some: NDArray[Any]) -> ValidRows:
        return ValidRows(*(array[some] for array in self))


class ValidGroup(NamedTuple):
    """Publications of one schema, marks of integers included."""

    content: pa.Table
    rows: ValidRows

    @property
    def nbytes(self) -> int:
        return int(self.content.nbytes) + sum(array.nbytes for array in self.rows)

    def where(self, some: NDArray[np.bool_]) -> ValidGroup:
        """The publications for which this is true."""
        return self if some.all() else ValidGroup(self.content.filter(pa.array(some)), self.rows.where(some))


def schema_key(schema: pa.Schema) -> bytes:
    """What tells schemas apart, marks of integers included."""
    return bytes(schema.serialize())


def joined(groups: Iterable[ValidGroup]) -> list[ValidGroup]:
    """Groups whose rows follow each other, with those of one schema put together."""
    alike: dict[bytes, list[ValidGroup]] = {}
    for group in groups:
        if len(group.rows.row):
            alike.setdefault(schema_key(group.content.schema), []).append(group)
    found = []
    for some in alike.values():
        content = pa.concat_tables([group.content for group in some])
        rows = ValidRows(*map(np.concatenate, zip(*(group.rows for group in some), strict=True)))
        found.append(ValidGroup(content, rows))
    return found


def write_file(path: Path, groups: Sequence[ValidGroup]) -> None:
    """Write a file durably but for its name. Nothing of what is mapped elsewhere is in it."""
    arrays: dict[str, NDArray[Any]] = {}
    for number, (content, rows) in enumerate(groups):
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, content.schema) as stream:
            for batch in content.combine_chunks().to_batches(max_chunksize=_TOGETHER):
                stream.write_batch(batch)
        arrays |= {f"{name}{number}": array for name, array in rows._asdict().items()}
        arrays[f"content{number}"] = np.frombuffer(out.getvalue(), np.uint8)
    try:
        array_bundle.write(path, arrays, {"format": _FORMAT, "groups": len(groups)})
        with path.open("rb") as file:
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


class ValidFile:
    """A file of the valid set, mapped. ``level`` says how often what is in it was merged."""

    def __init__(self, path: Path, level: int) -> None:
        self.path, self.name, self.level = path, path.name, level
        arrays, facts = array_bundle.read(path)
        if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
            raise StoreError(f"a file of valid publications of format {_FORMAT}", "another one", str(path))
        self.groups = list(_groups(arrays, facts["groups"], str(path)))
        self.nbytes = path.stat().st_size
        self.count = sum(len(group.rows.row) for group in self.groups)
        self.first = min(int(group.rows.row[0]) for group in self.groups)
        self.last = max(int(group.rows.row[-1]) for group in self.groups)


def _groups(arrays: dict[str, NDArray[Any]], count: int, at: str) -> Iterator[ValidGroup]:
    try:
        for number in range(count):
            rows = ValidRows(*(arrays[f"{name}{number}"] for name in ValidRows._fields))
            with pa.ipc.open_stream(pa.py_buffer(arrays[f"content{number}"])) as stream:
                content = stream.read_all()
            if any(len(array) != content.num_rows for array in rows) or not content.num_rows:
                raise ValueError(f"{content.num_rows} publications in a group")
            yield ValidGroup(content, rows)
    except (KeyError, ValueError, OSError, pa.ArrowException) as error:
        raise StoreError("a whole file of valid publications", f"{error}", at) from None
