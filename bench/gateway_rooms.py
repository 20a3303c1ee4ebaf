"""Publications for rooms, each of which has many readers: which one comes when, and what a reader in a room must get.

Publication n for a room has the id ``ROOM:n``, n from 1 on, so it is delivery n of everybody in that room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from bench.gateway_requests import post_request

__all__ = ["Rooms", "room_name"]


def room_name(room: int) -> str:
    """The name of a room by its number."""
    return f"r{room:03d}"


@dataclass(frozen=True)
class Rooms:
    """Publications for rooms in turn: ``count`` of them, ``batch`` in a post, so many a second."""

    address: tuple[str, int]
    token: str
    rooms: int
    count: int
    batch: int
    rate: float

    def request(self, first: int, count: int) -> bytes:
        """The publications from a number on; number n is for room n mod ``rooms``."""
        body = orjson.dumps([self._publication(number) for number in range(first, first + count)])
        return post_request(self.address, self.token, "application/json", body)

    def _publication(self, number: int) -> dict[str, Any]:
        turn, room = divmod(number, self.rooms)
        values = {"no2": number % 97 + 0.25, "pm10": number % 89 + 0.5, "temperature": number % 31 + 0.75}
        return {"id": f"{room_name(room)}:{turn + 1}", "source": "rooms", "room": room_name(room), **values}
