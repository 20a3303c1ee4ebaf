"""What came of it: the scenes, the lines and the numbers that the console, the page and the pictures share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from examples.severe_weather.counties import State
from examples.severe_weather.county_warnings import CountyWarning
from examples.severe_weather.drawing import Scene
from examples.severe_weather.paths import PATHS
from examples.severe_weather.subscribers import PEOPLE
from examples.severe_weather.told import Told

__all__ = ["Report", "listed", "offset"]


def listed(words: list[str]) -> str:
    """Joined with commas and an *and*."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def offset(when: datetime) -> str:
    """The time zone of an instant, such as UTC-05:00."""
    return when.strftime("UTC%z")[:-2] + ":" + when.strftime("%z")[-2:]


@dataclass(frozen=True)
class Report:
    """One run: the warnings of the file and who was told, and the synthetic ones of Emma, Harry and Dorothy."""

    state: State
    real: bool
    warnings: list[CountyWarning]
    subscribers: int
    told: list[Told]
    next_door: int
    """Notifications if everybody asked for every warning in a county next to theirs."""
    people_told: list[Told]
    """Emma, Harry and Dorothy, of the warnings in the file."""
    synthetic: list[CountyWarning]
    synthetic_told: list[Told]

    def names(self, terms: list[str] | tuple[str, ...] | set[str]) -> list[str]:
        """Of counties, each once, in order."""
        return sorted({self.state.counties[term].name for term in terms})

    @property
    def title(self) -> str:
        """Of the page and of its picture."""
        first, last = self.warnings[0].start, max(warning.start for warning in self.warnings)
        same = first.date() == last.date()
        days = f"{first.day} {first:%B %Y}" if same else f"{first.day}–{last.day} {last:%B %Y}"
        return f"Who is told of which storm warning in {'Nebraska' if self.real else 'a generated state'}, {days}"

    @cached_property
    def moments(self) -> list[tuple[CountyWarning, list[Told]]]:
        """The warnings of which somebody is told, in order of time."""
        return [
            (warning, mine)
            for warning in self.warnings
            if (mine := [told for told in self.told if told.warning is warning])
        ]

    def scene(self, warning: CountyWarning, told: list[Told]) -> Scene:
        """The map when a warning starts: counties that are already released are left out."""
        running = {
            term
            for other in self.warnings
            if other is not warning and other.start <= warning.start
            for term, end in other.released.items()
            if end >= warning.start
        }
        ways = {(reason.before, reason.county, each.who) for each in told for reason in each.reasons}
        return Scene(
            frozenset(warning.counties), frozenset(running), frozenset(each.who for each in told), tuple(sorted(ways))
        )

    def reasons(self, told: Told) -> str:
        """The earlier warnings and where they were."""
        return "; ".join(
            f"{warning.short} in {listed(self.names({r.before for r in told.reasons if r.warning is warning}))}"
            for warning in {reason.warning.id: reason.warning for reason in told.reasons}.values()
        )

    def heard_of(self, told: Told) -> str:
        """The counties of the warning that are west of the subscriber."""
        return listed(self.names({reason.county for reason in told.reasons}))

    def row(self, told: Told) -> tuple[str, ...]:
        """When, who, which warning, in which counties, because of which, and what came of it."""
        time, name = f"{told.time:%H:%M}", self.names((told.who,))[0]
        return time, name, told.warning.short, self.heard_of(told), self.reasons(told), self.own(told)

    def own(self, told: Told) -> str:
        """Whether the subscriber's own county was warned."""
        after = told.own(self.warnings)
        if after is None:
            return "no"
        return f"{after // timedelta(minutes=1)} min later" if after else "at once"

    @property
    def surprised(self) -> tuple[int, int]:
        """How many counties were warned, and how many of them were told before their first warning."""
        first: dict[str, datetime] = {}
        for warning in self.warnings:
            for term in warning.counties:
                first.setdefault(term, warning.start)
        ahead = {told.who for told in self.told if told.who in first and told.time < first[told.who]}
        return len(first), len(ahead)

    def path_told(self, path: str) -> dict[str, bool]:
        """Of each person, whether they are told of the Hamilton warning of a synthetic path."""
        names = {told.who for told in self.synthetic_told if told.warning.id.startswith(f"{path}.")}
        return {person.name: person.name in names for person in PEOPLE}

    def lines(self) -> list[str]:
        """What the script prints."""
        rows = sum(len(warning.counties) for warning in self.warnings)
        first, last = self.warnings[0].start, max(warning.end for warning in self.warnings)
        warned, ahead = self.surprised
        made = [
            f"{len(self.state.counties)} counties, {len(self.state.neighbours)} pairs of neighbours"
            f"{'' if self.real else ' (generated)'}",
            f"{len(self.warnings)} warnings in {warned} counties ({rows} rows), "
            f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}, {offset(first)}",
            f"{self.subscribers} subscribers, one in every county that has a neighbour in the west",
            "",
        ]
        table: list[tuple[str, ...]] = [("time", "told", "warning", "in", "because of", "own county warned")]
        table += [self.row(told) for told in self.told]
        wide = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        made += ["  ".join(cell.ljust(wide[i]) for i, cell in enumerate(row)).rstrip() for row in table]
        made += [
            "",
            f"{len(self.told)} notifications; {self.next_door} if everybody heard of every warning next door",
            f"{ahead} of the {warned} warned counties heard of a storm before their own first warning",
            f"Emma, Harry and Dorothy: {len(self.people_told)} notifications; "
            f"warnings in Hamilton County: {sum('ne:Hamilton' in w.counties for w in self.warnings)}",
            "",
            "Synthetic storms over Hamilton County",
        ]
        for path, (_, counties) in PATHS.items():
            told = [name for name, is_told in self.path_told(path).items() if is_told]
            way = " > ".join(self.state.counties[term].name for term in counties)
            made.append(f"{path}  {way:<32}  told: {', '.join(told)}")
        return made
