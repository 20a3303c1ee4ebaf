"""Cells of a sweep that write down that they were measured, and do what their names say."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import pyarrow as pa

from bench.papers.filter_split_forward.sweep import sweep
from tidegate.errors import SubscriptionError

LINK = pa.struct([("a", pa.string()), ("readings", pa.int64())])
SCHEMA = pa.schema(
    [
        ("setup", pa.string()),
        ("count", pa.int64()),
        ("rounds", pa.int64()),
        ("data", pa.string()),
        ("load", pa.float64()),
        ("links", pa.list_(LINK)),
    ]
)
ABOUT = {"data": "made", "version": 1}


@dataclass(frozen=True)
class Cell:
    setup: str
    count: int
    rounds: int = 4

    @property
    def key(self) -> str:
        return f"{self.setup}-{self.count}"


def measure(cell: Cell, diary: Path) -> dict[str, object]:
    """Writes down that it was asked; what else happens is the set-up's name."""
    with (diary / cell.key).open("a") as asked:
        asked.write("x")
    if cell.setup == "refuses":
        raise SubscriptionError("a range", "none", "here")
    if cell.setup == "breaks":
        raise RuntimeError("first line\nsecond line")
    if cell.setup == "says-nothing":
        raise RuntimeError
    if cell.setup == "odd":
        return {"setup": "odd"}
    if cell.setup == "dies":
        os._exit(1)
    until = monotonic() + 60
    while cell.setup == "waits" and not (diary / "go").exists():
        assert monotonic() < until
        sleep(0.01)
    links = [{"a": f"n{i}", "readings": i} for i in range(cell.count)]
    row = {"setup": cell.setup, "count": cell.count, "rounds": cell.rounds, "data": "made"}
    return row | {"load": cell.count / 2, "links": links}


def asked(diary: Path) -> dict[str, int]:
    return {file.name: len(file.read_text()) for file in sorted(diary.iterdir())}


def swept(spark, cells, diary, out, about=ABOUT, told=None):
    report = (lambda *told: None) if told is None else (lambda *one: told.append(one))
    return sweep(spark, cells, partial(measure, diary=diary), SCHEMA, out, report, about)


def cells(*counts: int, setup: str = "plain") -> list[Cell]:
    return [Cell(setup, count) for count in counts]


def rows(table: pa.Table) -> list[tuple[str, int]]:
    return list(zip(table.column("setup").to_pylist(), table.column("count").to_pylist(), strict=True))


def left_over(out: Path) -> list[str]:
    return [path.name for path in out.rglob(".*")]
