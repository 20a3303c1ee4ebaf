"""Several arrays in one piece of bytes or one file, which one process writes and another reads without copying.

Index snapshots and the state of pattern shards are stored so. A header of JSON gives name, type and shape of each
array; their bytes follow, aligned. Knows nothing of what the arrays mean.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.errors import StoreError

__all__ = ["packed", "read", "unpacked", "write"]

_MAGIC = b"TGB1"
_ALIGN = 64


def packed(arrays: Mapping[str, NDArray[Any]], facts: Any = None) -> bytes:
    """The arrays and ``facts`` (any JSON value) as bytes."""
    return b"".join(_pieces(arrays, facts))


def write(path: Path, arrays: Mapping[str, NDArray[Any]], facts: Any = None) -> None:
    """Write what ``packed`` returns to a file, without a second copy of it in memory."""
    with path.open("wb") as file:
        file.writelines(_pieces(arrays, facts))


def _pieces(arrays: Mapping[str, NDArray[Any]], facts: Any) -> Iterator[Any]:
    described, at = [], 0
    for name, array in arrays.items():
        described.append([name, array.dtype.str, array.shape, at])
        at += array.nbytes + -array.nbytes % _ALIGN
    head = orjson.dumps({"arrays": described, "facts": facts})
    start = -(-(12 + len(head)) // _ALIGN) * _ALIGN
    yield from (_MAGIC, len(head).to_bytes(8, "little"), head, bytes(start - 12 - len(head)))
    for array in arrays.values():
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.nbytes else b""
        yield bytes(-array.nbytes % _ALIGN)


def unpacked(data: Any, at: str = "") -> tuple[dict[str, NDArray[Any]], Any]:
    """The arrays and facts that were packed; the arrays are views of the given bytes. ``at`` is named in an error."""
    view = memoryview(data)
    try:
        if bytes(view[:4]) != _MAGIC:
            raise ValueError("other first bytes")
        size = int.from_bytes(view[4:12], "little")
        head = orjson.loads(view[12 : 12 + size])
        start = -(-(12 + size) // _ALIGN) * _ALIGN
        arrays = {}
        for name, dtype, shape, offset in head["arrays"]:
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(view, np.dtype(dtype), count, start + offset if count else 0).reshape(shape)
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError("a whole bundle of arrays", f"{error}", at) from None
    return arrays, head["facts"]


def read(path: Path) -> tuple[dict[str, NDArray[Any]], Any]:
    """The arrays and facts of a file, which is mapped into memory."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # writable, as kernels are compiled for
    except (OSError, ValueError) as error:
        raise StoreError("a file with a bundle of arrays", f"{error}", str(path)) from None
    return unpacked(data, str(path))
