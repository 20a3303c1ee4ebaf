"""``python -m bench.page``: the page of figures, written from the raw results and from nothing else."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import orjson

from bench import MODULES
from bench.explained import EXPLAINED
from bench.harness import RESULTS, exactness, shown

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "BENCHMARKS.md"

_INTRODUCTION = """# Benchmarks

How fast Tidegate is, how much memory it needs, and how it compares with simpler ways to do the same. `python -m bench
NAME` measures and writes raw results to `bench/results`; `python -m bench.page` writes this page from them.

- Figures are medians of several rounds. All rivals of a table ran in the same run, on one core for *boolean-intervals*,
  *boolean-equality* and *cupus*, and on two for the others. The machine is shared and noisy: trust ratios more than
  times.
- *exact*: the results were compared with those of a rival and were the same. Each section says how much was compared.
- *scaled up*: a slow rival ran for a part of the subscriptions, and its time was multiplied.
- µs/pub is microseconds per publication; – is not measured.
"""


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for name, module in MODULES.items():
        path = RESULTS / f"{name}.json"
        if path.exists():
            parts.append(_section(name, import_module(module), orjson.loads(path.read_bytes())))
    return "\n".join(parts)


def _section(name: str, module: Any, facts: dict[str, Any]) -> str:
    columns = module.COLUMNS
    machine = facts["machine"]
    versions = ", ".join(f"{package} {number}" for package, number in machine["versions"].items())
    lines = [
        f"## {name}",
        "",
        (module.__doc__ or "").strip().splitlines()[0] + f" Seed {facts['seed']}, {machine['time'][:10]}.",
        f"{machine['cpu']}, {machine['system']}, Python {machine['python']}, {versions}.",
        "",
        EXPLAINED[name],
        "| " + " | ".join([*columns.values(), "exact"]) + " |",
        "|" + "---:|" * (len(columns) + 1),
    ]
    for row in facts["rows"]:
        cells = [shown(row.get(key)) for key in columns]
        lines.append("| " + " | ".join([*cells, exactness(row)]) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
