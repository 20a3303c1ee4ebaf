"""CSV: as commands read it, whole or not at all, and as the pipeline does, which leaves rows out."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from random import Random

import pyarrow as pa

from tests.fuzz.entry_point import ACCEPTED, Clock, EntryPoint, WrongAnswer
from tests.fuzz.mutations import mutated_bytes
from tests.fuzz.publishing import agreed, engine
from tidegate.cli.publication_files import batches
from tidegate.index.batch import sift
from tidegate.runs.publication_files import publications

_CELLS = {
    "n": ["1", "2.5", "-1", "1e3", "", "0x1", "nan", "inf", " 1", "1_0", "+1", "١"],
    "o3": ["41", "40.5", ""],
    "kind": ["rain", "Abc", '"a,b"', '"it""s"', '"a\nb"', "", "é"],
    "flag": ["true", "false", "TRUE", "", "1", "yes"],
    "seen": ["2026-11-15T08:00:00Z", "2026-11-15 08:00:00Z", "2026-11-15T08:00:00.123456789Z", "", "2026-11-15"],
    "location.lon": ["7", "7.5", "", "181"],
    "location.lat": ["46", "45.5", ""],
    "spot.lon": ["7", ""],
    "spot.lat": ["46", ""],
    "phase": ["START", "END", "", "MIDDLE"],
    "start": ["2026-11-15T07:00:00Z", ""],
    "wine": ["vin:Chianti", ""],
}
_HEADERS = list(_CELLS)
_ATTRIBUTES = {name.split(".")[0] for name in _HEADERS}


class CsvFiles(EntryPoint):
    name = "csv"
    suffix = ".csv"

    @cached_property
    def _seeds(self) -> list[bytes]:
        return [_file(Random(f"seed {i}"), 0.0) for i in range(20)]

    def seeds(self) -> list[bytes]:
        return self._seeds

    def draw(self, random: Random) -> bytes:
        data = _file(random, random.choice((0.0, 0.0, 0.1, 0.5)))
        return data if random.random() < 0.6 else mutated_bytes(data, random, self._seeds[:5])

    def check(self, data: bytes, clock: Clock, scratch: Path) -> str:
        path = scratch / "input.csv"
        path.write_bytes(data)
        with clock.within(0.05, "reading as the pipeline does"):
            parts = list(publications(str(path), _ATTRIBUTES, 100))
        left_out = [fault for part in parts for fault in part.faults]
        taken = []
        for part in parts:
            for table in part.tables:
                batch, faults = sift(table)
                left_out += faults
                taken.append(table if batch.kept is None else table.take(pa.array(batch.kept)))
        with clock.within(0.05, "reading as commands do"):
            whole = [batch.rows for batch in batches(path)]
            found = [engine().publish(rows) for rows in whole]
        if left_out:
            raise WrongAnswer(f"taken whole by commands, and by the pipeline not: {left_out[0]}")
        agreed(_told(found), _told(engine().publish(table) for table in taken), "told otherwise by commands")
        return ACCEPTED


def _told(found) -> set[tuple[str, str]]:
    pairs = set()
    for told in found:
        if isinstance(told, list):
            pairs |= {(n.publications[0], n.subscription) for n in told}
        else:
            ids, who = told["publication_ids"].to_pylist(), told["subscription_id"].to_pylist()
            pairs |= {(id[0], one) for id, one in zip(ids, who, strict=True)}
    return pairs


def _file(random: Random, wild: float) -> bytes:
    names = random.sample(_HEADERS, random.randrange(5))
    header = ["id", "source", "time", *names]
    lines = [",".join(header)]
    for i in range(random.randrange(4)):
        cells = [f"p{i}", "z7", "2026-11-15T08:00:00Z"]
        for name in names:
            choices = _CELLS[name]
            cells.append(random.choice(choices if random.random() < wild else choices[:2]))
        lines.append(",".join(cells))
    return random.choice(("\n", "\n", "\r\n")).join([*lines, ""]).encode()
