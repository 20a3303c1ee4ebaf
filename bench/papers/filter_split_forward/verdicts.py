"""Whether a claim holds, computed from the rows of a sweep and from nothing else.

The paper's ranges are of one run each, ours have an interval over seeds: at a count a range *is met* if the 95 %
interval of our mean reaches it. Goals, and results of fewer than five seeds, go by the mean itself. A
claim *holds* if it is met everywhere, *differs* if it is met nowhere, and holds *partly* otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import floor

from bench.papers.filter_split_forward.claim_kinds import Below, Claim, Complete, Level, Ordered, Wider
from bench.papers.filter_split_forward.claims import CLAIMS
from bench.papers.filter_split_forward.confidence import ENOUGH, Estimate, estimate
from bench.papers.filter_split_forward.rows import EXACT, PROBABILISTIC, SETUPS, Cells, Series

__all__ = ["DIFFERS", "HOLDS", "PARTLY", "Finding", "findings", "reached", "weigh"]

#: By name of a line or a set-up, and by number of subscriptions.
Lines = dict[str, dict[int, Estimate]]
HOLDS, PARTLY, DIFFERS = "holds", "partly", "differs"


@dataclass(frozen=True)
class Finding:
    """A claim and what was measured of it: in a sentence, in few words for a figure, and line by line."""

    claim: Claim
    verdict: str
    measured: str
    short: str
    met: int
    tried: int
    #: What was measured, in per cent, by what it is measured against (a line or a set-up) and number of subscriptions.
    lines: Lines = field(default_factory=dict)


def findings(cells: Cells) -> list[Finding]:
    """Of all claims that there are rows for."""
    return [found for claim in CLAIMS if (found := weigh(claim, cells)) is not None]


def weigh(claim: Claim, cells: Cells, probabilistic: bool = False) -> Finding | None:
    """One claim; None if there are no rows for it. ``probabilistic``: with that kind of set filtering instead."""
    match claim:
        case Below():
            return _below(replace(claim, less=PROBABILISTIC) if probabilistic else claim, cells)
        case Wider():
            return _wider(replace(claim, less=PROBABILISTIC) if probabilistic else claim, cells)
        case Ordered():
            return _ordered(claim, cells)
        case Level():
            return _level(claim, cells)
        case Complete():
            return _complete(claim, cells)
    raise TypeError(f"no way to weigh a {type(claim).__name__}")


def _verdict(met: int, tried: int) -> str:
    return HOLDS if met == tried else PARTLY if met else DIFFERS


def reached(found: Estimate, claim: Below | Level) -> bool:
    """Whether a claim's range is met by what was measured at one count."""
    if claim.is_goal or found.count < ENOUGH:
        return claim.low <= found.mean <= claim.high
    return found.high >= claim.low and found.low <= claim.high


def _below(claim: Below, cells: Cells) -> Finding | None:
    values = {rival: cells.reductions(claim.setup, claim.less, rival, claim.metric) for rival in claim.more}
    return _ranged(claim, {rival.name: by_count for rival, by_count in values.items() if by_count})


def _level(claim: Level, cells: Cells) -> Finding | None:
    values: dict[str, dict[int, dict[int, float]]] = {}
    for setup in claim.setups:
        if by_count := cells.values(setup, claim.series, claim.metric):
            of = {count: {seed: 100 * x for seed, x in by_seed.items()} for count, by_seed in by_count.items()}
            values[SETUPS[setup]] = of
    return _ranged(claim, values)


def _ranged(claim: Below | Level, values: dict[str, dict[int, dict[int, float]]]) -> Finding | None:
    """Held against a range: at every count, or first on the average over all of them."""
    if not values:
        return None
    lines = {name: {n: estimate(by_seed.values()) for n, by_seed in of.items()} for name, of in values.items()}
    there = [reached(found, claim) for of in lines.values() for found in of.values()]
    below = isinstance(claim, Below)
    if not claim.averaged:
        said = [_spans(of, name, below, True) for name, of in lines.items()]
        short = [_spans(of, name, below, False) for name, of in lines.items()] if below else [_all(lines)]
        return _found(claim, _verdict(sum(there), len(there)), said, short, sum(there), len(there), lines)
    averages = {name: _average(of) for name, of in values.items()}
    met = sum(reached(found, claim) for found in averages.values())
    # On the average nothing is met, yet at some counts it is: that is no plain contradiction.
    verdict = PARTLY if not met and any(there) else _verdict(met, len(averages))
    each = [_spans({0: found}, name, below, False) for name, found in averages.items()]
    short = each if below else [_all({name: {0: found} for name, found in averages.items()})]
    return _found(claim, verdict, [f"on average {one}" for one in each], short, met, len(averages), lines)


def _found(
    claim: Below | Level, verdict: str, said: list[str], short: list[str], met: int, tried: int, lines: Lines
) -> Finding:
    who = f"{claim.less.name} " if isinstance(claim, Below) and claim.less.strategy != EXACT.strategy else ""
    return Finding(claim, verdict, who + "; ".join(said), who + "; ".join(short), met, tried, lines)


def _all(lines: Lines) -> str:
    """Over all set-ups together: a figure has no room for each."""
    return _spans(dict(enumerate(found for of in lines.values() for found in of.values())), "", False, False)


