"""``python -m bench.papers.filter_split_forward.page``: the paper's claims beside what was measured, with figures.

From the raw results and nothing else; the sentences that judge are chosen by ``verdicts`` and ``reasons``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.papers.filter_split_forward import RESULTS
from bench.papers.filter_split_forward.choices import left_open
from bench.papers.filter_split_forward.claim_kinds import Below, Wider
from bench.papers.filter_split_forward.claims import CLAIMS
from bench.papers.filter_split_forward.figures import SELECTIVITY, draw, title
from bench.papers.filter_split_forward.reasons import reasons
from bench.papers.filter_split_forward.results_folder import ResultsFolder
from bench.papers.filter_split_forward.rows import FIGURES, Cells
from bench.papers.filter_split_forward.sections import loads, network, opening, told
from bench.papers.filter_split_forward.selectivity import section
from bench.papers.filter_split_forward.simulate import SCHEMA
from bench.papers.filter_split_forward.verdicts import HOLDS, Finding, findings, weigh
from bench.papers.markdown import bullets, paragraph, picture, table
from tidegate.errors import SettingError

__all__ = ["page", "write", "write_stored"]

_MODULE = "bench.papers.filter_split_forward.page"


def write_stored() -> Path:
    """The page of the stored results, beside this file; where the page is."""
    return write(ResultsFolder(RESULTS, SCHEMA).gathered().rows, RESULTS.parent, f"python -m {_MODULE}")


def write(rows: pa.Table | Iterable[Mapping[str, Any]], folder: Path, command: str) -> Path:
    """The page as ``README.md``, which says that ``command`` wrote it, and its figures; where the page is."""
    cells = Cells(rows)
    drawn = draw(cells, folder)
    path = folder / "README.md"
    path.write_text(page(cells, drawn, command), "utf-8")
    return path


def page(cells: Cells, drawn: list[str], command: str) -> str:
    """The whole page."""
    if not cells.rows:
        raise SettingError("results of at least one cell", "none", "a page of the overlay")
    found = sorted(findings(cells), key=lambda each: each.claim.figure or 13)
    parts = [
        *opening(cells, command),
        *_claims(found, cells),
        *(part for name in drawn if name != SELECTIVITY for part in _figure(int(name[-2:]), found, cells)),
        *section(cells, SELECTIVITY in drawn),
        *told(cells),
        *network(cells),
        *_differences(found, cells),
        *left_open(),
    ]
    return "\n\n".join(parts) + "\n"


def _claims(found: list[Finding], cells: Cells) -> list[str]:
    weighed = {each.claim.key for each in found}
    left = [claim for claim in CLAIMS if claim.key not in weighed]
    parts = [
        "## Claim by claim",
        paragraph(
            "Reductions are paired by seed and number of subscriptions: filter-split-forward with exact set filtering "
            "against the rival in the same network with the same readings. A range of the paper's is met at a count if "
            "the 95 % interval of our mean reaches it; a goal is held against the mean itself, and so is "
            "all with fewer than five seeds. A claim *holds* if it is met at every count, *differs* if at none, and "
            "holds *partly* otherwise. The paper's own runs had probabilistic set filtering; the last column has the "
            "same comparison with ours."
        ),
        table(
            ["figure", "the paper says", "measured", "verdict", "with probabilistic"],
            (_claim(each, cells) for each in found if not each.claim.is_goal),
            left=5,
        ),
    ]
    goals = [each for each in found if each.claim.is_goal]
    if goals:
        parts += [
            "The goals:",
            table(["figure", "goal", "measured", "verdict"], (_claim(each, cells)[:4] for each in goals), left=4),
        ]
    if left:
        parts += [
            "Without rows to judge them by:",
            bullets(f"{_where(claim.figure)}{claim.sentence}" for claim in left),
        ]
    return parts


def _where(figure: int | None) -> str:
    return f"Figure {figure}: " if figure else ""


def _claim(found: Finding, cells: Cells) -> list[Any]:
    claim = found.claim
    other = weigh(claim, cells, probabilistic=True) if isinstance(claim, Below | Wider) and _ours(claim) else None
    verdict = found.verdict if found.verdict == HOLDS else f"**{found.verdict}**"
    beside = f"{other.short} ({other.verdict})" if other else None
    return [str(claim.figure or ""), claim.sentence, found.measured, verdict, beside]


def _ours(claim: Below | Wider) -> bool:
    return claim.less.strategy == "filter-split-forward"


def _figure(number: int, found: list[Finding], cells: Cells) -> list[str]:
    name = f"figure{number:02}"
    said = [each for each in found if each.claim.figure == number]
    parts = [f"## Figure {number}: {title(number)}", picture(name, title(number))]
    if said:
        parts.append(
            bullets(f"{each.claim.sentence} Here: {each.short}. **{each.verdict.capitalize()}.**" for each in said)
        )
    if number in FIGURES:
        parts.append(loads(cells, *FIGURES[number]))
    return parts


def _differences(found: list[Finding], cells: Cells) -> list[str]:
    parts = ["## Where we differ and why"]
    differing = [each for each in found if each.verdict != HOLDS]
    if not differing:
        parts.append(f"All {len(found)} claims that there are rows for hold.")
        return parts
    parts.append(
        paragraph(
            f"Of {len(found)} claims {len(found) - len(differing)} hold. For each of the others: what was "
            "measured, and what the rows say about its cause."
        )
    )
    said: set[str] = set()
    for each in differing:
        why = reasons(each, cells)
        fresh = [sentence for sentence in why if sentence not in said]
        said.update(fresh)
        parts.append(
            paragraph(
                f"**{_where(each.claim.figure)}{each.claim.sentence}** {each.verdict.capitalize()}: {each.measured}."
            )
        )
        if fresh:
            parts.append(bullets(fresh))
        elif why:
            parts.append("What the rows say of it stands above.")
    return parts


if __name__ == "__main__":
    write_stored()
