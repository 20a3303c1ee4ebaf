"""From an Arrow table to the columns of publications: locations and times in the forms that people have them.

``ArrowBatch`` and ``sift`` call ``columns_of``. ``index/columns.py`` says which types a column may have,
``records/locations.py`` and ``records/timestamps.py`` read the other forms.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.errors import PublicationError, shown
from tidegate.index.checks import REQUIRED, Broken
from tidegate.index.columns import is_text, typed, unpacked
from tidegate.model import RESERVED
from tidegate.records.integer_marks import is_marks
from tidegate.records.locations import located
from tidegate.records.timestamps import read_timestamps
from tidegate.time_zones import HINT, TimeZone
from tidegate.whole_numbers import MARKS

__all__ = ["columns_of"]


def columns_of(table: pa.Table | pa.RecordBatch, zone: TimeZone | None) -> tuple[dict[str, pa.Array], list[Broken]]:
    """The columns by name, of types that publications can have, and the rows whose times are none.

    Timestamps without a time zone are in ``zone``. Times may be texts. A column that publications must have is there.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    names = table.column_names
    if len(set(names)) != len(names):
        raise PublicationError("each column once", f"{shown(next(n for n in names if names.count(n) > 1))} twice")
    if MARKS in names and is_marks(table.schema.field(MARKS).type):  # says nothing that matching asks about
        names.remove(MARKS)
    if "" in names:
        raise PublicationError("a name for every column", "''")
    for name in REQUIRED:
        if name not in names:
            raise PublicationError(f"a column {name}", f"columns {', '.join(names) or 'none'}")
    broken: list[Broken] = []
    columns = {name: _timed(name, unpacked(table.column(name)), zone, broken) for name in names}
    return {name: typed(name, array) for name, array in located(columns).items()}, broken


def _timed(name: str, array: pa.Array, zone: TimeZone | None, broken: list[Broken]) -> pa.Array:
    """The column with instants in place of texts or of timestamps without a zone."""
    kind = array.type
    if RESERVED.get(name) == "time" and is_text(kind):
        found, wrong = read_timestamps(array, zone)
        expected = f"timestamps of ISO 8601 with their offset from UTC as {name} {'' if zone else HINT}".rstrip()
    elif zone is not None and pa.types.is_timestamp(kind) and kind.tz is None:
        found, wrong = zone.instants(array)
        expected = f"times that clocks show in {zone.name}"
    else:
        return array
    if len(wrong):
        broken.append(_broken(array, wrong, expected, f"column {shown(name)}"))
    return found


def _broken(array: pa.Array, rows: NDArray[np.intp], expected: str, at: str) -> Broken:
    def got(i: int) -> str:
        value = array[int(rows[i])]
        return shown(value.as_py()) if is_text(array.type) else f"{value}"

    return Broken(rows, expected, got, at)
