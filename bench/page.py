"""``python -m bench.page``: the page of figures, written from the raw results and from nothing else."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import orjson

from bench import MODULES
from bench.harness import RESULTS, shown

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "BENCHMARKS.md"

_INTRODUCTION = """# Benchmarks

Written by `python -m bench.page` from the raw results in `bench/results`, which `tidegate bench NAME` makes. Every row
was compared with the linear scan (and with rule-engine where it ran): *exact* says that the results were the same.
Figures are medians of several rounds on one core (*pipeline*: on two), all rivals in the same run; the machine is
shared and noisy, so trust ratios.

- *index*: publications in a checked Arrow table to the numbers of the matching subscriptions.
- *engine*: checking the table, matching, and an Arrow table of subscription ids: `engine.publish(table, grouped=True)`.
- *one alone*: a table of a single publication through the engine; most of it is reading Arrow columns.
- *scan*: an early-exit linear scan in numba over the bare bounds, into memory that is already there. It checks nothing
  and makes no ids, so *scan ÷ index* compares it with the index; the engine does more. Where most subscriptions match,
  making the strings of ids is most of the engine's work, and the bare scan is several times faster than the engine.
- *load*: `tg.Engine(subscriptions)` from CQL2-JSON; *fold*: building the index anew from its clauses; *open*:
  `tg.Engine.load` of a snapshot.
- *add*, *remove*: per subscription, a publication after every hundred and all folds included.
- *bytes/sub*: all arrays of the index, divided by the subscriptions.

In *pipeline*, publications go from the log through Spark to grouped Parquet, `local[2]`:

- *publications/s*: the median batch, from the end of one to the end of the next, Spark's planning and checkpoints
  included. The first batch of a run, which maps snapshots and starts workers, is left out.
- *bare kernel*: the same publications and the same snapshot through the index alone, half in each of two processes.
- *broadcast join*: the publications joined with a broadcast table of subscriptions on `BETWEEN` for all attributes.
  *filter columns*: one Boolean column per subscription; timed once, compilation included, without which it cannot run.
- *plumbing*: one subscription that never matches.
- *append → callback*: from the call of `append` (fsync included) to the Python callback, 1,000 publications/s, after
  200 batches, when Java has compiled what it will.
- *where the time goes*: the median batch in milliseconds. *planning* is Spark's, *checkpoint* its two logs; *JVM ↔
  Python and tasks* is the job less the task's own time, *reading* is the task less kernel and writing and so also its
  wait for the reference to come from the source's Python worker.
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
        "| " + " | ".join([*columns.values(), "exact"]) + " |",
        "|" + "---:|" * (len(columns) + 1),
    ]
    for row in facts["rows"]:
        cells = [shown(row.get(key)) for key in columns]
        lines.append("| " + " | ".join([*cells, "yes" if row["exact"] else "no"]) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
