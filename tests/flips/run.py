"""Flips of all kinds, in processes whose deaths are counted: ``python -m tests.flips.run COUNT [PROCESSES]``."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from tempfile import NamedTemporaryFile

import orjson

from tests.flips.kinds import KINDS

__all__ = ["flipped"]


def flipped(kind: str, first: int, end: int) -> tuple[Counter[str], list[str]]:
    """What came of these flips: how many were refused, had no effect, or else; and what those were."""
    found, wrong = Counter[str](), list[str]()
    with NamedTemporaryFile() as file:
        while first < end:
            command = [sys.executable, "-m", "tests.flips.worker", kind, str(first), str(end), file.name]
            process = subprocess.run(command, capture_output=True, check=False)
            if process.returncode == 0:
                told = orjson.loads(process.stdout)
                return found + Counter(told["found"]), wrong + told["wrong"]
            with open(file.name, "rb") as last:  # what came of those before is lost with the process
                number = int.from_bytes(last.read(8), "little")
            said = process.stderr.decode()[-500:]
            found += Counter({"died": 1, "lost": number - first})
            wrong.append(f"{number} ended the process with {process.returncode}: {said}")
            first = number + 1
    return found, wrong


def main(count: int, processes: int) -> None:
    with ThreadPoolExecutor(processes) as pool:
        for kind in KINDS:
            cuts = [count * i // processes for i in range(processes + 1)]
            total, wrong = Counter[str](), list[str]()
            for found, told in pool.map(flipped, [kind] * processes, cuts[:-1], cuts[1:]):
                total, wrong = total + found, wrong + told
            print(kind, dict(total), *wrong, sep="\n  ", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2)
