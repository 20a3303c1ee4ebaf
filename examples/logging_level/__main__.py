"""Runs the case study: ``python -m examples.logging_level [LOG]``."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np

import tidegate as tg
from examples.logging_level import generated
from examples.logging_level.client import ERROR, INFO, LEVELS, SOON, STRICT, Change, Client
from examples.logging_level.lines import publications

#: The real file, beside the project and no part of it.
DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "logs" / "OpenSSH_2k.log"
NAMES = {level: name for name, level in LEVELS.items()}


def main() -> None:
    """Read the log, run the clients, print what they saw."""
    parser = argparse.ArgumentParser(prog="python -m examples.logging_level", description=__doc__)
    parser.add_argument("log", nargs="?", type=Path, help="an OpenSSH log; the real one or a generated one by default")
    parser.add_argument("--quiet", default="PT1M", help="the silence after which the level is raised again")
    parser.add_argument("--changes", type=int, default=12, help="how many changes of the level are listed")
    given = parser.parse_args()
    path = given.log or (DATA if DATA.exists() else None)
    text = path.read_text("utf-8").splitlines() if path else list(generated.log(np.random.default_rng(7)))
    lines = list(publications(text))
    print(
        f"{len(lines):,} lines of {path.name if path else 'a generated log'}, {lines[0].time:%d %b %H:%M:%S} to "
        f"{lines[-1].time:%H:%M:%S}, {sum(p.attributes['category'] == 'login_failed' for p in lines):,} failed logins"
    )

    client = ran(Client(SOON, given.quiet), lines)
    print("\nwhere the level changed")
    for change in client.changes[: given.changes]:
        print(told(change))
    if len(client.changes) > given.changes:
        print(f"… {len(client.changes) - given.changes} more")

    print(f"\n{'lines shown':<32}{'at ERROR':>10}{'at INFO':>10}{'in all':>10}{'changes':>10}{'alarms':>10}")
    clients = {
        "raised after a silence": client,
        "never raised, as in the paper": ran(Client(SOON, None), lines),
        "raised, by strict seconds": ran(Client(STRICT, given.quiet), lines),
    }
    for name, one in clients.items():
        shown = Counter(level for _, level in one.shown)
        numbers = shown[ERROR], shown[INFO], len(one.shown), len(one.changes), len(one.alarms)
        print(f"{name:<32}" + "".join(f"{number:>10,}" for number in numbers))
    fixed = tg.Engine([tg.Subscription(name, "eugene", f"level >= {level}") for name, level in LEVELS.items()])
    count = Counter(n.subscription for n in fixed.publish(lines))
    for name in LEVELS:
        print(f"{'always ' + name:<52}{count[name]:>10,}")


def ran(client: Client, lines: list[tg.Publication]) -> Client:
    """The client, after it has taken all lines."""
    for line in lines:
        client.take(line)
    return client


def told(change: Change) -> str:
    """A change as a line of text."""
    where = f"line {change.line}" if change.line else "between lines"
    return f"{change.time:%H:%M:%S}  {where:<14}  to {NAMES[change.level]:<6}  {change.why}"


if __name__ == "__main__":
    main()
