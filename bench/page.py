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
was compared with its rivals, as said below: *exact* says that the results were the same. Figures are medians of several
rounds, on one core for the *boolean* benches and *cupus* and on two for the others, all rivals in the same run; the
machine is shared and noisy, so trust ratios.

In *boolean-intervals*, *boolean-equality* and *cupus* the rivals are a linear scan and, where it ran, rule-engine:

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

In *topk*, k is 10, publications are uniform in the unit square at steady times, and each subscription has a centre (or
two weights) of its own; the window is filled twice before the rounds:

- *publications/s*: `engine.publish(table, grouped=True)`, a thread per core; *flat* with all notifications as rows.
- *compiled*: the obvious implementation in numba on one core, for at most 1,000 of the subscriptions, which is scaled
  up linearly: one window for all, the k best of each kept aside, the window looked through when one of them expires.
- *Python*: the same with a deque per subscription, as one would write it by hand, for 10 of them and scaled up.
- All that the engine told over the whole run, by the clock at its end too, is compared with the compiled one for these
  1,000 (all of 100 and 1,000 subscriptions), and with Python for 10.

In *together*, readings are SensorScope's (EPFL, Grand-St-Bernard 2007; not part of the project), in places of our own:

- Ranges are median ± u·X with P(X > x) = 1/x for x ≥ 1, and u 1 °C, 1 °C, 2 %, 0.06 m/s and 15°. The paper gives no
  unit; u is about a tenth of the interquartile range. Half of the subscriptions name sources, half are abstract.
- *readings*: those that the medians are of. The rounds are early ones of them, which the median of all suits less: it
  is the notifications per publication that decide how fast it is.
- *Python*: a deque per filter and subscription, as written by hand, for at most 10,000 of them and scaled up.
- Compared are the notifications, with all their publications, of 200 subscriptions in the flat rounds.

In *shapes-in-streams*, 100 sources publish in turn, readings and shapes are random walks (or white noise, where one
shape of five is a stretch of the readings, else nothing is told), and windows are filled before the rounds:

- *readings/s*: `engine.publish(table, grouped=True)`; *ε ÷ √n*: the tolerance, where √2 is the distance of shapes that
  have nothing in common.
- *numpy*: a deque per source, the normal form once per reading, one call for the distances of all subscriptions.
- *one by one*: normal form and distance for each subscription, for 10 of them and scaled up.
- *state bytes/source*: the most after a round, less that of the first reading, publications not yet let go of included.
- Compared are the notifications of 50 subscriptions, with publication and distance (to 1e-9), which a twin from a
  snapshot tells flat.

In *patterns-on-spark*, the same publications and subscriptions go from the log through Spark to grouped Parquet. *in
process* is one engine with as many threads as cores. All notifications are compared by their number and a sum over
subscription, publication and time. *combine* is the slowest shard's step, *writing what it tells* its Parquet.

In *history*, an engine with 1,000 `past` subscriptions over 100 inner filters remembers events in SQLite; what
`publish` returns is told after what it remembered is durable (write-ahead log, `synchronous = FULL`):

- *one source*: subscriptions also ask for a source, so that a publication is looked at by about ten of them; *all
  publications*: they do not, and a publication is looked at by all.
- *select*, *past*, *making rows*, *durable write*: where the time of a call goes. *rest* is notifications, above all.
- *numpy in memory*: the same conditions by hand, one call of numpy per condition and publication, nothing durable, for
  some publications. Compared are the notifications of some subscriptions.

In *ontology*, *plain IN* has the same sets written out. Classes, things and regions are generated. *asking while
matching* is one SPARQL ASK per pair on the closed graph (pyoxigraph), for some pairs and scaled up.

In *timeseries*, the experiments of Manassiev and Jacobsen 2004 are repeated, with FAISS beside their structures and on
real data. The table here has whole matches only; [its own page](../bench/papers/timeseries/README.md) has the figures,
what agrees with the paper and what does not, and the goals.

- *cascade*, *scan*, *interval*, *rstar*, *FAISS*: from a publication in normal form to its exact matches, two cores.
- *rtree's own candidates*: the search of the R*-tree's library, on one core, which ends with boxes; *rstar* walks the
  same tree in compiled code of ours and verifies what it finds.
- *engine*: subscriptions from CQL2-JSON, publications from an Arrow table to grouped notifications.
- The rows without times are figures and classifications, which that page has.

In *temporal-kbn*, the evaluation of Stevens 2009 is repeated on three databases, with the scanning method of the thesis
beside ours. [Its own page](../bench/papers/temporal_kbn/README.md) has the tables and figures, the goals, and
what was not reached.
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
