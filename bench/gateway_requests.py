"""Requests that publish, as bytes that were made beforehand: only the number in them changes from one to the next.

A source is a client of one run of the bench, and the ids of its publications follow from the number of the request and
the place in it. So what the log must have is known without keeping what was sent.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

__all__ = ["PublishRequests", "post_request"]

#: The media type of each form of a body.
MEDIA_TYPES = {
    "object": "application/json",
    "array": "application/json",
    "NDJSON": "application/x-ndjson",
    "Arrow": "application/vnd.apache.arrow.stream",
}
#: What stands for the number of a request until it is known; as long as any number.
_NUMBER, _DIGITS = b"########", b"%08d"
_TIME = "2026-11-01T08:00:00Z"


def post_request(address: tuple[str, int], token: str, media_type: str, body: bytes) -> bytes:
    """A whole request that publishes what is in a body."""
    lines = (
        "POST /v1/publications HTTP/1.1",
        f"Host: {address[0]}:{address[1]}",
        f"Authorization: Bearer {token}",
        f"Content-Type: {media_type}",
        f"Content-Length: {len(body)}",
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode() + body


@dataclass(frozen=True)
class PublishRequests:
    """The requests of one client: each with ``events`` publications of ``source`` in the form ``form``."""

    address: tuple[str, int]
    token: str
    source: str
    form: str
    events: int

    def numbered(self, number: int) -> bytes:
        """The whole request of a number."""
        return self._template.replace(_NUMBER, _DIGITS % number)

    def ids(self, count: int) -> Iterator[str]:
        """The ids of all publications of the first requests."""
        for number in range(count):
            for place in range(self.events):
                yield f"{number:08d}-{place}"

    @property
    def body_size(self) -> int:
        """The bytes of a body."""
        return len(self._body)

    @cached_property
    def _template(self) -> bytes:
        return post_request(self.address, self.token, MEDIA_TYPES[self.form], self._body)

    @cached_property
    def _body(self) -> bytes:
        publications = self._publications()
        if self.form == "object":
            return orjson.dumps(publications[0])
        if self.form == "array":
            return orjson.dumps(publications)
        if self.form == "NDJSON":
            return b"".join(orjson.dumps(one) + b"\n" for one in publications)
        stream, table = io.BytesIO(), pa.Table.from_pylist(publications)
        time = table.schema.get_field_index("time")
        table = table.set_column(time, "time", table["time"].cast(pa.timestamp("us", "UTC")))
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        return stream.getvalue()

    def _publications(self) -> list[dict[str, Any]]:
        values = np.random.default_rng(self.events).uniform(0, 100, (self.events, 4)).round(2).tolist()
        return [
            {
                "id": f"{_NUMBER.decode()}-{place}",
                "source": self.source,
                "time": _TIME,
                "station": f"station-{place}",
                "no2": no2,
                "pm10": pm10,
                "humidity": humidity,
                "temperature": temperature,
            }
            for place, (no2, pm10, humidity, temperature) in enumerate(values)
        ]
