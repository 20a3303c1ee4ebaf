"""The process that checks inputs. It reads a request per line, answers with a line, and notes which input it is at.

If it dies, the number in the file ``at`` says of which input. ``run.py`` starts it.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import sys
import time
import traceback
from collections import Counter
from importlib import import_module
from pathlib import Path

from tests.fuzz.entry_point import Clock, EntryPoint
from tidegate.errors import TidegateError

_MEMORY = 16 << 30


def examine(entry: EntryPoint, data: bytes, scratch: Path) -> tuple[str, Clock, str]:
    """What came of an input: ``accepted``, the code of an error or ``failure``; its times; what failed."""
    clock = Clock()
    try:
        outcome = entry.check(data, clock, scratch)
    except TidegateError as error:
        str(error)  # a message that cannot be written is a finding, too
        outcome = error.code
    except Exception:
        return "failure", clock, traceback.format_exc(limit=-6)
    slow = clock.slowest
    if slow.spent > slow.most:
        return "slow", clock, f"{slow.what} took {slow.spent:.3f} s of processor time, at most {slow.most} s"
    return outcome, clock, ""


def examine_fairly(entry: EntryPoint, data: bytes, scratch: Path) -> tuple[str, Clock, str]:
    """The same, where an input is slow only if it is so three times."""
    for _ in range(3):
        found = examine(entry, data, scratch)
        if found[0] != "slow":
            break
    return found


def _chunk(entry: EntryPoint, request: dict, scratch: Path, note) -> dict:
    outcomes: Counter[str] = Counter()
    failures = []
    slowest = (0.0, -1, "", 0.0)
    for number in range(request["first"], request["first"] + request["count"]):
        if number in request["skip"]:
            continue
        note(number)
        data = entry.input(request["seed"], number)
        outcome, clock, why = examine_fairly(entry, data, scratch)
        outcomes[outcome] += 1
        if why:
            failures.append((number, why))
        slow = clock.slowest
        slowest = max(slowest, (slow.spent / slow.most, number, slow.what, slow.spent))
    return {"outcomes": outcomes, "failures": failures, "slowest": slowest}


def _entry(name: str) -> EntryPoint:
    """An entry point of the harness, or the class ``module:name`` of the environment with which tests try it out."""
    module, _, extra = os.environ.get("TIDEGATE_FUZZ_EXTRA", "").partition(":")
    if extra:
        return getattr(import_module(module), extra)()
    from tests.fuzz.entries import ENTRIES

    return ENTRIES[name]()


def main(name: str, directory: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the product prints is no answer
    entry = _entry(name)
    scratch = Path(directory) / "scratch"
    scratch.mkdir(exist_ok=True)
    at = os.open(f"{directory}/at", os.O_RDWR | os.O_CREAT)

    def note(number: int) -> None:
        os.pwrite(at, struct.pack("=qd", number, time.monotonic()), 0)

    for data in entry.seeds()[:20] * 2:  # compiles, loads and caches what the first inputs would wait for
        note(-1)
        examine(entry, data, scratch)
    for line in sys.stdin:
        answer = _chunk(entry, json.loads(line), scratch, note)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
