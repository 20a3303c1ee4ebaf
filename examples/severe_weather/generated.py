"""A state that does not exist, for those who don't have the real files: three files of the same form, from a seed.

Counties are the cells of a grid, those around Hamilton with their real names where they belong. Storms come from the
west, drift north or south, and are warned of for one to three counties at a time; some warnings are cancelled early.
"""

from __future__ import annotations

import csv
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np

__all__ = ["COLUMNS", "ROWS", "write"]

#: Of the grid; its rows are counted from the north.
COLUMNS, ROWS = 10, 6

#: Column and row of the counties of Stevens's Figure 7.4.
_NAMED = {
    (5, 2): "Howard",
    (6, 2): "Merrick",
    (7, 2): "Polk",
    (5, 3): "Hall",
    (6, 3): "Hamilton",
    (7, 3): "York",
    (5, 4): "Adams",
    (6, 4): "Clay",
    (7, 4): "Fillmore",
}
_CELLS = {(column, row) for row in range(ROWS) for column in range(COLUMNS)}
_WEST, _NORTH, _WIDE, _HIGH = -102.0, 42.6, 0.48, 0.36
_ZONE = timezone(timedelta(hours=-5))
_BEGIN = datetime(2030, 5, 3, 15, 0, tzinfo=_ZONE)
_FIELDS = ["wfo", "phenomena", "significance", "eventid", "ugc", "product_issue", "issue", "init_expire", "expire"]
_FIELDS += ["status", "updated", "is_emergency", "is_pds"]


def write(folder: Path, seed: int = 6, storms: int = 5) -> None:
    """Writes ``ontologies`` and ``severe_weather`` into the folder, as they are in ``../shared/data``."""
    for name in ("ontologies", "severe_weather"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    cells = sorted(_CELLS, key=lambda cell: cell[::-1])
    features = [
        {
            "type": "Feature",
            "properties": {"fips": _fips(*cell), "ugc": _ugc(*cell), "name": _name(*cell)},
            "geometry": {"type": "Polygon", "coordinates": [_ring(*cell)]},
        }
        for cell in cells
    ]
    outlines = {"type": "FeatureCollection", "features": features}
    (folder / "ontologies" / "nebraska_counties.geojson").write_text(json.dumps(outlines), "utf-8")
    with (folder / "ontologies" / "nebraska_county_adjacency.csv").open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(["county", "fips", "neighbor", "neighbor_fips"])
        for a in cells:
            for b in cells:
                if a != b and max(abs(a[0] - b[0]), abs(a[1] - b[1])) == 1:
                    writer.writerow([f"{_name(*a)} County, NE", _fips(*a), f"{_name(*b)} County, NE", _fips(*b)])
    with (folder / "severe_weather" / "county_warnings.csv").open("w", encoding="utf-8", newline="") as lines:
        rows = csv.DictWriter(lines, _FIELDS)
        rows.writeheader()
        rows.writerows(_warnings(np.random.default_rng(seed), storms))


def _name(column: int, row: int) -> str:
    return _NAMED.get((column, row), f"{chr(ord('A') + row)}{column + 1}")


def _fips(column: int, row: int) -> str:
    return f"31{2 * (row * COLUMNS + column) + 1:03}"


def _ugc(column: int, row: int) -> str:
    return f"NEC{_fips(column, row)[2:]}"


def _ring(column: int, row: int) -> list[list[float]]:
    west, north = _WEST + column * _WIDE, _NORTH - row * _HIGH
    corners = ((0, 0), (1, 0), (1, 1), (0, 1), (0, 0))
    return [[round(west + x * _WIDE, 5), round(north - y * _HIGH, 5)] for x, y in corners]


def _warnings(rng: np.random.Generator, storms: int) -> list[dict[str, str]]:
    made: list[tuple[datetime, list[dict[str, str]]]] = []
    for _ in range(storms):
        column, row = int(rng.integers(0, COLUMNS - 4)), int(rng.integers(1, ROWS - 1))
        time = _BEGIN + timedelta(minutes=int(rng.integers(0, 240)))
        for _ in range(int(rng.integers(3, 7))):
            cells = {(column, row)}
            cells |= {(column, row + 1)} if rng.random() < 0.3 else set()
            cells |= {(column + 1, row)} if rng.random() < 0.2 else set()
            phenomena = "TO" if rng.random() < 0.15 else "SV"
            made.append((time, [_row(rng, phenomena, _ugc(*cell), time) for cell in sorted(cells & _CELLS)]))
            made[-1][1].append(_row(rng, phenomena, "KSC001", time))
            column, row = column + 1, min(max(row + int(rng.choice([0, 0, 0, 1, -1])), 0), ROWS - 1)
            time += timedelta(minutes=int(rng.integers(30, 55)))
            if column >= COLUMNS:
                break
    rows: list[dict[str, str]] = []
    numbers = dict.fromkeys(("SV", "TO"), 0)
    for time, parts in sorted(made, key=lambda warning: warning[0]):
        numbers[parts[0]["phenomena"]] += 1
        common = {"wfo": "GEN", "significance": "W", "eventid": str(numbers[parts[0]["phenomena"]])}
        common |= {"product_issue": str(time), "issue": str(time), "is_emergency": "f", "is_pds": "f"}
        rows += [common | part for part in parts]
    return rows


def _row(rng: np.random.Generator, phenomena: str, ugc: str, issue: datetime) -> dict[str, str]:
    """Of one county; one in four is cancelled early."""
    announced = issue + timedelta(minutes=45)
    early = rng.random() < 0.25
    end = issue + timedelta(minutes=int(rng.integers(15, 40))) if early else announced
    status = "CAN" if early else "EXP"
    ends = {"init_expire": str(announced), "expire": str(end), "updated": str(end), "status": status}
    return {"phenomena": phenomena, "ugc": ugc} | ends
