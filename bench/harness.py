"""What all benches share: rounds and medians, machine facts, a table on screen and the raw results in a file."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from numbers import Integral
from pathlib import Path
from time import perf_counter
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

__all__ = ["RESULTS", "Report", "exactness", "median", "one_core", "rounds", "rounds_over", "say", "shown", "timed"]

RESULTS = Path(__file__).parent / "results"
_console = Console(highlight=False, width=None if sys.stdout.isatty() else 220)


def say(text: str) -> None:
    """A line of progress, with the time of day."""
    _console.print(f"[dim]{datetime.now():%H:%M:%S}[/] {text}")


def one_core() -> None:
    """Stay on one core, threads included, where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of one call, and its result."""
    begin = perf_counter()
    result = work()
    return perf_counter() - begin, result


def rounds_over(inputs: Iterable[Any], work: Callable[[Any], Any]) -> list[float]:
    """Seconds of a call with each of several inputs, made beforehand; the first one warms up."""
    return [timed(partial(work, each))[0] for each in list(inputs)][1:]


def rounds(work: Callable[[], Any], count: int) -> list[float]:
    """Seconds of each of several calls, after one that warms up."""
    work()
    return [timed(work)[0] for _ in range(count)]


class Report:
    """Rows of one bench. Each row says what was measured and whether the result was exact."""

    def __init__(self, name: str, seed: int, columns: dict[str, str]) -> None:
        self.name, self.seed, self.columns = name, seed, columns
        self.rows: list[dict[str, Any]] = []

    def add(self, *, exact: bool | None, seconds: dict[str, list[float]] | None = None, **row: Any) -> None:
        """Take a row; ``seconds`` are the raw times behind it. What was not measured is neither exact nor not: None."""
        raw = {name: [round(time, 6) for time in times] for name, times in (seconds or {}).items()}
        self.rows.append({**row, "exact": exact, "seconds": raw})
        if exact is False:
            raise SystemExit(f"bench {self.name}: the results differ: {row}")

    def finish(self) -> None:
        """Print the table and write the raw results."""
        table = Table(title=f"{self.name} (seed {self.seed})")
        for heading in [*self.columns.values(), "exact"]:
            table.add_column(heading, justify="right")
        for row in self.rows:
            table.add_row(*(shown(row.get(key)) for key in self.columns), exactness(row))
        _console.print(table)
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.name}.json"
        facts = orjson.dumps({"bench": self.name, "seed": self.seed, "machine": _machine()})
        rows = b",\n".join(orjson.dumps(row) for row in self.rows)  # a row is a line: some have thousands of times
        path.write_bytes(facts[:-1] + b',"rows":[\n' + rows + b"\n]}\n")
        say(f"raw results in {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name}")


def median(seconds: list[float]) -> float:
    """The median, as everywhere here."""
    return statistics.median(seconds)


def shown(value: Any) -> str:
    """A cell of a table."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{int(value):,}" if isinstance(value, Integral) else str(value)


def exactness(row: dict[str, Any]) -> str:
    """The cell that says whether a row is exact."""
    return {True: "yes", False: "no", None: "–"}[row["exact"]]


def _machine() -> dict[str, Any]:
    cpu = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": sys.version.split()[0],
        "versions": {name: version(name) for name in ("tidegate", "numpy", "numba", "llvmlite", "pyarrow", "pyspark")},
        "load_average": os.getloadavg()[0],
    }
