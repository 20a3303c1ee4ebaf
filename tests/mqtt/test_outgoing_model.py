"""``Outgoing`` under any order of deliveries, acknowledgements, refusals and lost connections, held against a model:
a cursor never passes a number that nobody has acknowledged, and in the end every number was.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.parts.profiles import examples
from tidegate.broker.encoded_items import EncodedItem
from tidegate.gateway.counts import Counts
from tidegate.mqtt.outgoing import Outgoing
from tidegate.mqtt.packet_reader import PacketReader
from tidegate.mqtt.packets import Acknowledged, Message
from tidegate.runs.mqtt_section import MqttAddress, MqttSection

NAMES = ("ann", "bob")


class Connection:
    """The other end: it knows which messages it has, by their numbers, and checks that they are not too many."""

    largest_packet = 10_000

    def __init__(self, receive_maximum, has_session):
        self.receive_maximum, self.has_session = receive_maximum, has_session
        self.is_writable, self.is_lost = True, False
        self.held: dict[int, Message] = {}

    def send(self, data):
        for one in PacketReader(1 << 20).read(data):
            assert one.packet not in self.held
            self.held[one.packet] = one
        assert len(self.held) <= self.receive_maximum


class Queue:
    """A principal's queue: so many items, and a cursor. ``read`` gives its channel what follows what it was given."""

    def __init__(self, name):
        self.name, self.last, self.cursor, self.given = name, 0, 0, 0
        self.acknowledged = set()
        self.channel = None

    def acknowledge(self, number):
        assert self.cursor <= number <= self.last
        assert self.acknowledged >= set(range(1, number + 1)), "a cursor that passes what nobody has acknowledged"
        self.cursor = number


class World:
    def __init__(self):
        self.counts, self.clock = Counts(), lambda: 0
        section = MqttSection(MqttAddress("b", 1, False), send=5)
        self.outgoing = Outgoing(self, section, self.ended)
        self.queues = {name: Queue(name) for name in NAMES}
        self.connection, self.sent = None, Counter()

    def ended(self, channel):
        queue = self.queues[channel.principal]
        if queue.channel is channel:
            queue.channel = None

    def attach(self):
        """What the bridge and ``Delivery`` do: channels from the cursors, and pages for those that are not full."""
        for queue in self.queues.values():
            if queue.channel is None and self.connection is not None:
                queue.channel = self.outgoing.channel(queue.name)
                queue.channel.connection, queue.channel.epoch, queue.given = queue, "e", queue.cursor
            channel = queue.channel
            if channel is not None and not channel.is_full and queue.given < queue.last:
                upto = min(queue.last, queue.given + 3)
                body = b'{"type":"notification","number":%d}'
                items = [EncodedItem("notification", n, body % n) for n in range(queue.given + 1, upto + 1)]
                queue.given = upto
                channel.deliver(items)

    def connect(self, receive_maximum, has_session):
        self.lose()
        self.connection = Connection(receive_maximum, has_session)
        self.outgoing.begin(self.connection)

    def lose(self):
        if self.connection is not None:
            self.connection.is_lost = True
            self.connection = None
            self.outgoing.pause()

    def answer(self, place, reason):
        """Acknowledge one of the messages that the other end has."""
        if self.connection is None or not self.connection.held:
            return
        packet = sorted(self.connection.held)[place % len(self.connection.held)]
        message = self.connection.held.pop(packet)
        name, number = message.topic.rpartition("/")[2], int(dict(message.properties[38])["number"])
        if reason < 128:
            self.queues[name].acknowledged.add(number)
        self.outgoing.acknowledged([Acknowledged(packet, reason)])


STEPS = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(NAMES), st.integers(1, 5)),
    st.tuples(st.just("answer"), st.integers(0, 5), st.sampled_from([0, 0, 0, 16, 135, 149, 153])),
    st.tuples(st.just("answer"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("connect"), st.integers(1, 6), st.booleans()),
    st.tuples(st.just("lose")),
    st.tuples(st.just("stay away")),
)


@examples(150)
@given(st.lists(STEPS, max_size=40))
def test_cursors_follow_acknowledgements_and_in_the_end_all_is_told(steps):
    failures = []

    async def work():
        world = World()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
        for name, *values in [*steps, ("connect", 3, True)]:
            match name:
                case "publish":
                    world.queues[values[0]].last += values[1]
                case "answer":
                    world.answer(*values)
                case "connect":
                    world.connect(*values)
                case "lose":
                    world.lose()
                case "stay away":
                    world.lose()
                    world.outgoing._lost_at = float("-inf")
            for _ in range(3):
                world.attach()
                await asyncio.sleep(0)
        for _ in range(400):
            world.attach()
            await asyncio.sleep(0)
            world.answer(0, 0)
        assert {one.name: one.cursor for one in world.queues.values()} == {
            one.name: one.last for one in world.queues.values()
        }
        assert world.outgoing.in_flight == 0

    asyncio.run(work())
    assert failures == []
