"""Several arrays in one piece of bytes or one file, which one process writes and another reads without copying.

Index snapshots and the state of pattern shards are stored so. A header of JSON gives name, type, shape and checksum of
each array; their bytes follow, aligned. Knows nothing of what the arrays mean.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.errors import StoreError

__all__ = ["packed", "read", "unpacked", "write"]

#: Changes whenever a bundle of an older program could be misread. The one before had no checksums.
_MAGIC, _BEFORE = b"TGB2", b"TGB1"
#: Bytes before the JSON: these four, the size of the JSON in eight, and its checksum in four.
_HEAD = 16
_ALIGN = 64


def packed(arrays: Mapping[str, NDArray[Any]], facts: Any = None) -> bytes:
    """The arrays and ``facts`` (any JSON value) as bytes."""
    return b"".join(_pieces(arrays, facts))


def write(path: Path, arrays: Mapping[str, NDArray[Any]], facts: Any = None) -> None:
    """Write what ``packed`` returns to a file, without a second copy of it in memory."""
    with path.open("wb") as file:
        file.writelines(_pieces(arrays, facts))


def _pieces(arrays: Mapping[str, NDArray[Any]], facts: Any) -> Iterator[Any]:
    flat = {name: np.ascontiguousarray(array).reshape(-1).view(np.uint8) for name, array in arrays.items()}
    described, at = [], 0
    for name, array in arrays.items():
        described.append([name, array.dtype.str, array.shape, at, zlib.crc32(flat[name].data)])
        at += array.nbytes + -array.nbytes % _ALIGN
    head = orjson.dumps({"arrays": described, "facts": facts})
    yield from (_MAGIC, len(head).to_bytes(8, "little"), zlib.crc32(head).to_bytes(4, "little"), head)
    yield bytes(-(_HEAD + len(head)) % _ALIGN)
    for array in flat.values():
        yield array.data if array.nbytes else b""
        yield bytes(-array.nbytes % _ALIGN)


def unpacked(data: Any, at: str = "", verify: bool = True) -> tuple[dict[str, NDArray[Any]], Any]:
    """The arrays and facts that were packed; the arrays are views of the given bytes. ``at`` is named in an error.

    Without ``verify`` only the header is compared with its checksum, not the arrays.
    """
    view = memoryview(data)
    try:
        head, start = _header(view)
        arrays = {}
        for name, dtype, shape, offset, *check in head["arrays"]:
            count = int(np.prod(shape, dtype=np.int64))
            if min([*shape, count, offset], default=0) < 0:
                raise ValueError(f"{shape} as a shape")
            array = np.frombuffer(view, np.dtype(dtype), count, start + offset if count else 0).reshape(shape)
            if verify and check and zlib.crc32(array.reshape(-1).view(np.uint8).data) != check[0]:
                raise ValueError(f"an array {name} that is not as it was written, by its checksum")
            arrays[name] = array
        return arrays, head["facts"]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError("a whole bundle of arrays", f"{error}", at) from None


def _header(view: memoryview) -> tuple[Any, int]:
    """The JSON before the arrays, and where the first of them begins."""
    magic, size = bytes(view[:4]), int.from_bytes(view[4:12], "little")
    if magic not in (_MAGIC, _BEFORE):
        raise ValueError("other first bytes")
    begin = _HEAD if magic == _MAGIC else 12
    head = view[begin : begin + size]
    if magic == _MAGIC and zlib.crc32(head) != int.from_bytes(view[12:16], "little"):
        raise ValueError("a header that is not as it was written, by its checksum")
    return orjson.loads(head), -(-(begin + size) // _ALIGN) * _ALIGN


def read(path: Path, verify: bool = True) -> tuple[dict[str, NDArray[Any]], Any]:
    """The arrays and facts of a file, which is mapped into memory."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # writable, as kernels are compiled for
    except (OSError, ValueError) as error:
        raise StoreError("a file with a bundle of arrays", f"{error}", str(path)) from None
    return unpacked(data, str(path), verify)
