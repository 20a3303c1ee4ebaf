"""``PostRooms``: how many requests are under way at once, with separate room for endpoints that fail and that are slow.

An endpoint that hangs costs its own place and never one of those that answer at once: what takes longer than a moment
goes on outside of the room that it began in, and the next time the endpoint waits with its like. Knows no endpoints.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from typing import NamedTuple

__all__ = ["MOMENT", "Place", "PostRooms", "Room", "RoomSizes"]

#: Seconds after which a request goes on outside of its room.
MOMENT = 1.0
#: How many may do so, by the size of the largest room.
_OUTSIDE = 4


class Room(Enum):
    """Where an endpoint waits for its turn: those that answer at once, those that take longer, those that fail."""

    QUICK = "quick"
    SLOW = "slow"
    FAILING = "failing"


class RoomSizes(NamedTuple):
    """Requests that are under way at once, by room."""

    quick: int
    slow: int
    failing: int


class Place:
    """A place that was taken in a room."""

    def __init__(self, rooms: PostRooms, room: asyncio.Semaphore) -> None:
        self._rooms, self._room, self._is_outside = rooms, room, False

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for it."""
        return not self._is_outside and self._room.locked()

    def move_out(self) -> None:
        """Leave the room for those that answer at once, and go on outside, if there is space."""
        if not self._is_outside and self._rooms.outside < self._rooms.most_outside:
            self._is_outside = True
            self._rooms.outside += 1
            self._room.release()

    def leave(self) -> None:
        """Give it back."""
        if self._is_outside:
            self._rooms.outside -= 1
        else:
            self._room.release()


class PostRooms:
    """The rooms of a sender."""

    def __init__(self, sizes: RoomSizes) -> None:
        self._rooms = {
            Room.QUICK: asyncio.Semaphore(sizes.quick),
            Room.SLOW: asyncio.Semaphore(sizes.slow),
            Room.FAILING: asyncio.Semaphore(sizes.failing),
        }
        self.outside, self.most_outside = 0, _OUTSIDE * max(sizes)

    @asynccontextmanager
    async def place(self, room: Room) -> AsyncIterator[Place]:
        """A place in a room, once there is one; given back at the end."""
        where = self._rooms[room]
        await where.acquire()
        place = Place(self, where)
        timer = None
        if room is Room.QUICK:
            timer = asyncio.get_running_loop().call_later(MOMENT, place.move_out)
        try:
            yield place
        finally:
            if timer is not None:
                timer.cancel()
            place.leave()