def _average(of: dict[int, dict[int, float]]) -> Estimate:
    """Over counts within each seed, then over seeds: cells of one seed share a network and are not independent."""
    by_seed: dict[int, list[float]] = {}
    for values in of.values():
        for seed, value in values.items():
            by_seed.setdefault(seed, []).append(value)
    return estimate(sum(values) / len(values) for values in by_seed.values())


def _wider(claim: Wider, cells: Cells) -> Finding | None:
    lines: Lines = {}
    said, met, tried = [], 0, 0
    for rival in claim.more:
        wide, narrow = (cells.reductions(at, claim.less, rival, claim.metric) for at in (claim.wide, claim.narrow))
        shared = sorted(wide.keys() & narrow.keys())
        gaps = {n: {s: wide[n][s] - narrow[n][s] for s in wide[n].keys() & narrow[n].keys()} for n in shared}
        gaps = {n: by_seed for n, by_seed in gaps.items() if by_seed}
        if not gaps:
            continue
        lines[rival.name] = {n: estimate(by_seed.values()) for n, by_seed in gaps.items()}
        met += sum(found.mean > 0 for found in lines[rival.name].values())
        tried += len(gaps)
        # Of the cells that both set-ups have, and no others: else the means would not differ by the difference.
        means = [_average({n: {s: of[n][s] for s in gaps[n]} for n in gaps}) for of in (wide, narrow)]
        said.append(
            f"on average {_shown(means[0])} below {rival.name} in {SETUPS[claim.wide]}, {_shown(means[1])} in "
            f"{SETUPS[claim.narrow]}; difference {_shown(_average(gaps), ' points')}"
        )
    if not tried:
        return None
    short = f"so at {met} of {tried} counts"
    return Finding(claim, _verdict(met, tried), "; ".join(said), short, met, tried, lines)


def _ordered(claim: Ordered, cells: Cells) -> Finding | None:
    lines: Lines = {}
    said, met, tried = [], 0, 0
    for upper, lower in zip(claim.levels, claim.levels[1:], strict=False):
        for more, less in ((more, less) for more in upper for less in lower):
            of = cells.reductions(claim.setup, less, more, claim.metric)
            if not of:
                continue
            found = lines[f"{less.name} below {more.name}"] = {n: estimate(each.values()) for n, each in of.items()}
            fine = sum(each.mean > 0 for each in found.values())
            met, tried = met + fine, tried + len(found)
            if fine < len(found):
                said.append(_exception(more, less, found, fine))
    if not tried:
        return None
    short = "so at every count" if met == tried else f"at {met} of {tried} counts and pairs"
    return Finding(claim, _verdict(met, tried), "; ".join(said) or short, short, met, tried, lines)


def _exception(more: Series, less: Series, found: dict[int, Estimate], fine: int) -> str:
    worst = min(found, key=lambda n: found[n].mean)
    where = f"only at {fine} of {len(found)} counts" if fine else "at no count"
    return (
        f"{less.name} is below {more.name} {where}, and {-found[worst].mean:.1f} % above it at {worst:,} subscriptions"
    )


def _complete(claim: Complete, cells: Cells) -> Finding | None:
    rows = [row for setup in claim.setups for series in claim.series for row in cells.every(setup, series)]
    if not rows:
        return None
    met = sum(row["correct"] == row["expected"] == row["delivered"] for row in rows)
    missing = sum(row["expected"] - row["correct"] for row in rows)
    surplus = sum(row["delivered"] - row["correct"] for row in rows)
    said = (
        f"in {met:,} of {len(rows):,} cells; of {sum(row['expected'] for row in rows):,} readings to be told "
        f"{missing:,} missing, {surplus:,} told without cause"
    )
    return Finding(claim, _verdict(met, len(rows)), said, f"in {met:,} of {len(rows):,} cells", met, len(rows))


def _shown(found: Estimate, unit: str = " %") -> str:
    mean = f"{round(found.mean, 1) + 0.0:.1f}".replace("-", "−")  # + 0.0: no minus before a zero
    return f"{mean}{unit}" if found.half is None else f"{mean} ± {found.half:.1f}{unit}"


def _share(found: Estimate) -> str:
    """A share, in per cent, cut rather than rounded: what is not all must not look like all."""
    mean = f"{floor(100 * found.mean + 1e-9) / 100:.2f}"
    return f"{mean} %" if found.half is None else f"{mean} ± {found.half:.2f} %"


def _spans(of: dict[int, Estimate], name: str, below: bool, whole: bool) -> str:
    """The smallest and the largest mean; in the whole version each with its interval and the count it is at."""
    ends = dict.fromkeys(extreme(of, key=lambda n: of[n].mean) for extreme in (min, max))
    parts, sides = [], []
    for n in ends:
        found = of[n] if whole or len(of) == 1 else Estimate(of[n].mean, None, of[n].count)
        sides.append("above" if round(found.mean, 1) < 0 else "below")
        size = Estimate(abs(found.mean), found.half, found.count)
        parts.append((_shown(size) if below else _share(found)) + (f" (at {n:,})" if whole else ""))
    if not below:
        return " to ".join(parts) + (f" in {name}" if name else "")
    if len(set(sides)) > 1:
        return f"{parts[0]} {sides[0]} to {parts[1]} {sides[1]} {name}"
    return f"{' to '.join(parts)} {sides[0]} {name}"
