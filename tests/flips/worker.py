"""A process that flips bits: ``python -m tests.flips.worker KIND FIRST END FILE``.

Flip number i is the same in every process. FILE has the number of the flip that is being tried, for the case that it
ends the process; what came of all of them is printed as JSON at the end.
"""

from __future__ import annotations

import os
import random
import resource
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from tests.flips.kinds import KINDS
from tidegate.errors import TidegateError

#: A flip must not make a reader ask for all memory there is.
_MEMORY = 8 << 30
#: Hundreds of files are opened for each flip: on a disk that would take most of the time.
_MEMORY_DISK = "/dev/shm"


def main(kind: str, first: int, end: int, file: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    found, wrong = Counter[str](), []
    with TemporaryDirectory(dir=_MEMORY_DISK if os.path.isdir(_MEMORY_DISK) else None) as parent:
        directory = Path(parent) / kind
        os.environ["TIDEGATE_CACHE"] = f"{parent}/cache"
        KINDS[kind].write(directory)
        whole = {path: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}
        expected = KINDS[kind].answers(directory)
        now = os.open(file, os.O_WRONLY)
        for number in range(first, end):
            os.pwrite(now, number.to_bytes(8, "little"), 0)
            outcome = _tried(kind, directory, whole, number, expected)
            found[outcome.split(":")[0]] += 1
            if outcome.split(":")[0] not in ("refused", "same"):
                wrong.append(f"{number} {outcome}")
    sys.stdout.buffer.write(orjson.dumps({"found": found, "wrong": wrong[:20]}))


def _tried(kind: str, directory: Path, whole: dict[Path, bytes], number: int, expected: object) -> str:
    draw = random.Random(number)
    path = draw.choice([path for path, content in whole.items() if content])
    at, bit = draw.randrange(len(whole[path])), draw.randrange(8)
    content = bytearray(whole[path])
    content[at] ^= 1 << bit
    path.write_bytes(content)
    try:
        found = KINDS[kind].answers(directory)
        return "same" if found == expected else f"wrong: byte {at}, bit {bit} of {path.name}"
    except TidegateError:
        return "refused"
    except Exception as error:
        return f"other: {type(error).__name__} {error}; byte {at}, bit {bit} of {path.name}"
    finally:
        for known in whole if KINDS[kind].mends else [path]:
            if not known.exists() or known.read_bytes() != whole[known]:
                known.write_bytes(whole[known])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
