"""Saving an index to a directory and loading it again, without parsing a single subscription.

One ``.npy`` file per array, memory-mapped when loaded, the subscriptions as an Arrow file, ``index.json`` with the
rest, and the seal of the directory, written last. A snapshot appears whole or not at all, and ``read`` believes nothing
in it before the seal was verified and the offsets were found to be within bounds.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from tidegate import array_bundle
from tidegate.errors import SnapshotError, shown
from tidegate.index import older_snapshots
from tidegate.index.axes import Axes
from tidegate.index.catalogue import SCHEMA, Catalogue, told_of
from tidegate.index.clauses import CLAUSE_ARRAYS, Clauses, TextConstants
from tidegate.index.drivers import Drivers
from tidegate.index.index import Index
from tidegate.index.segment import AXES_ARRAYS, TABLE_ARRAYS, Segment
from tidegate.index.soundness import check, check_terms
from tidegate.index.term_kinds import TERM_KINDS
from tidegate.index.terms import TermLookup
from tidegate.predicates.column import Column
from tidegate.sealed_directory import Seal, seal

__all__ = ["FORMAT", "assembled", "count", "load", "read", "read_arrow", "save", "write", "write_array", "write_arrow"]

#: To be raised whenever a file of an older program could be misread. Of those before, 3 had no seal.
FORMAT, _WITHOUT_SEAL = 5, 3


def save(
    index: Index,
    catalogue: Catalogue,
    directory: str | os.PathLike[str],
    numbers: NDArray[np.int64] | None = None,
    more: Callable[[Path], None] | None = None,
) -> None:
    """Write everything that is alive; an earlier snapshot in the directory is moved aside once the new one is whole.

    ``numbers`` are the living subscriptions where the catalogue cannot say that, because an id may stand in it twice.
    ``more`` writes what else belongs to the snapshot, before it appears.
    """
    if numbers is None:
        numbers = np.array(sorted(catalogue.numbers.values()), np.int64)
    target = _path(directory)
    try:
        is_free = not target.exists() or (target.is_dir() and not any(target.iterdir()))
        if not is_free and not (target / "index.json").exists():
            raise SnapshotError("an empty directory, a snapshot or a new name", shown(str(target)))
        aside = target.absolute().with_name(f".{target.name}-{uuid4().hex}")
        aside.mkdir(parents=True)
    except (OSError, ValueError) as error:
        if isinstance(error, SnapshotError):
            raise
        raise SnapshotError("a directory that can be written", f"{error}", shown(str(target))) from None
    try:
        write(index, catalogue, aside, numbers)
        if more is not None:
            more(aside)
        seal(aside)
        if target.exists():
            before = aside.with_name(f"{aside.name}-old")
            os.replace(target, before)
            os.replace(aside, target)
            shutil.rmtree(before)
        else:
            os.replace(aside, target)
    except OSError as error:
        raise SnapshotError("room to write a snapshot", f"{error.strerror or error}", str(target)) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def write(index: Index, catalogue: Catalogue, directory: Path, numbers: NDArray[np.int64]) -> None:
    """Write the files of a snapshot to a directory that exists; the caller adds others, and seals it."""
    segment = index.compact()
    clauses = segment.clauses
    new_number = np.full(catalogue.numbers_given, -1, np.int32)
    new_number[numbers] = np.arange(len(numbers))
    arrays: dict[str, Any] = {name: getattr(clauses, name) for name in CLAUSE_ARRAYS}
    arrays["owner"] = new_number[clauses.owner]
    arrays |= {name: getattr(segment, name) for name in TABLE_ARRAYS}
    arrays |= {f"axes-{name}": getattr(segment.axes, name) for name in AXES_ARRAYS}
    for kind, terms, begins in zip(TERM_KINDS, clauses.terms, segment.drivers.starts, strict=True):
        arrays |= {f"{kind.name}-term-{name}": array for name, array in terms.arrays.items()}
        arrays[f"{kind.name}-drives"] = begins
    for c, texts in clauses.texts.items():
        arrays |= {f"text-{c}-offsets": texts.offsets, f"text-{c}-letters": texts.letters}
    for name, array in arrays.items():
        write_array(directory / f"{name}.npy", array)
    for kind, lookup in zip(TERM_KINDS, segment.lookups, strict=True):
        if lookup is not None:  # one file: a lookup may have hundreds of arrays, and a process opens only so many
            array_bundle.write(directory / f"{kind.name}.bundle", lookup.arrays)
    write_arrow(directory / "subscriptions.arrow", catalogue.table(numbers))
    predicates = pa.table({"predicate": pa.array([bytes(p) for p in clauses.predicates], pa.large_binary())})
    write_arrow(directory / "predicates.arrow", predicates)
    facts = {
        "format": FORMAT,
        "subscriptions": len(numbers),
        "clauses": len(clauses),
        "repeats": segment.repeats,
        "texts": sorted(clauses.texts),
        "columns": [column.plain() for column in clauses.columns],
        "tabled": segment.drivers.tabled,
        "terms": {kind.name: terms.facts for kind, terms in zip(TERM_KINDS, clauses.terms, strict=True)},
        "lookups": {
            kind.name: None if lookup is None else lookup.facts
            for kind, lookup in zip(TERM_KINDS, segment.lookups, strict=True)
        },
        "bytes": {name: int(array.nbytes) for name, array in arrays.items()},
    }
    (directory / "index.json").write_bytes(orjson.dumps(facts, option=orjson.OPT_INDENT_2))


def write_array(path: Path, array: NDArray[Any]) -> None:
    """An array as a ``.npy`` file. ``np.save`` would not notice if the end of it found no room on the disk."""
    whole = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(whole))
        file.write(whole.reshape(-1).view(np.uint8).data)


def write_arrow(path: Path, table: pa.Table) -> None:
    """A table as an Arrow file."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def read_arrow(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path), "r")).read_all()


