"""Fuzzes an entry point with several workers, restarts those that die, and gathers what they found."""

from __future__ import annotations

import json
import select
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.entries import ENTRIES
from tests.fuzz.entry_point import ACCEPTED

FINDINGS = Path(__file__).parent / "findings"
#: Inputs of one request, and seconds after which one of them hangs.
CHUNK, HANGS = 500, 60.0


@dataclass
class Report:
    """What came of the inputs of a run."""

    entry: str
    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    slowest: tuple[float, int, str, float] = (0.0, -1, "", 0.0)

    @property
    def count(self) -> int:
        return sum(self.outcomes.values())

    def add(self, answer: dict) -> None:
        self.outcomes.update(answer["outcomes"])
        self.failures += [(number, why) for number, why in answer["failures"]]
        self.slowest = max(self.slowest, tuple(answer["slowest"]))

    def __str__(self) -> str:
        share = self.outcomes[ACCEPTED] / max(1, self.count)
        codes = ", ".join(f"{code} {n:,}" for code, n in self.outcomes.most_common() if code != ACCEPTED)
        ratio, number, what, seconds = self.slowest
        lines = [
            f"{self.entry}, seed {self.seed}: {self.count:,} inputs, {share:.1%} accepted, "
            f"{len(self.failures)} failures",
            f"  refused: {codes or 'none'}",
            f"  slowest: input {number}, {what} {seconds * 1000:.2f} ms ({ratio:.0%} of what it may take)",
        ]
        for number, why in sorted(self.failures)[:20]:
            lines.append(f"  input {number}: {why.strip().splitlines()[-1]}")
        return "\n".join(lines)


class _Worker:
    """One process, and what it is asked."""

    def __init__(self, entry: str, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._at, self._errors = directory / "at", directory / "errors"
        command = [sys.executable, "-m", "tests.fuzz.worker", entry, str(directory)]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def ask(self, request: dict) -> dict | tuple[int, str]:
        """The answer; or the number of the input that killed the process or hangs, and what happened."""
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return self._ended()
        asked = time.monotonic()
        while not select.select([self._process.stdout], [], [], 1.0)[0]:
            number, since = self._where()
            if time.monotonic() - max(since, asked) > HANGS:
                self.close()
                return number, f"hangs: no answer within {HANGS:.0f} s"
        line = self._process.stdout.readline()
        return json.loads(line) if line else self._ended()

    def _where(self) -> tuple[int, float]:
        known = self._at.read_bytes() if self._at.exists() else b""
        return struct.unpack("=qd", known) if len(known) == 16 else (-1, 0.0)

    def _ended(self) -> tuple[int, str]:
        code = self._process.wait()
        last = self._errors.read_text(errors="replace").strip().splitlines()[-3:]
        return self._where()[0], f"the process ended with {code}: {' / '.join(last)}"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                pipe.close()


def fuzz(
    entry: str, count: int, seed: int, workers: int = 2, told: Callable[[Report], None] = lambda report: None
) -> Report:
    """Check ``count`` inputs. ``told`` is called after every chunk."""
    report, lock = Report(entry, seed), threading.Lock()
    chunks = iter(range(0, count, CHUNK))

    def work(directory: Path) -> None:
        worker = _Worker(entry, directory)
        while True:
            with lock:
                first = next(chunks, None)
            if first is None:
                break
            request = {"first": first, "count": min(CHUNK, count - first), "seed": seed, "skip": []}
            while isinstance(answer := worker.ask(request), tuple):
                number, why = answer
                worker.close()
                if number < first:
                    raise RuntimeError(f"{entry} does not begin: {why}")
                with lock:
                    report.add({"outcomes": {"death": 1}, "failures": [(number, why)], "slowest": report.slowest})
                request["skip"].append(number)
                worker = _Worker(entry, directory)
            with lock:
                report.add(answer)
                told(report)
        worker.close()

    with TemporaryDirectory(prefix="fuzz-") as directory:
        failed: list[BaseException] = []

        def guarded(i: int) -> None:
            try:
                work(Path(directory) / str(i))
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=guarded, args=(i,)) for i in range(max(1, min(workers, -(-count // CHUNK))))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
    return report


def keep_failures(report: Report, most: int = 20) -> list[Path]:
    """Write the inputs that failed to ``findings``, and return their paths."""
    entry = ENTRIES[report.entry]()
    kept = []
    for number, _ in sorted(report.failures)[:most]:
        data = entry.input(report.seed, number)
        path = FINDINGS / report.entry / f"{sha256(data).hexdigest()[:12]}{entry.suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        kept.append(path)
    return kept
