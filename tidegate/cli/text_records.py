"""Records of a text file, each with its place in it: JSON Lines, a JSON array, or CSV.

``subscription_files`` and ``publication_files`` call it, and know what fields a record has. A record that cannot be
read is an error that names the file and the line.
"""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tidegate.errors import SettingError, TidegateError, shown
from tidegate.records import timestamp

__all__ = ["JSON", "FilePosition", "cells", "extension", "lines", "objects", "text", "timestamp"]

#: Extensions of files that hold JSON objects.
JSON = (".jsonl", ".ndjson", ".json")


@dataclass(frozen=True, slots=True)
class FilePosition:
    """Where a record stands: a file, and a line (or an item, or a row) of it."""

    file: Path
    number: int
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.file}, {self.unit} {self.number}"


def extension(path: Path, known: tuple[str, ...]) -> str:
    """The extension of a file that exists, one of ``known``."""
    if not path.exists():
        raise SettingError("a file that exists", shown(str(path)))
    if path.is_dir():
        raise SettingError("a file", f"the directory {shown(str(path))}")
    found = path.suffix.lower()
    if found not in known:
        raise SettingError(f"a file that ends in {', '.join(known)}", shown(path.name))
    return found


def lines(path: Path, error: type[TidegateError]) -> Iterator[tuple[FilePosition, str, int]]:
    """Lines that are not blank, each with its place and the bytes read so far."""
    read = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            read += len(line)
            place = FilePosition(path, number)
            content = text(line.removeprefix(BOM_UTF8) if number == 1 else line, str(place), error)
            if content.strip():
                yield place, content.rstrip("\r\n"), read


def text(content: bytes, at: str, error: type[TidegateError]) -> str:
    """Bytes of a file as the text they must be."""
    try:
        return content.decode()
    except UnicodeDecodeError as wrong:
        raise error("text in UTF-8", f"the byte 0x{content[wrong.start]:02x}", at) from None


def objects(
    path: Path, error: type[TidegateError]
) -> Iterator[tuple[FilePosition, dict[str, Any] | TidegateError, int]]:
    """JSON objects; for one that cannot be read the error is yielded, not raised, so that the rest can be read too."""
    if path.suffix.lower() == ".json":
        yield from _items(path, error)
        return
    for place, line, read in lines(path, error):
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError as wrong:
            at = f"{place}, column {wrong.pos + 1}"
            yield place, error("a JSON object on each line", f"{shown(line)}, where {wrong.msg}", at), read
        else:
            yield place, _object(found, place, error), read


def _items(
    path: Path, error: type[TidegateError]
) -> Iterator[tuple[FilePosition, dict[str, Any] | TidegateError, int]]:
    content = path.read_bytes()
    try:
        found = orjson.loads(content.removeprefix(BOM_UTF8))
    except orjson.JSONDecodeError as wrong:
        at = str(FilePosition(path, wrong.lineno))
        raise error("JSON (one object per line is .jsonl, not .json)", f"text where {wrong.msg}", at) from None
    if not isinstance(found, list):
        raise error("an array of JSON objects", shown(found), str(path))
    for number, item in enumerate(found, 1):
        place = FilePosition(path, number, "item")
        yield place, _object(item, place, error), len(content) * number // len(found)


def _object(found: Any, place: FilePosition, error: type[TidegateError]) -> dict[str, Any] | TidegateError:
    return found if isinstance(found, dict) else error("a JSON object", shown(found), str(place))


def cells(path: Path, error: type[TidegateError]) -> Iterator[tuple[FilePosition, list[str], int]]:
    """The rows of a CSV file, the header first; every row has as many cells as the header."""
    read = 0

    def counted() -> Iterator[str]:
        nonlocal read
        with path.open("r", encoding="utf-8-sig", newline="") as file:
            for line in file:
                read += len(line)
                yield line

    reader = csv.reader(counted(), strict=True)
    width = 0
    line = 1
    try:
        for row in reader:
            place, line = FilePosition(path, line), reader.line_num + 1
            if not row:
                continue
            if not width:
                width = len(row)
                if len(set(row)) < width:
                    twice = next(name for name in row if row.count(name) > 1)
                    raise error("each column once in the header", f"{shown(twice)} twice", str(place))
            if len(row) != width:
                raise error(f"{width} cells as in the header", f"{len(row)}", str(place))
            yield place, row, read
    except csv.Error as wrong:
        raise error("a row of CSV", f"{wrong}", str(FilePosition(path, line))) from None
    except UnicodeDecodeError as wrong:
        byte = wrong.object[wrong.start]
        raise error("text in UTF-8", f"the byte 0x{byte:02x}", f"{path}, at or after line {line}") from None
