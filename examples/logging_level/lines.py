"""Lines of an OpenSSH log as publications. Syslog writes no level and no year: the level is read off what a line says.

Knows nothing of who listens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import tidegate as tg

__all__ = ["RULES", "YEAR", "publications"]

#: The log does not say; any year will do.
YEAR = 2026

#: Begin of a line, level and category; the first that fits counts.
RULES = (
    (r"error: |fatal: ", 5, "error"),
    (r"(message repeated \d+ times: \[ )?Failed (password|none) ", 4, "login_failed"),
    (r"reverse mapping .* POSSIBLE BREAK-IN", 4, "break_in"),
    (r"Disconnecting: Too many|PAM \d+ more|PAM service", 4, "too_many"),
    (r"Invalid user |Accepted |Connection closed|Did not receive|Received disconnect", 3, "connection"),
    (r"pam_unix\(sshd:session\)", 3, "session"),
    (r"", 2, "detail"),
)
_LINE = re.compile(r"(\w{3} +\d+ \d\d:\d\d:\d\d) (\S+) sshd\[(\d+)\]: (.*)")


def publications(lines: Iterable[str], year: int = YEAR) -> Iterator[tg.Publication]:
    """A publication per line, in the order of the file."""
    for number, line in enumerate(lines, 1):
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"line {number} is no line of sshd: {line[:60]!r}")
        stamp, host, pid, text = found.groups()
        time = datetime.strptime(f"{year} {stamp}", "%Y %b %d %H:%M:%S").replace(tzinfo=UTC)
        level, category = next((level, name) for rule, level, name in RULES if re.match(rule, text))
        attributes = {"pid": int(pid), "level": level, "category": category, "text": text}
        yield tg.Publication(f"line-{number:06d}", host, time, attributes)
