"""What the package ``reasonable`` derives from a file of triples, computed here or in a process of its own.

``reasonable`` is compiled code that cannot be stopped, and some ontologies make it derive without end. So
``closure.py`` runs this file as a program where that could happen: the program bounds its own processor time and memory
before it begins, and the operating system ends it. It imports nothing of Tidegate, to start within milliseconds.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

__all__ = ["MEMORY", "TOO_MANY", "derived"]

#: Bytes of memory that the process may take.
MEMORY = 8 << 30
#: The exit code where more triples were derived than may be.
TOO_MANY = 3


def derived(stated: Path) -> list[tuple[str, str, str]]:
    """The triples of a file of N3 and all that follow from them."""
    from reasonable import PyReasoner

    reasoner = PyReasoner()
    reasoner.load_file(str(stated))
    once: dict[str, str] = {}

    def text(term: object) -> str:
        """Each term is kept once, not once per triple."""
        found = str(term)
        return once.setdefault(found, found)

    return [(text(s), text(p), text(o)) for s, p, o in reasoner.reason()]


def main(stated: str, result: str, most: str, seconds: str) -> int:
    """Write the triples to a file, a line for each with a space between the terms, within seconds of processor time."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found = derived(Path(stated))
    if len(found) > int(most):
        return TOO_MANY
    with Path(result).open("w", encoding="utf-8") as file:
        file.writelines(f"{s} {p} {o}\n" for s, p, o in found)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
