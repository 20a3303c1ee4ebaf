"""The client: it sees errors only, until three logins fail within seconds of each other; then it sees more for a while.

The level is a subscription. To change it the client unsubscribes from one and subscribes to another, in the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import tidegate as tg

__all__ = ["ERROR", "INFO", "LEVELS", "SOON", "STRICT", "Change", "Client", "three_failures"]

LEVELS = {"ERROR": 5, "WARNING": 4, "INFO": 3, "DEBUG": 2, "TRACE": 1}
ERROR, INFO = LEVELS["ERROR"], LEVELS["INFO"]
FAILED = "level = 4 AND category = 'login_failed'"


def three_failures(limits: str) -> str:
    """A failed login after a failed login after a failed login, as Stevens nests them; ``limits`` says how soon."""
    second = f"{FAILED} AND T_AFTER(end, past({FAILED}, {limits}))"
    return f"{FAILED} AND T_AFTER(end, past({second}, {limits}))"


#: Stevens's: each strictly later than the one before, so failures within one second of the log's clock do not count.
STRICT = three_failures("'PT2S'")
#: The log's clock has whole seconds, so a time may be 1 s off: with this tolerance those of one second count, too.
#: The tolerance widens the limit as well; together they are the two seconds.
SOON = three_failures("'PT1S', 'PT1S'")


@dataclass(frozen=True)
class Change:
    """The level became another one at a moment, with the line that brought it about (None: a silence)."""

    time: datetime
    line: int | None
    level: int
    why: str


class Client:
    """Eugene's client."""

    def __init__(self, alarm: str = SOON, quiet: str | None = "PT1M") -> None:
        self.engine = tg.Engine([tg.Subscription("alarm", "eugene", alarm)])
        self.quiet = quiet
        self.level = self.line = 0
        self.shown: list[tuple[int, int]] = []  # lines, and the level at which they were shown
        self.changes: list[Change] = []
        self.alarms: list[int] = []
        self._set(ERROR)

    def take(self, line: tg.Publication) -> None:
        """One line of the log, as it comes."""
        if self.quiet and self.level < ERROR:
            for silence in self.engine.advance(line.time):  # what ended before the line
                self._change(silence.time, None, ERROR, f"no failed login for {self.quiet}")
        self.line += 1
        told = {n.subscription for n in self.engine.publish([line])}
        if "shown" in told:
            self.shown.append((self.line, self.level))
        if "alarm" in told:
            self.alarms.append(self.line)
            if self.level > INFO:
                self._change(line.time, self.line, INFO, "three failed logins")

    def _change(self, time: datetime, line: int | None, level: int, why: str) -> None:
        self.changes.append(Change(time, line, level, why))
        self._set(level)

    def _set(self, level: int) -> None:
        """Really change the subscription; and, while the level is low, wait for the end of the attempts."""
        if self.level:
            self.engine.unsubscribe("shown")
        self.engine.subscribe(tg.Subscription("shown", "eugene", f"level >= {level}"))
        if self.quiet and level < ERROR:
            self.engine.subscribe(tg.Subscription("quiet", "eugene", f"absent('{self.quiet}', {FAILED})"))
        elif "quiet" in {s.id for s in self.engine}:
            self.engine.unsubscribe("quiet")
        self.level = level
