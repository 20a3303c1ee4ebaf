"""Rooms: so many at once in each, and what takes longer than a moment leaves its place to others, up to a limit."""

from __future__ import annotations

import asyncio

from tidegate.webhooks import post_rooms
from tidegate.webhooks.post_rooms import PostRooms, Room, RoomSizes


async def taken(rooms, room, count):
    """So many who want a place and keep it until they are told: the places that were given, and the tasks."""
    places, over = [], asyncio.Event()

    async def one():
        async with rooms.place(room) as place:
            places.append(place)
            await over.wait()

    tasks = [asyncio.create_task(one()) for _ in range(count)]
    await asyncio.sleep(0.02)
    return places, tasks, over


def test_each_room_has_its_own_places():
    async def work():
        rooms = PostRooms(RoomSizes(3, 2, 1))
        found = {room: await taken(rooms, room, 5) for room in Room}
        assert {room: len(places) for room, (places, _, _) in found.items()} == {
            Room.QUICK: 3,
            Room.SLOW: 2,
            Room.FAILING: 1,
        }
        assert all(place.is_wanted for places, _, _ in found.values() for place in places)
        for places, tasks, over in found.values():
            over.set()
            await asyncio.gather(*tasks)
            assert len(places) == 5
            assert not places[0].is_wanted

    asyncio.run(work())


def test_who_takes_long_goes_on_outside_and_only_so_many_may(monkeypatch):
    monkeypatch.setattr(post_rooms, "MOMENT", 0.01)

    async def work():
        rooms = PostRooms(RoomSizes(2, 1, 1))
        places, tasks, over = await taken(rooms, Room.QUICK, 30)
        while rooms.outside < 8 or len(places) < 10:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert (rooms.outside, rooms.most_outside, len(places)) == (8, 8, 10)
        over.set()
        await asyncio.gather(*tasks)
        assert (rooms.outside, len(places)) == (0, 30)
        again, tasks, over = await taken(rooms, Room.FAILING, 2)
        await asyncio.sleep(0.05)
        assert len(again) == 1  # nobody leaves that room before the end
        over.set()
        await asyncio.gather(*tasks)

    asyncio.run(work())


def test_a_place_is_given_back_whatever_ends_the_work():
    async def work():
        rooms = PostRooms(RoomSizes(1, 1, 1))
        for _ in range(3):
            _, tasks, _ = await taken(rooms, Room.QUICK, 2)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        async with rooms.place(Room.QUICK) as place:
            assert not place._is_outside
        assert rooms.outside == 0

    asyncio.run(work())
