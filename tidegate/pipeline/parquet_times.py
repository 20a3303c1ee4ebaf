"""Parquet's timestamps in nanoseconds, which Spark does not know: as the instants that they are.

With the setting ``nanosAsLong`` of ``tg.session`` Spark reads them as whole numbers and says nothing of a time zone. So
the columns are looked up in one of the files that the DataFrame is read from. ``tg.match`` and rehearsals call
``with_instants``.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidegate.runs.publication_files import located

__all__ = ["NANOS_AS_LONG", "with_instants"]

NANOS_AS_LONG = "spark.sql.legacy.parquet.nanosAsLong"

_INSTANT = "timestamp_micros({0})"
#: A cast would use the time zone of the session.
_LOCAL = (
    "timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(cast(({0} - pmod({0}, 86400000000)) div 86400000000 as int),"
    " 0, 0, cast(pmod({0}, 86400000000) as decimal(18, 6)) / 1000000)"
)


def with_instants(publications: DataFrame) -> DataFrame:
    """The DataFrame with timestamps for nanoseconds; those without a time zone stay without one."""
    numbers = [field.name for field in publications.schema if isinstance(field.dataType, T.LongType)]
    if not numbers or publications.isStreaming or publications.sparkSession.conf.get(NANOS_AS_LONG) != "true":
        return publications
    kinds = _kinds(publications)
    found: dict[str, Column] = {}
    for name in numbers:
        kind = kinds.get(name)
        if kind is not None and pa.types.is_timestamp(kind) and kind.unit == "ns":
            quoted = f"`{name.replace('`', '``')}`"
            micros = f"(({quoted} - pmod({quoted}, 1000)) div 1000)"  # floored; ``/`` would go through doubles
            found[name] = F.expr((_INSTANT if kind.tz is not None else _LOCAL).format(micros))
    return publications.withColumns(found) if found else publications


def _kinds(publications: DataFrame) -> dict[str, pa.DataType]:
    """The types of the columns in a file that the DataFrame is read from; none if it is read from no Parquet."""
    files = publications.inputFiles()
    if not files:
        return {}
    filesystem, name = located(files[0])
    try:
        with filesystem.open_input_file(name) as file:
            schema = pq.read_schema(file)
    except (OSError, pa.ArrowException):
        return {}
    return dict(zip(schema.names, schema.types, strict=True))
