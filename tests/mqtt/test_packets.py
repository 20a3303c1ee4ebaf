"""Packets as paho has them, an independent implementation: properties, what is sent, and what is read however it is
cut. Bytes that are no packet are one kind of error.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.mqtt.fake_mqtt_broker import field, packet, properties
from tests.parts.profiles import examples
from tidegate.mqtt.packet_properties import Property, packed_properties, properties_at
from tidegate.mqtt.packet_reader import PacketReader
from tidegate.mqtt.packets import (
    Accepted,
    Acknowledged,
    Disconnected,
    Login,
    Message,
    Pong,
    Subscribed,
    Subscription,
    Will,
    acknowledgement,
    again,
    connecting,
    disconnecting,
    publishing,
    subscribing,
)
from tidegate.mqtt.wire_fields import LARGEST_VARIABLE, WrongPacket, variable_at, with_variable

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
PUBLISHED = st.fixed_dictionaries(
    {},
    optional={
        "MessageExpiryInterval": st.integers(1, 2**32 - 1),
        "ContentType": TEXTS,
        "ResponseTopic": TEXTS,
        "CorrelationData": st.binary(max_size=20),
        "UserProperty": st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3),
        "PayloadFormatIndicator": st.integers(0, 1),
        "SubscriptionIdentifier": st.integers(1, LARGEST_VARIABLE),
    },
)
OURS = {
    "MessageExpiryInterval": Property.MESSAGE_EXPIRY,
    "ContentType": Property.CONTENT_TYPE,
    "ResponseTopic": Property.RESPONSE_TOPIC,
    "CorrelationData": Property.CORRELATION_DATA,
    "UserProperty": Property.USER,
    "PayloadFormatIndicator": Property.PAYLOAD_IS_TEXT,
    "SubscriptionIdentifier": Property.SUBSCRIPTION_ID,
}


def ours(given_properties):
    """The same under the names that they have here."""
    found = {OURS[name]: value for name, value in given_properties.items()}
    if Property.SUBSCRIPTION_ID in found:
        found[Property.SUBSCRIPTION_ID] = [found[Property.SUBSCRIPTION_ID]]
    return found


@examples(60)
@given(PUBLISHED)
def test_properties_are_read_as_paho_writes_them_and_written_as_paho_reads_them(values):
    theirs = properties(**values)
    assert properties_at(theirs, 0, len(theirs)) == (ours(values), len(theirs))
    mine = packed_properties(ours(values))
    read = Properties(PacketTypes.PUBLISH)
    _, size = read.unpack(mine)
    assert size == len(mine)
    for name, value in values.items():
        got = getattr(read, name)
        assert (list(map(tuple, got)) if name == "UserProperty" else got) in (value, [value])


@examples(60)
@given(st.integers(0, LARGEST_VARIABLE))
def test_numbers_of_variable_length_come_back(number):
    written = with_variable(number)
    assert variable_at(written, 0, len(written)) == (number, len(written))
    assert len(written) == 1 + (number >= 128) + (number >= 128**2) + (number >= 128**3)


MESSAGES = st.builds(
    lambda topic, payload, number, retain, repeated, values: Message(
        topic, payload, 1 if number else 0, retain, repeated, number, ours(values)
    ),
    TEXTS,
    st.binary(max_size=300),
    st.integers(0, 65_535),
    st.booleans(),
    st.booleans(),
    PUBLISHED,
)
OTHERS = st.one_of(
    st.builds(Acknowledged, st.integers(1, 65_535), st.sampled_from([0, 16, 135])),
    st.builds(lambda n, r: Subscribed(n, tuple(r)), st.integers(1, 65_535), st.lists(st.integers(0, 255), max_size=3)),
    st.just(Pong()),
    st.builds(lambda one, reason: Accepted(one, reason, {}), st.booleans(), st.integers(0, 255)),
    st.builds(lambda reason: Disconnected(reason, {}), st.integers(0, 255)),
)


def written(one):
    """A packet as a broker would write it, by the standard."""
    match one:
        case Message():
            values = {name: one.properties[number] for name, number in OURS.items() if number in one.properties}
            if "SubscriptionIdentifier" in values:
                [values["SubscriptionIdentifier"]] = values["SubscriptionIdentifier"]
            number = one.packet.to_bytes(2, "big") if one.qos else b""
            first = 0x30 | one.qos << 1 | one.retain | one.is_repeated << 3
            return packet(first, field(one.topic.encode()) + number + properties(**values) + one.payload)
        case Acknowledged():
            return packet(0x40, one.packet.to_bytes(2, "big") + (bytes([one.reason, 0]) if one.reason else b""))
        case Subscribed():
            return packet(0x90, one.packet.to_bytes(2, "big") + b"\0" + bytes(one.reasons))
        case Pong():
            return b"\xd0\0"
        case Accepted():
            return packet(0x20, bytes([one.has_session, one.reason, 0]))
        case Disconnected():
            return packet(0xE0, bytes([one.reason, 0]))


@examples(80)
@given(st.lists(MESSAGES | OTHERS, max_size=8), st.lists(st.integers(0, 2000), max_size=12))
def test_packets_are_read_however_their_bytes_are_cut(packets, cuts):
    data = b"".join(map(written, packets))
    reader, found = PacketReader(1 << 20), []
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for begin, end in zip(places, [*places[1:], len(data)], strict=True):
        found += reader.read(data[begin:end])
    assert found == packets


@examples(30)
@given(st.integers(70_000, 400_000), st.integers(1, 65_535), st.integers(1, 70_000))
def test_of_a_message_that_is_too_large_the_head_is_read_and_what_follows_is_whole(size, number, piece):
    large = Message("a/b", b"x" * size, 1, True, False, number)
    data = written(large) + written(Pong()) + written(large._replace(payload=b"y")) + written(Pong())
    reader, found = PacketReader(1000), []
    for at in range(0, len(data), piece):
        found += reader.read(data[at : at + piece])
        assert len(reader._kept) < 70_000
    assert found == [large._replace(payload=b"", is_whole=False), Pong(), large._replace(payload=b"y"), Pong()]


@examples(300)
@given(st.binary(max_size=60), st.booleans())
def test_bytes_that_are_no_packet_are_an_error_of_ours_or_not_there_yet(data, is_message):
    reader = PacketReader(1 << 20)
    try:
        found = reader.read(packet(0x32, data) if is_message else data)
    except WrongPacket:
        found = []
    assert all(type(one) in (Message, Acknowledged, Subscribed, Pong, Accepted, Disconnected) for one in found)


@pytest.mark.parametrize(
    "data",
    [
        packet(0x34, field(b"a") + b"\0\1\0"),  # QoS 2
        packet(0x32, field(b"a") + b"\0\0\0"),  # no number
        packet(0x32, field(b"\xff") + b"\0\1\0"),  # no UTF-8
        packet(0x30, field(b"a\0b") + b"\0"),
        packet(0x30, field(b"a") + b"\1\x01\x01"),  # a property that ends beyond all of them
        packet(0x30, field(b"a") + b"\4\x01\x01\x01\x01"),  # twice
        packet(0x30, field(b"a") + b"\2\x7f\x01"),  # no such property
        packet(0x10, b""),
        b"\x30\xff\xff\xff\xff\xff",
        b"\x90\xff\xff\xff\x7f" + bytes(70_000),  # very large, and no message
    ],
)
def test_wrong_packets_are_refused(data):
    with pytest.raises(WrongPacket):
        PacketReader(1000).read(data)


def test_what_a_client_sends_is_as_the_standard_has_it():
    assert acknowledgement(258) == b"\x40\x02\x01\x02"
    assert acknowledgement(258, 135) == b"\x40\x03\x01\x02\x87"
    assert disconnecting() == b"\xe0\x00"
    assert disconnecting(4) == b"\xe0\x01\x04"
    assert publishing(b"a/b", b"pay", 10) == b"\x32\x0b\x00\x03a/b\x00\x0a\x00pay"
    assert again(publishing(b"a/b", b"pay", 10, retain=True))[0] == 0x3B
    wanted = [Subscription("a/#"), Subscription("b", 1, True, 2)]
    assert subscribing(1, wanted, 5) == b"\x82\x0f\x00\x01\x02\x0b\x05\x00\x03a/#\x05\x00\x01b\x2d"
    login = Login("me", 60, {Property.SESSION_EXPIRY: 1}, "u", b"secret", Will("w", b"off"))
    assert connecting(login) == packet(
        0x10,
        b"\x00\x04MQTT\x05\xec\x00\x3c\x05\x11\x00\x00\x00\x01\x00\x02me\x00\x00\x01w\x00\x03off\x00\x01u\x00\x06secret",
    )
    assert "secret" not in repr(login)


def test_a_field_that_is_too_long_is_refused():
    with pytest.raises(WrongPacket, match="at most 65,535 bytes"):
        packed_properties({Property.CONTENT_TYPE: "x" * 70_000})
    with pytest.raises(WrongPacket, match="at most 268,435,455"):
        with_variable(2**28)