def load(*directories: str | os.PathLike[str]) -> tuple[Index, Catalogue]:
    """The index and the subscriptions of snapshots; the arrays stay in their files until they are touched.

    Several are put together in that order, each numbered on from the one before; no two may share an id.
    """
    return assembled([read(directory) for directory in directories])


def assembled(parts: Sequence[tuple[Segment, pa.Table]]) -> tuple[Index, Catalogue]:
    """One index over segments that were each saved by themselves."""
    segments, count, told = [], 0, dict[int, Sequence[Any]]()
    for segment, subscriptions in parts:
        told |= {count + place: options for place, options in told_of(subscriptions).items()}
        segments.append(segment.shifted(count) if count else segment)
        count += subscriptions.num_rows
    table = pa.concat_tables([subscriptions for _, subscriptions in parts]) if parts else None
    return Index(segments, count), Catalogue(table, told)


def count(directory: str | os.PathLike[str]) -> int:
    """How many subscriptions a snapshot has, which was read before."""
    return int(orjson.loads((_path(directory) / "index.json").read_bytes())["subscriptions"])


def read(directory: str | os.PathLike[str]) -> tuple[Segment, pa.Table]:
    """The segment of one snapshot and the table of its subscriptions."""
    source = _path(directory)
    try:
        sealed = Seal.of(source)
        is_first = sealed is None or sealed.verify()
        facts = orjson.loads((source / "index.json").read_bytes())
        if facts["format"] not in (FORMAT, *older_snapshots.FORMATS):
            raise SnapshotError(f"a snapshot of format {FORMAT}", f"format {facts['format']}", str(source))
        if sealed is None and facts["format"] != _WITHOUT_SEAL:
            raise SnapshotError("a snapshot with a list of its files", "none", str(source))
        segment, subscriptions = _mapped(source, facts)
        check(segment, facts["subscriptions"], is_first)
        subscriptions.validate(full=is_first)
        if subscriptions.schema != SCHEMA or subscriptions.num_rows != facts["subscriptions"]:
            raise SnapshotError(f"{facts['subscriptions']} subscriptions", f"{subscriptions.num_rows}", str(source))
        if sealed is not None:
            sealed.remember()
    except (OSError, EOFError, KeyError, TypeError, ValueError, AttributeError, pa.ArrowException) as error:
        if isinstance(error, SnapshotError):
            raise
        raise SnapshotError(
            "a directory with a complete snapshot", f"{type(error).__name__}: {error}", str(source)
        ) from None
    return segment, subscriptions


def _mapped(source: Path, facts: dict[str, Any]) -> tuple[Segment, pa.Table]:
    """What the files hold, as ``facts`` describe them."""
    # plain arrays over the mapped files: slicing a memmap costs a microsecond more each time
    arrays = {name: np.asarray(np.load(source / f"{name}.npy", mmap_mode="c")) for name in facts["bytes"]}
    for name, size in facts["bytes"].items():
        if arrays[name].nbytes != size:
            raise SnapshotError(f"{size} bytes of {name}", f"{arrays[name].nbytes}", str(source))
    predicates = read_arrow(source / "predicates.arrow").column("predicate").to_pylist()
    if facts["format"] != FORMAT:
        segment = Segment.of(older_snapshots.clauses_of(facts, arrays, predicates))
    else:
        segment = _segment(source, facts, arrays, predicates)
    return segment, read_arrow(source / "subscriptions.arrow")


def _segment(source: Path, facts: dict[str, Any], arrays: dict[str, Any], predicates: list[bytes]) -> Segment:
    terms = tuple(
        kind.terms.restored(facts["terms"][kind.name], _without(f"{kind.name}-term-", arrays)) for kind in TERM_KINDS
    )
    clauses = Clauses(
        columns=tuple(Column.restored(*plain) for plain in facts["columns"]),
        texts={c: TextConstants(arrays[f"text-{c}-offsets"], arrays[f"text-{c}-letters"]) for c in facts["texts"]},
        predicates=predicates,
        terms=terms,
        **{name: arrays[name] for name in CLAUSE_ARRAYS},
    )
    drivers = Drivers(facts["tabled"], tuple(arrays[f"{kind.name}-drives"] for kind in TERM_KINDS))
    check_terms(clauses, drivers)
    lookups: list[TermLookup | None] = []
    for kind, some, begins in zip(TERM_KINDS, terms, drivers.starts, strict=True):
        if not len(some):
            lookups.append(None)
            continue
        found, _ = array_bundle.read(source / f"{kind.name}.bundle", verify=False)  # the seal has its checksum
        lookups.append(kind.lookup(some, np.diff(begins) > 0, facts["lookups"][kind.name], found))
    return Segment(
        clauses=clauses,
        axes=Axes(**{name: arrays[f"axes-{name}"] for name in AXES_ARRAYS}),
        repeats=facts["repeats"],
        drivers=drivers,
        lookups=tuple(lookups),
        **{name: arrays[name] for name in TABLE_ARRAYS},
    )


def _without(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _path(directory: str | os.PathLike[str]) -> Path:
    try:
        return Path(directory)
    except TypeError:
        raise SnapshotError("the path of a directory", shown(directory)) from None
