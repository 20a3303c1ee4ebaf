"""``RehearsalReport``: shows the outcome of ``tidegate rehearse``, for people and as JSON for programs.

For people it has totals, a chart by day or hour and the first few notifications. Charts have block characters, or plain
ones where the terminal cannot show those. Knows nothing of Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

import orjson
from rich.console import Console
from rich.text import Text

from tidegate.model import Subscription

if TYPE_CHECKING:
    from tidegate.cli.input_files import InputFiles
    from tidegate.pipeline.rehearsal import Extent, Outcome

__all__ = ["RehearsalReport"]

DAY = timedelta(days=1)
#: Lines of the chart; a longer time is drawn with one column per day or hour.
_LINES = 62
#: Subscriptions that are listed, those with most notifications first.
_LISTED = 20
_WIDTH = 40
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = " ▁▂▃▄▅▆▇█"
_PLAIN_HEIGHTS = " 12345678"


@dataclass(frozen=True)
class RehearsalReport:
    """The outcome of a rehearsal."""

    subscriptions: Sequence[Subscription]
    files: InputFiles
    extent: Extent
    outcome: Outcome
    every: timedelta
    seconds: float

    @property
    def totals(self) -> Counter[str]:
        """How many notifications each subscription has, also those that have none."""
        found = Counter({subscription.id: 0 for subscription in self.subscriptions})
        for (id, _), count in self.outcome.counts.items():
            found[id] += count
        return found

    @property
    def publications(self) -> int:
        """Rows that were publications."""
        return self.extent.rows - self.outcome.left_out

    def timeline(self) -> list[tuple[datetime, int]]:
        """Notifications of all subscriptions by day or hour, from the history's first to its last, gaps included."""
        together: Counter[datetime] = Counter()
        for (_, begin), count in self.outcome.counts.items():
            together[begin.astimezone(UTC)] += count
        if self.extent.first is None or self.extent.last is None:
            return []
        first, last = self._begin(self.extent.first), self._begin(self.extent.last)
        first, last = min([first, *together]), max([last, *together])
        times = (first + i * self.every for i in range((last - first) // self.every + 1))
        return [(time, together[time]) for time in times]

    def _begin(self, when: datetime) -> datetime:
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        return epoch + (when.astimezone(UTC) - epoch) // self.every * self.every

    # --- for programs -----------------------------------------------------------------------------------------------

    def record(self) -> str:
        """One JSON object."""
        name = "day" if self.every == DAY else "hour"
        listed = [
            {name: self._label(begin), "subscription": id, "notifications": count}
            for (id, begin), count in sorted(self.outcome.counts.items(), key=lambda entry: (entry[0][1], entry[0][0]))
        ]
        found: dict[str, Any] = {
            "publications": self.publications,
            "left_out": self.outcome.left_out,
            "first": self.extent.first,
            "last": self.extent.last,
            "notifications": sum(self.totals.values()),
            "subscriptions": dict(self.totals),
            "counts": listed,
            "firsts": self.outcome.firsts,
            "seconds": round(self.seconds, 2),
        }
        return orjson.dumps(found, option=orjson.OPT_UTC_Z).decode()

    # --- for people -------------------------------------------------------------------------------------------------

    def report(self, console: Console) -> None:
        """Print totals, the chart and the first few notifications."""
        total = sum(self.totals.values())
        if not self.extent.rows:
            console.print("no publications there, so nothing would have been sent")
            return
        assert self.extent.first is not None
        assert self.extent.last is not None
        span = f"{_stamp(self.extent.first)} to {_stamp(self.extent.last)} UTC"
        console.print(f"{_many(self.publications, 'publication')}, {span}, read and matched in {self.seconds:.1f} s")
        if self.outcome.left_out:
            rows = f"{_many(self.outcome.left_out, 'row')} left out as no publication, the first because:"
            console.print(Text(f"{rows} {self.outcome.reason}", "yellow"))
        console.print()
        timeline = self.timeline()
        unit = "day" if self.every == DAY else "hour"
        for line in self._listed(len(timeline), unit):
            console.print(line)
        console.print()
        if not total:
            console.print("nothing would have been sent")
            return
        blocks = _can_show(console)
        is_short = len(timeline) <= _LINES
        for line in _bars(timeline, self._label, blocks) if is_short else self._columns(timeline, blocks):
            console.print(line)
        console.print()
        console.print(Text("the first of them", "bold"))
        for row in self.outcome.firsts:
            ids = ", ".join(row["publication_ids"])
            told = f"{row['time'][:19].replace('T', ' ')}  {row['subscription_id']}  {row['subscriber']}  {ids}"
            console.print(Text(told))

    def _listed(self, times: int, unit: str) -> Iterator[Text]:
        """The subscriptions, those with most notifications first."""
        totals = self.totals
        busiest: dict[str, tuple[int, datetime]] = {}
        for (id, begin), count in self.outcome.counts.items():
            most, earliest = busiest.get(id, (0, begin))
            if count > most or (count == most and begin < earliest):
                busiest[id] = count, begin
        ordered = sorted(self.subscriptions, key=lambda s: -totals[s.id])
        shown = ordered[:_LISTED]
        width = max(len("subscription"), *(len(s.id) for s in shown))
        yield Text(f"{'subscription':<{width}}  {'notifications':>13}  {'per ' + unit:>9}  busiest", "bold")
        for s in shown:
            told = f"{busiest[s.id][0]:,} on {self._label(busiest[s.id][1])}" if s.id in busiest else "-"
            line = f"{s.id:<{width}}  {totals[s.id]:>13,}  {totals[s.id] / max(times, 1):>9,.1f}  {told:<24}"
            where = s.where if isinstance(s.where, str) else orjson.dumps(s.where, default=str).decode()
            yield Text.assemble(line, ("  " + _cut(" ".join(where.split()), 60), "dim"))
        if len(ordered) > _LISTED:
            rest = ordered[_LISTED:]
            yield Text(f"and {len(rest):,} more with {sum(totals[s.id] for s in rest):,}")
        if len(ordered) > 1:
            yield Text(f"{'all':<{width}}  {sum(totals.values()):>13,}  {sum(totals.values()) / max(times, 1):>9,.1f}")

    def _columns(self, timeline: list[tuple[datetime, int]], blocks: bool) -> Iterator[Text]:
        """A line per month and a column per day, or a line per day and a column per hour."""
        by_day = self.every == DAY
        most = max(count for _, count in timeline)
        heights = _HEIGHTS if blocks else _PLAIN_HEIGHTS
        yield Text(f"one column per {'day' if by_day else 'hour'}, the highest is {most:,}", "dim")
        for line, group in groupby(timeline, lambda entry: entry[0].strftime("%Y-%m" if by_day else "%Y-%m-%d")):
            some = list(group)
            first = some[0][0].day - 1 if by_day else some[0][0].hour
            drawn = " " * first + "".join(heights[-(-8 * count // most)] for _, count in some)
            width = 31 if by_day else 24
            count = sum(count for _, count in some)
            told = f"{count:,}" if count else "·" if blocks else "."
            yield Text.assemble(f"{line}  ", (f"{drawn:<{width}}", "cyan"), f"  {told:>9}")

    def _label(self, begin: datetime) -> str:
        return begin.astimezone(UTC).strftime("%Y-%m-%d" if self.every == DAY else "%Y-%m-%d %H:00")


def _bars(timeline: list[tuple[datetime, int]], label: Callable[[datetime], str], blocks: bool) -> Iterator[Text]:
    """A line per day or hour; one without notifications is a dot."""
    most = max(count for _, count in timeline)
    for begin, count in timeline:
        eighths = -(-8 * _WIDTH * count // most)
        bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip() if blocks else "#" * -(-eighths // 8)
        yield Text.assemble(f"{label(begin)}  ", (bar, "cyan"), f" {count:,}" if count else "·" if blocks else ".")


def _can_show(console: Console) -> bool:
    try:
        "█▁·".encode(console.encoding)
    except UnicodeEncodeError:
        return False
    return True


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _stamp(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
