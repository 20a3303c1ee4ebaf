"""Writes the page that holds the paper's claims against what was measured, with its figures beside it.

From the raw results and nothing else; the sentences that judge are chosen by ``verdicts`` and ``reasons``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.errors import SettingError
from tidegate.overlay.report.cells import FIGURES, Cells
from tidegate.overlay.report.choices import left_open
from tidegate.overlay.report.claims import CLAIMS
from tidegate.overlay.report.figures import SELECTIVITY, draw, title
from tidegate.overlay.report.kinds import Below, Wider
from tidegate.overlay.report.markdown import bullets, paragraph, table
from tidegate.overlay.report.reasons import reasons
from tidegate.overlay.report.sections import loads, machine_facts, network, opening, told
from tidegate.overlay.report.selectivity import section
from tidegate.overlay.report.verdicts import HOLDS, Finding, findings, weigh

__all__ = ["page", "write"]


def write(
    rows: pa.Table | Iterable[Mapping[str, Any]],
    folder: Path,
    command: str,
    machine: Mapping[str, Any] | None = None,
    remarks: Mapping[str, str] | None = None,
) -> Path:
    """The page as ``README.md``, and its figures; where the page is.

    ``command`` is what made it. ``machine`` are facts of the machine that the sweep ran on, this one's if there are
    none. ``remarks`` are further sentences on why a claim differs, by its key.
    """
    cells = Cells(rows)
    drawn = draw(cells, folder)
    path = folder / "README.md"
    path.write_text(page(cells, drawn, command, machine, remarks), "utf-8")
    return path


def page(
    cells: Cells,
    drawn: list[str],
    command: str,
    machine: Mapping[str, Any] | None = None,
    remarks: Mapping[str, str] | None = None,
) -> str:
    """The whole page."""
    if not cells.rows:
        raise SettingError("results of at least one cell", "none", "a page of the overlay")
    unknown = sorted((remarks or {}).keys() - {claim.key for claim in CLAIMS})
    if unknown:
        raise SettingError("remarks on claims that there are", ", ".join(unknown), "a page of the overlay")
    found = sorted(findings(cells), key=lambda each: each.claim.figure or 13)
    parts = [
        *opening(cells, command, machine_facts() if machine is None else machine),
        *_claims(found, cells),
        *(part for name in drawn if name != SELECTIVITY for part in _figure(int(name[-2:]), found, cells)),
        *section(cells, SELECTIVITY in drawn),
        *told(cells),
        *network(cells),
        *_differences(found, cells, remarks or {}),
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
            "the 95 % interval of our mean reaches it; what was asked for is held against the mean itself, and so is "
            "all with fewer than five seeds. A claim *holds* if it is met at every count, *differs* if at none, and "
            "holds *partly* otherwise. The paper's own runs had probabilistic set filtering; the last column has the "
            "same comparison with ours."
        ),
        table(
            ["figure", "the paper says", "measured", "verdict", "with probabilistic"],
            (_claim(each, cells) for each in found if not each.claim.asked),
            left=5,
        ),
    ]
    asked = [each for each in found if each.claim.asked]
    if asked:
        parts += [
            "What was asked of this project:",
            table(["figure", "asked", "measured", "verdict"], (_claim(each, cells)[:4] for each in asked), left=4),
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
    parts = [f"## Figure {number}: {title(number)}", f"![{title(number)}]({name}.png)\n\n([SVG]({name}.svg))"]
    if said:
        parts.append(
            bullets(f"{each.claim.sentence} Here: {each.short}. **{each.verdict.capitalize()}.**" for each in said)
        )
    if number in FIGURES:
        parts.append(loads(cells, *FIGURES[number]))
    return parts


def _differences(found: list[Finding], cells: Cells, remarks: Mapping[str, str]) -> list[str]:
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
        why = [*reasons(each, cells), *([remarks[each.claim.key]] if each.claim.key in remarks else [])]
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
