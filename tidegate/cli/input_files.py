"""The history of ``tidegate rehearse``: Parquet, which Spark reads itself, and other files, which become Parquet first.

In the Parquet that is written here all attributes are JSON in one column, because a file may hold values of several
kinds under one name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.cli.progress import progress
from tidegate.cli.publication_files import FileBatch, batches
from tidegate.cli.text_records import JSON
from tidegate.errors import SettingError, TidegateError, shown
from tidegate.index.table_columns import columns_of
from tidegate.model import RESERVED
from tidegate.records.json_column import POINT
from tidegate.records.timestamps import INSTANT
from tidegate.time_zones import TimeZone

__all__ = ["InputFiles", "gathered", "written"]

_OTHERS = (*JSON, ".csv")
_KINDS = {"text": pa.string(), "time": INSTANT, "point": POINT}
_FIELDS = {name: _KINDS[kind] for name, kind in RESERVED.items() if kind in _KINDS}
_SCHEMA = pa.schema([*_FIELDS.items(), ("attributes", pa.string())])


@dataclass(frozen=True)
class InputFiles:
    """Paths or URLs of Parquet, and files of other kinds."""

    parquet: list[str]
    others: list[Path]


def gathered(events: Sequence[str], rewritten: bool = False) -> InputFiles:
    """The files that are named or lie in folders, without hidden ones (names that begin with a dot or underscore).

    ``rewritten``: Parquet, too, is to be read here and written anew.
    """
    found = InputFiles([], [])
    for name in events:
        if "://" in name:
            found.parquet.append(name)
            continue
        path = Path(name)
        if not path.exists():
            raise SettingError("files or folders that exist", shown(name))
        if path.is_dir():
            _folder(path, found)
        elif path.suffix.lower() == ".parquet":
            found.parquet.append(str(path.absolute()))
        elif path.suffix.lower() in _OTHERS:
            found.others.append(path)
        else:
            raise SettingError(f"files that end in .parquet, {', '.join(_OTHERS)}", shown(path.name))
    return _alike(found, rewritten)


def _alike(found: InputFiles, rewritten: bool) -> InputFiles:
    """Beside other files Parquet is rewritten like them: a history has attributes in columns or in JSON, not both."""
    if not found.parquet or not (found.others or rewritten):
        return found
    url = next((name for name in found.parquet if "://" in name), None)
    if url is not None:
        raise SettingError("files of this machine, beside files that are no Parquet or with --timezone", shown(url))
    paths = [Path(name) for name in found.parquet]
    files = [file for path in paths for file in (_visible(path, (".parquet",)) if path.is_dir() else [path])]
    return InputFiles([], [*files, *found.others])


def _visible(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    inner = [p for p in sorted(folder.rglob("*")) if not any(n[0] in "._" for n in p.relative_to(folder).parts)]
    return [file for file in inner if file.is_file() and file.suffix.lower() in endings]


def _folder(path: Path, found: InputFiles) -> None:
    """Parquet is left to Spark as a whole folder, whose inner folders may be columns (day=2026-10-01)."""
    others, parquet = _visible(path, _OTHERS), _visible(path, (".parquet",))
    if not parquet and not others:
        raise SettingError(f"files that end in .parquet, {', '.join(_OTHERS)}", "none", str(path))
    if parquet:
        found.parquet.append(str(path.absolute()))
    found.others.extend(others)


def written(files: InputFiles, directory: Path, zone: TimeZone | None = None) -> list[str]:
    """The files that are no Parquet as Parquet in a directory; an error names the file and the line."""
    if not files.others:
        return []
    directory.mkdir(parents=True)
    whole, before, count = sum(file.stat().st_size for file in files.others), 0, 0
    with progress(whole) as show:
        for number, file in enumerate(files.others):
            with pq.ParquetWriter(directory / f"{number:06d}.parquet", _SCHEMA) as writer:
                for batch in batches(file, zone):
                    writer.write_table(_as_table(batch, zone))
                    count += len(batch.rows)
                    show(before + batch.read, f"{count:,} read")
            before += file.stat().st_size
    return [str(directory)]


def _as_table(batch: FileBatch, zone: TimeZone | None) -> pa.Table:
    rows = batch.rows
    if isinstance(rows, pa.Table):
        found = _columns(batch, rows, zone)
        names = [name for name in found if name not in _FIELDS]
        columns: dict[str, Any] = {
            name: found[name] if name in found else pa.nulls(len(rows), kind) for name, kind in _FIELDS.items()
        }
        attributes = pa.table({n: found[n] for n in names}).to_pylist() if names else [{} for _ in range(len(rows))]
    else:
        columns = {name: [_field(p.value(name)) for p in rows] for name in _FIELDS}
        attributes = [{name: _json(value) for name, value in p.attributes.items()} for p in rows]
    columns["attributes"] = [orjson.dumps(some, _json, orjson.OPT_PASSTHROUGH_DATETIME).decode() for some in attributes]
    arrays = [c.cast(f.type) if hasattr(c := columns[f.name], "cast") else pa.array(c, f.type) for f in _SCHEMA]
    return pa.table(arrays, schema=_SCHEMA)


def _columns(batch: FileBatch, rows: pa.Table, zone: TimeZone | None) -> dict[str, pa.Array]:
    try:
        found, untimely = columns_of(rows, zone)
        for rule in untimely:
            raise rule.error(0)
    except TidegateError as error:
        raise batch.located(error) from None
    return found


def _field(value: Any) -> Any:
    return {"lon": value[0], "lat": value[1]} if isinstance(value, tuple) else value


def _json(value: Any) -> Any:
    """Values that JSON cannot write, as objects that it can."""
    if isinstance(value, datetime):
        return {"timestamp": value.astimezone(UTC).isoformat()}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    return _field(value)
