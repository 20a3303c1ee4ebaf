"""What the tests share that kill runs: publications, subscriptions, and ``tidegate run`` in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import datetime

import numpy as np
import psutil
import pyarrow as pa

import tidegate as tg
from tests.parts.tied_process import tied

__all__ = ["Run", "drawn", "events", "pattern", "readings"]

TIME = np.datetime64(datetime(2026, 11, 15).isoformat(), "us")
ATTRIBUTES = ("a", "b", "c")


def readings(rng, first, count):
    return pa.table(
        {
            "id": pa.array(np.char.add("p", np.arange(first, first + count).astype(str))),
            "source": pa.array(["z"] * count),
            "time": pa.array(TIME + np.arange(first, first + count).astype("m8[s]"), pa.timestamp("us", "UTC")),
            **{name: pa.array(rng.uniform(0, 100, count)) for name in ATTRIBUTES},
        }
    )


def events(rng, first, count):
    """The same as events: whole ones, and every fifth a START or the END of the one five before."""
    table, numbers = readings(rng, first, count), np.arange(first, first + count)
    phase = np.where(numbers % 5 != 0, None, np.where(numbers % 10 == 0, "START", "END"))
    names = np.where(phase == "END", numbers - 5, numbers).astype(str)
    return table.set_column(0, "id", pa.array(np.char.add("p", names))).append_column(
        "phase", pa.array(phase.tolist(), pa.string())
    )


def drawn(rng, id):
    low, high = np.sort(rng.uniform(0, 100, 2))
    a, b = rng.choice(ATTRIBUTES, 2, replace=False)
    where = f"{a} BETWEEN {low:.3f} AND {min(high, low + 2):.3f} AND {b} < {rng.uniform(2, 10):.3f}"
    return tg.Subscription(id, f"user-{id}", where)


def pattern(rng, id):
    """A subscription with a pattern: one of each kind that has state."""
    a, b, c = rng.permutation(ATTRIBUTES)
    low = rng.uniform(0, 98)
    where = (
        f"{a} < 10 AND topk(3, 'PT{int(rng.integers(600, 7200))}S', {b} - {rng.uniform(0, 1):.3f} * {c})",
        f"{a} < 10 AND topk(2, {int(rng.integers(50, 500))}, distance(({b}, {c}), ({low:.3f}, {low:.3f})))",
        f"together('PT2M', {a} BETWEEN {low:.3f} AND {low + 2:.3f}, {b} > 98, {c} < 2)",
        f"absent('PT{int(rng.integers(300, 900))}S', {a} BETWEEN {low:.3f} AND {low + 0.5:.3f}, source)",
        f"{a} < 10 AND shape({b}, (0, 1, 0, {rng.uniform(1, 3):.3f}, 0), 'stream') <= 1.2",
        f"{a} > 97 AND T_DURING(time, past({b} BETWEEN {low:.3f} AND {low + 2:.3f} AND phase = 'START'))",
        f"{a} > 97 AND {b} > past({b}, {c} > 98 AND T_AFTER(event, past({a} < 2, 'PT1M')), 20)",
    )[int(id.lstrip("pq")) % 7]
    return tg.Subscription(id, f"user-{id}", where)


class Run:
    """``tidegate run`` in a process of its own, which ends with this one."""

    def __init__(self, config, *options):
        command = [sys.executable, "-m", "tidegate", "run", str(config), *options]
        with config.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(tied(command), stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    @property
    def is_over(self):
        return self.process.poll() is not None

    def family(self):
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def workers(self):
        """Python workers at work: forks of the daemon, which is the only one of them that Java started."""
        found = []
        for process in self.family():
            try:
                parent = process.parent()
                if parent and "tidegate.pipeline.worker_daemon" in process.cmdline() and "java" not in parent.name():
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
        return found

    def kill(self, patience=20):
        """The driver and, as it would go with a machine, its Java; by id, all of them."""
        family = self.family()
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        _, alive = psutil.wait_procs(family, timeout=patience)
        for process in alive:
            process.kill()
        psutil.wait_procs(alive, timeout=20)
