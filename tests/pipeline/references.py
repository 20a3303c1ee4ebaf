"""A sink of references, and the oracle that reads every publication that they name from the log.

The oracle walks over all frames, makes ids of notifications in plain Python, and compares them with the flat tables of
the same batches, whose publications are named by their ids. Since the id of a notification is of the sources, ids and
phases of its publications in their order, a wrong row is seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

import tidegate as tg
from tests.oracle_identity import list_hash, notification_id, publication_hash
from tests.store.log_contents import frames
from tidegate.model import micros
from tidegate.runs.references import MatchReferences
from tidegate.runs.sinks import DriverSink, Notifications, Receipt, Receipts

__all__ = ["Referred", "check", "logged"]

KIND = "references"


@dataclass(frozen=True)
class _Half:
    form: str = "references"

    def writer(self, batch: int, part: int) -> _Writer:
        return _Writer()


class _Writer:
    """Sends what it takes as JSON: the references, and beside them the flat and the grouped form."""

    def __init__(self) -> None:
        self._taken: list[bytes] = []

    def take(self, found: Notifications) -> None:
        refs, flat, grouped = found.references, found.flat, found.grouped
        fields = {
            name: (value.tobytes().hex() if name == "id" else value.listed() if name == "ids" else value.tolist())
            for name, value in refs._asdict().items()
            if name != "contents"
        }
        if isinstance(refs, MatchReferences):
            fields["contents"] = [(one["id"], one["source"]) for one in refs.contents(refs.publication)]
        told = {"plain": isinstance(refs, MatchReferences), "count": found.notifications, "fields": fields}
        told |= {"flat": _plain(flat), "grouped": _plain(grouped)}
        self._taken.append(orjson.dumps(told, option=orjson.OPT_SERIALIZE_NUMPY))

    def close(self) -> Iterator[Receipt]:
        return iter([(KIND, data) for data in self._taken])


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    at = table.schema.get_field_index("time")
    return table.set_column(at, "time", table.column("time").cast(pa.int64())).to_pylist()


class Referred(DriverSink):
    """Keeps what each batch told. A batch that is run again must tell the same."""

    half = _Half()

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}

    def commit(self, batch: int, receipts: Receipts) -> None:
        told = [orjson.loads(data) for data in receipts.of(KIND)]
        assert self.batches.setdefault(batch, told) == told

    @property
    def told(self) -> list[Any]:
        return [one for batch in self.batches.values() for one in batch]


def logged(log: tg.Log) -> dict[int, tg.Publication]:
    """The publication at each row of a log, as far as it is known by something."""
    found = {}
    for frame in frames(log):
        for place, row in enumerate(frame.batch.to_pylist()):
            found[frame.first_row + place] = tg.Publication(
                row["id"], row["source"], row["time"], {}, phase=row.get("phase")
            )
    return found


def check(told: list[Any], log: tg.Log, names: dict[int, str]) -> tuple[int, int]:
    """Compare all that was told with the log; ``names`` has the id of the subscription that each version made.

    Returns how many matches and how many notifications of patterns there were.
    """
    publications, seen, matches, raised = logged(log), set(), 0, 0
    for one in told:
        fields, named, causes = one["fields"], Counter(), Counter()
        for i, since in enumerate(fields["since"]):
            name = names[since]
            if one["plain"]:
                row = fields["row"][i]
                assert (row, since) not in seen, "told twice"
                seen.add((row, since))
                cause = publications[row]
                assert fields["contents"][i] == [cause.id, cause.source]
                time, ids, score, distance = micros(cause.time), [cause.id], None, None
                id = notification_id(name, publication_hash(cause), time)
                matches += 1
            else:
                rows = fields["rows"][fields["start"][i] : fields["start"][i + 1]]
                theirs = [publications[row] for row in rows]
                time, ids = fields["moment"][i], fields["ids"][fields["start"][i] : fields["start"][i + 1]]
                score, distance = fields["score"][i], fields["distance"][i]
                id = notification_id(name, list_hash(theirs), time)
                assert [p.id for p in theirs] == ids
                assert id == fields["id"][32 * i : 32 * i + 32]
                cause = None if fields["row"][i] < 0 else publications[fields["row"][i]]
                assert cause is None or micros(cause.time) <= time
                raised += 1
            named[id, name, tuple(ids), time, score, distance] += 1
            causes[None if cause is None else cause.id, time, name] += 1
        assert named == Counter(
            (
                row["notification_id"], row["subscription_id"], tuple(row["publication_ids"]), row["time"],
                row["score"], row["distance"],
            )
            for row in one["flat"]
        )  # fmt: skip
        assert causes == Counter(
            (row["publication_id"], row["time"], name) for row in one["grouped"] for name in row["subscription_ids"]
        )
        assert len(fields["since"]) == one["count"]
        if one["plain"]:
            assert all(a <= b for a, b in pairwise(fields["row"]))
            places = np.array(fields["publication"], np.int64)
            assert (np.diff(places) >= 0).all()
    return matches, raised
