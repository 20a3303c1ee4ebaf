"""Arrow tables, of columns of all types: a table tells what its rows tell as objects, or is refused."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random

import pyarrow as pa

from tests.fuzz.entry_point import ACCEPTED, Clock, EntryPoint
from tests.fuzz.publishing import agreed, engine, told
from tidegate.errors import PublicationError
from tidegate.model import RESERVED, Publication

_NOON = 1_794_744_000_000_000
_POINT = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
_VALUES = {
    pa.float64(): [0.0, 1.5, -1.0, 40.0, 1e308, 5e-324],
    pa.float32(): [0.0, 1.5, 40.0],
    pa.int64(): [0, 1, 2, 41, -(2**63), 2**63 - 1, 2**53 + 1],
    pa.int8(): [0, 1, -128],
    pa.uint64(): [0, 1, 2**64 - 1],
    pa.string(): ["rain", "Abc", "", "é", "vin:Red", "\0", "x" * 300],
    pa.large_string(): ["rain", "ab"],
    pa.bool_(): [True, False],
    pa.timestamp("us", "UTC"): [_NOON, 0, -1, _NOON + 1],
    pa.timestamp("ms", "Europe/Berlin"): [_NOON // 1000, 0],
    pa.timestamp("ns", "UTC"): [_NOON * 1000, 0, 999],
    pa.timestamp("s"): [0, 1],
    pa.date32(): [0, 20_000],
    pa.list_(pa.float64()): [[], [1.0, 2.0], [1.0, 2.0, 3.0, 2.0, 1.0], [float("nan"), 1.0]],
    pa.list_(pa.string()): [["a", "b"], [], ["ab"]],
    pa.large_list(pa.int64()): [[1, 2], [5]],
    _POINT: [{"lon": 7.0, "lat": 46.0}, {"lon": -180.0, "lat": 90.0}],
    pa.null(): [None],
    pa.dictionary(pa.int32(), pa.string()): ["rain", "ab"],
    pa.decimal128(10, 2): [1, 2],
    pa.binary(): [b"x"],
    pa.struct([("a", pa.int64())]): [{"a": 1}],
    pa.duration("s"): [1],
}
_WILD = {
    pa.float64(): [float("nan"), float("inf")],
    pa.timestamp("us", "UTC"): [2**62, -(2**62)],
    pa.timestamp("ms", "Europe/Berlin"): [2**60],
    pa.date32(): [2**31 - 1],
    _POINT: [{"lon": 181.0, "lat": 0.0}, {"lon": None, "lat": 1.0}],
    pa.list_(pa.float64()): [[None]],
    pa.string(): ["y" * 2000],
}
_USUAL = {
    **dict.fromkeys(("n", "o3"), (pa.float64(), pa.int64(), pa.int8(), pa.float32(), pa.uint64())),
    **dict.fromkeys(("kind", "wine"), (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))),
    "flag": (pa.bool_(),),
    "seen": (pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC"), pa.date32(), pa.timestamp("ms", "Europe/Berlin")),
    "tags": (pa.list_(pa.string()),),
    **dict.fromkeys(("levels", "wave"), (pa.list_(pa.float64()), pa.large_list(pa.int64()))),
    **dict.fromkeys(("location", "spot"), (_POINT,)),
    **dict.fromkeys(("start", "valid_until"), (pa.timestamp("us", "UTC"),)),
    "phase": (pa.string(),),
}


class ArrowTables(EntryPoint):
    name = "arrow-tables"
    suffix = ".arrow"

    def seeds(self) -> list[bytes]:
        return [self.draw(Random(f"seed {i}")) for i in range(20)]

    def draw(self, random: Random) -> bytes:
        rows = random.choice((1, 1, 2, 3, 9, 12))
        wild = random.random() < 0.3
        times = [_NOON + random.randrange(5) for _ in range(rows)]
        columns = {
            "id": pa.array([f"p{i}" for i in range(rows)], random.choice((pa.string(), pa.large_string()))),
            "source": pa.array([random.choice(("z", "rain")) for _ in range(rows)]),
            "time": pa.array(times, pa.timestamp("us", "UTC")),
        }
        for _ in range(random.randrange(5)):
            name = random.choice(list(_USUAL))
            kind = random.choice(list(_VALUES)) if wild and random.random() < 0.4 else random.choice(_USUAL[name])
            values = _VALUES[kind] + (_WILD.get(kind, []) if wild else [])
            if name == "phase" and not wild:
                values = ["START", "END", "INSTANT"]
            columns[name] = _array([random.choice((*values, None)) for _ in range(rows)], kind)
        if wild and random.random() < 0.3:
            name = random.choice(("id", "source", "time", "event", ""))
            columns[name] = _array([None] * rows, random.choice(list(_VALUES)))
        if wild and random.random() < 0.2:
            del columns[random.choice(list(columns))]
        table = pa.table(columns)
        if rows > 2 and random.random() < 0.3:
            table = pa.concat_tables([table.slice(2), table.slice(0, 2)]).slice(random.randrange(3))
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return sink.getvalue()

    def check(self, data: bytes, clock: Clock, scratch: Path) -> str:
        table = pa.ipc.open_stream(data).read_all()
        with clock.within(0.05, "publishing a table"):
            found = engine().publish(table)
        ids, who = found["publication_ids"].to_pylist(), found["subscription_id"].to_pylist()
        if table.num_rows:
            objects = told([_object(row) for row in table.to_pylist()], clock)
            agreed({(id[0], one) for id, one in zip(ids, who, strict=True)}, objects, "told otherwise as objects")
        return ACCEPTED


def _array(values, kind):
    if kind == pa.dictionary(pa.int32(), pa.string()):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, kind)


def _object(row: dict) -> Publication:
    """A row as an object, in obvious steps. A table that was taken has no row that is none."""
    fields, attributes = {}, {}
    for name, value in row.items():
        if isinstance(value, dict):
            value = (value["lon"], value["lat"])
        elif type(value).__name__ == "Timestamp":  # nanoseconds come as pandas has them
            value = value.floor("us").to_pydatetime()
        elif type(value).__name__ == "Decimal":
            value = float(value)
        (fields if name in RESERVED and name != "event" else attributes)[name] = value
    try:
        return Publication(**fields, attributes=attributes)
    except PublicationError as wrong:
        raise AssertionError(f"a row of a table that was taken is no publication: {wrong}") from wrong
