"""The command: ``python -m tests.fuzz ENTRY --count N --seed S``; ``python -m tests.fuzz`` lists the entry points."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.entries import ENTRIES
from tests.fuzz.run import Report, fuzz, keep_failures
from tests.fuzz.worker import examine_fairly


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("entry", nargs="?", choices=[*ENTRIES, "all"], help="the entry point")
    parser.add_argument("--count", type=int, default=20_000, help="how many inputs to draw (20,000)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other inputs (1)")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    parser.add_argument("--input", type=int, help="show one input and what comes of it, in this process")
    given = parser.parse_args()
    if given.entry is None:
        print("\n".join(ENTRIES))
        return 0
    if given.input is not None:
        return _show(given.entry, given.seed, given.input)
    names = list(ENTRIES) if given.entry == "all" else [given.entry]
    return max([_fuzz(name, given.count, given.seed, given.workers) for name in names])


def _fuzz(name: str, count: int, seed: int, workers: int) -> int:
    begun = shown = time.monotonic()

    def told(report: Report) -> None:
        nonlocal shown
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            rate = report.count / (shown - begun)
            print(f"{name}: {report.count:,} inputs, {rate:,.0f} per second", file=sys.stderr, flush=True)

    report = fuzz(name, count, seed, workers, told)
    print(f"{report}\n  took {time.monotonic() - begun:.0f} s", flush=True)
    for path in keep_failures(report):
        print(f"  kept {path}")
    return 1 if report.failures else 0


def _show(name: str, seed: int, number: int) -> int:
    entry = ENTRIES[name]()
    data = entry.input(seed, number)
    sys.stdout.buffer.write(data + b"\n")
    with TemporaryDirectory() as scratch:
        outcome, clock, why = examine_fairly(entry, data, Path(scratch))
    print(f"{outcome}; {clock.slowest}\n{why}")
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())
