"""Messages become publications: acknowledged once these are durable, in the order of the messages, whatever fails."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mqtt.bridged import bridged, bridging, counted, looped
from tests.mqtt.fake_mqtt_broker import fake_mqtt_broker, properties
from tests.parts.profiles import examples
from tidegate.errors import StoreError


def publications(world):
    """What the log has, as it is shown."""
    from tidegate.store.log_rows import LogRows

    log = world.broker.log
    with LogRows(world.broker.data.log) as rows:
        return rows.publications(range(log.begin, log.end))


@looped
async def test_a_bridge_logs_in_with_a_session_and_subscribes_to_what_there_is_and_comes(tmp_path):
    async with bridged(
        tmp_path, 'keep_alive = 7\nsession_seconds = 60\nreceive = 33\nusername = "u"\npassword = "p"'
    ) as w:
        await w.connected()
        [login] = w.mqtt.logins
        assert (login["id"], login["clean"], login["keep_alive"]) == ("bridge", False, 7)
        assert (login["SessionExpiryInterval"], login["ReceiveMaximum"]) == (60, 33)
        assert login["rest"].endswith(b"\x00\x01u\x00\x01p")
        assert b"tidegate/status" in login["rest"]
        assert b"offline" in login["rest"]
        requests, stored, live = w.mqtt.subscriptions
        assert stored[1] == [("tidegate/publications/#", 0b000101)]
        assert live[1] == [("tidegate/publications/#", 0b101101)]
        assert requests[1] == [("tidegate/requests/+", 0b100101)]
        assert len({requests[0], stored[0], live[0]}) == 3


@looped
async def test_a_session_that_goes_on_is_told_once_what_was_stored_also_if_the_first_connection_breaks(tmp_path):
    requests, publications = "tidegate/requests/+", "tidegate/publications/#"
    async with bridged(tmp_path) as w:
        await w.connected()
        [stored, live] = w.mqtt.ids(publications)
        w.mqtt.has_session = True
        for expected in ([requests, publications], [requests, publications, publications]):
            w.mqtt.subscriptions.clear()
            w.mqtt.published.clear()
            w.mqtt.cut()
            await w.connected()
            assert [filters[0][0] for _, filters in w.mqtt.subscriptions] == expected
            assert w.mqtt.ids(publications) == [stored, live][-len(expected) + 1 :]
            w.bridge._subscriptions._fetched.clear()  # as it is if the connection had broken before that was answered


RULES = """
[[mqtt.rules]]
topic = "a/+"
[[mqtt.rules]]
topic = "a/#"
"""


@looped
async def test_a_copy_is_taken_until_it_is_known_that_the_one_that_counts_comes_as_well(tmp_path):
    """What was sent before a rule was there lies in the session, as a copy of another rule alone."""
    (tmp_path / "new").mkdir()
    async with bridged(tmp_path / "new", RULES) as w:  # with a session that begins with all of them
        await w.connected()
        [_, narrow], [_, wide] = w.mqtt.ids("a/+"), w.mqtt.ids("a/#")
        for number, id in ((1, narrow), (2, wide)):
            w.mqtt.send("a/x", b'{"n": 1}', number, properties(SubscriptionIdentifier=id))
        await w.mqtt.until(lambda: len(w.mqtt.acknowledged) == 2)
        assert counted(w.broker, "mqtt_received") == {"taken": 1, "overlapping": 1}

    (tmp_path / "going on").mkdir()
    async with bridged(tmp_path / "going on", RULES, has_session=True) as w:  # of which nothing is known here
        await w.connected()
        for number, id in enumerate((wide, narrow, wide), 1):
            w.mqtt.send("a/x", b'{"n": 1}', number, properties(SubscriptionIdentifier=id))
            await w.mqtt.until(lambda: len(w.mqtt.acknowledged) == number)  # noqa: B023  (it is called at once)
        assert counted(w.broker, "mqtt_received") == {"taken": 2, "overlapping": 1}

    (tmp_path / "refused").mkdir()
    async with bridged(tmp_path / "refused", RULES, refuses={"a/+"}) as w:
        await w.connected()
        for number in (1, 2):
            w.mqtt.send("a/x", b'{"n": 1}', number, properties(SubscriptionIdentifier=wide))
        await w.mqtt.until(lambda: len(w.mqtt.acknowledged) == 2)
        assert counted(w.broker, "mqtt_received") == {"taken": 2}


@looped
async def test_a_rule_that_was_removed_is_unsubscribed(tmp_path):
    async with fake_mqtt_broker() as (mqtt, port):
        for rules in (RULES, RULES.replace("a/+", "b/+")):
            text = f'[mqtt]\naddress = "mqtt://127.0.0.1:{port}"\nclient_id = "bridge"\n{rules}'
            async with bridging(tmp_path, text):
                await mqtt.until(lambda: any(one.payload == b"online" for one in mqtt.published))
            mqtt.published.clear()
            mqtt.has_session = True
    assert mqtt.given_up == ["a/+"]
    assert [len(mqtt.ids(one)) for one in ("a/+", "a/#", "b/+")] == [2, 3, 2]


@looped
async def test_what_is_dropped_with_its_connection_is_not_appended_when_the_quota_lets_it(tmp_path, monkeypatch):
    async with bridged(tmp_path, has_session=True) as w:
        await w.connected()
        waits = asyncio.Event()
        monkeypatch.setattr(w.broker.free_room, "is_full", lambda: waits.set() or w.mqtt.logins[1:] == [])
        w.mqtt.send("tidegate/publications/z7", b'{"n": 1}', 1)
        await waits.wait()
        w.mqtt.cut()
        await w.mqtt.until(lambda: len(w.mqtt.logins) == 2 and w.mqtt.writer)
        w.mqtt.send("tidegate/publications/z7", b'{"n": 1}', 1, is_repeated=True)
        await w.mqtt.until(lambda: w.mqtt.acknowledged)
        assert len(publications(w)) == 1


@looped
async def test_an_answer_to_a_subscription_is_waited_for_only_while_anything_is_read(tmp_path, monkeypatch):
    from tidegate.mqtt import mqtt_connection

    monkeypatch.setattr(mqtt_connection, "_PATIENCE", 0.1)
    monkeypatch.setattr(mqtt_connection, "_TURN", 0.05)
    async with bridged(tmp_path) as w:
        await w.connected()
        connection = w.bridge._connection
        connection.hold(True)
        asyncio.get_running_loop().call_later(0.3, connection.hold, False)
        assert await connection.unsubscribe("a/+") == (0,)
        w.mqtt._unsubscribe = lambda body, writer: None
        with pytest.raises(mqtt_connection.MqttLost):
            await connection.unsubscribe("a/+")


@looped
async def test_an_mqtt_broker_without_ids_of_subscriptions_gets_none(tmp_path):
    async with bridged(tmp_path, has_ids=0) as w:
        await w.connected()
        assert [id for id, _ in w.mqtt.subscriptions] == [None] * 3
        w.mqtt.send("tidegate/publications/z7", b'{"no2": 41}', 5, retain=True)
        await w.mqtt.until(lambda: w.mqtt.acknowledged)
        assert ["valid_until" in one for one in publications(w)] == [True]


@looped
async def test_a_message_is_acknowledged_when_its_publication_is_durable_and_not_before(tmp_path, monkeypatch):
    async with bridged(tmp_path) as w:
        await w.connected()
        log, may_go_on = w.broker.log, threading.Event()
        append = log.append_all

        def slow(*arguments):
            may_go_on.wait(30)
            return append(*arguments)

        monkeypatch.setattr(log, "append_all", slow)
        w.mqtt.send("tidegate/publications/z7", b'{"id": "a", "no2": 41}', 5)
        w.mqtt.send("tidegate/publications/z7", b"{", 6)
        w.mqtt.send("tidegate/publications/z8", b'{"id": "a", "no2": 42}', 7)
        await asyncio.sleep(0.3)
        assert w.mqtt.acknowledged == []  # also not of the one that is refused at once: it is not its turn
        may_go_on.set()
        await w.mqtt.until(lambda: len(w.mqtt.acknowledged) == 3)
        assert w.mqtt.acknowledged == [(5, 0), (6, 153), (7, 0)]
        assert [(one["source"], one["attributes"]) for one in publications(w)] == [
            ("z7", {"no2": 41}),
            ("z8", {"no2": 42}),
        ]
        assert counted(w.broker, "mqtt_received") == {"taken": 2, "json": 1}


@looped
async def test_the_same_message_again_is_taken_once_if_it_has_an_id(tmp_path):
    async with bridged(tmp_path) as w:
        await w.connected()
        for number, is_repeated in ((1, False), (2, True)):
            w.mqtt.send("tidegate/publications/z7", b'{"id": "a", "no2": 41}', number, is_repeated=is_repeated)
        w.mqtt.send("tidegate/publications/z7", b'{"no2": 41}', 3)
        w.mqtt.send("tidegate/publications/z7", b'{"no2": 41}', 4, is_repeated=True)
        await w.mqtt.until(lambda: len(w.mqtt.acknowledged) == 4)
        assert [reason for _, reason in w.mqtt.acknowledged] == [0, 0, 0, 0]
        assert len(publications(w)) == 3  # without an id it is at least once


@pytest.mark.parametrize("error", [StoreError("a log that can be written", "none"), OSError(5, "broken")])
@looped
async def test_what_cannot_be_appended_now_is_tried_again_and_not_acknowledged_meanwhile(tmp_path, monkeypatch, error):
    async with bridged(tmp_path) as w:
        await w.connected()
        append, failures = w.broker.log.append_all, iter([error, error])

        def broken(*arguments):
            for wrong in failures:
                raise wrong
            return append(*arguments)

        monkeypatch.setattr(w.broker.log, "append_all", broken)
        w.mqtt.send("tidegate/publications/z7", b'{"no2": 41}', 1)
        await w.mqtt.until(lambda: w.mqtt.acknowledged)
        assert w.mqtt.acknowledged == [(1, 0)]
        assert len(publications(w)) == 1
        assert counted(w.broker, "mqtt_retried") == {"store": 2}


@looped
async def test_a_message_that_breaks_something_is_refused_alone(tmp_path, monkeypatch):
    async with bridged(tmp_path) as w:
        await w.connected()
        append = w.broker.log.append_all

        def broken(lots, *more):
            if any(one.source == "bad" for lot in lots for one in lot.publications):
                raise ZeroDivisionError
            return append(lots, *more)

        monkeypatch.setattr(w.broker.log, "append_all", broken)
        for number, source in enumerate(("z1", "bad", "z2"), 1):
            w.mqtt.send(f"tidegate/publications/{source}", b'{"no2": 41}', number)
        await w.mqtt.until(lambda: len(w.mqtt.acknowledged) == 3)
        assert w.mqtt.acknowledged == [(1, 0), (2, 131), (3, 0)]


@looped
async def test_a_full_disk_holds_messages_back(tmp_path, monkeypatch):
    async with bridged(tmp_path) as w:
        await w.connected()
        is_full = iter([True, False])
        monkeypatch.setattr(w.broker.free_room, "is_full", lambda: next(is_full, False))
        w.mqtt.send("tidegate/publications/z7", b'{"no2": 41}', 1)
        await w.mqtt.until(lambda: w.mqtt.acknowledged)
        assert counted(w.broker, "mqtt_retried") == {"full": 1}
        assert counted(w.broker, "refused") == {}


@looped
async def test_a_quota_slows_messages_down_and_refuses_none(tmp_path, monkeypatch):
    from tidegate.mqtt import incoming
    from tidegate.mqtt.publisher import Publisher

    sizes, publish = [], incoming.publish
    monkeypatch.setattr(incoming, "publish", lambda *given: sizes.append(len(given[2])) or publish(*given))
    async with bridged(tmp_path) as w:
        await w.connected()
        w.broker.principals.put("mqtt", quotas={"publications_per_second": 5})
        publisher = w.bridge._incoming._publisher = Publisher(w.broker, w.broker.config.mqtt)
        assert publisher.caller.quotas["publications_per_second"] == 5
        for number in range(1, 13):
            w.mqtt.send("tidegate/publications/z7", b'{"no2": 41}', number)
        await w.mqtt.until(lambda: len(w.mqtt.acknowledged) == 12)
        assert {reason for _, reason in w.mqtt.acknowledged} == {0}
        assert counted(w.broker, "mqtt_retried")["rate"] >= 1
        assert max(sizes) <= 5  # no more than a second brings: the rest may come again meanwhile


@looped
async def test_sources_that_the_section_does_not_allow_are_refused(tmp_path):
    async with bridged(tmp_path, 'sources = ["z*"]') as w:
        await w.connected()
        w.mqtt.send("tidegate/publications/z7", b'{"no2": 41}', 1)
        w.mqtt.send("tidegate/publications/y7", b'{"no2": 41}', 2)
        w.mqtt.send("tidegate/publications/z7", b'{"no2": 41, "source": "z8"}', 3)
        await w.mqtt.until(lambda: len(w.mqtt.acknowledged) == 3)
        assert w.mqtt.acknowledged == [(1, 0), (2, 135), (3, 135)]
        assert [one["source"] for one in publications(w)] == ["z7"]


@looped
async def test_after_a_lost_connection_nothing_of_it_is_acknowledged_to_the_next(tmp_path, monkeypatch):
    async with bridged(tmp_path, has_session=True) as w:
        await w.connected()
        may_go_on, append = threading.Event(), w.broker.log.append_all
        monkeypatch.setattr(w.broker.log, "append_all", lambda *given: may_go_on.wait(30) and append(*given))
        w.mqtt.send("tidegate/publications/z7", b'{"id": "a"}', 1)
        await asyncio.sleep(0.2)
        w.mqtt.cut()
        await w.mqtt.until(lambda: len(w.mqtt.logins) == 2 and w.mqtt.writer)
        w.mqtt.send("tidegate/publications/z7", b'{"id": "b"}', 1)  # the number means another message now
        may_go_on.set()
        await w.mqtt.until(lambda: w.mqtt.acknowledged)
        await asyncio.sleep(0.2)
        assert w.mqtt.acknowledged == [(1, 0)]
        assert [one["id"] for one in publications(w)] == ["a", "b"]


@looped
async def test_what_is_stored_has_an_identity_of_its_own_and_is_valid(tmp_path):
    async with bridged(tmp_path, "retained_seconds = 3600") as w:
        await w.connected()
        ids = w.mqtt.ids("tidegate/publications/#")
        stored, live = (properties(SubscriptionIdentifier=id) for id in ids)
        for number, (more, payload) in enumerate([(stored, b"20"), (stored, b"20"), (live, b"20"), (live, b"20")], 1):
            w.mqtt.send("tidegate/publications/door", payload, number, more, retain=True)
        w.mqtt.send("tidegate/publications/door", b"", 5, live, retain=True)
        w.mqtt.send("tidegate/publications/door", b"20", 6, live)
        await w.mqtt.until(lambda: len(w.mqtt.acknowledged) == 6)
        assert [reason for _, reason in w.mqtt.acknowledged] == [0] * 6
        found = publications(w)
        assert [one["id"].startswith("retained-") for one in found] == [True, False, False, False]
        assert ["valid_until" in one for one in found] == [True, True, True, False]
        assert counted(w.broker, "mqtt_received") == {"taken": 5, "cleared": 1}


@looped
async def test_a_message_that_is_too_large_is_refused_without_being_kept(tmp_path):
    async with bridged(tmp_path, serve="[serve]\nmax_publication = 100000") as w:
        await w.connected()
        w.mqtt.send("tidegate/publications/z7", json.dumps({"x": "y" * 3_000_000}).encode(), 1)
        w.mqtt.send("tidegate/publications/z7", json.dumps({"x": "y" * 120_000}).encode(), 2)
        w.mqtt.send("tidegate/publications/z7", b'{"no2": 1}', 3)
        await w.mqtt.until(lambda: len(w.mqtt.acknowledged) == 3)
        assert w.mqtt.acknowledged == [(1, 131), (2, 131), (3, 0)]
        assert counted(w.broker, "mqtt_received") == {"too_large": 2, "taken": 1}


KINDS = {"good": 0, "again": 0, "json": 153, "source": 135, "empty": 0, "request": 135}


@examples(6)
@given(st.lists(st.lists(st.sampled_from(sorted(KINDS)), max_size=30), max_size=5), st.lists(st.booleans(), max_size=6))
def test_whatever_comes_is_acknowledged_once_in_its_order_and_taken_once(tmp_path_factory, pieces, failures):
    """Pieces of messages, and whether an append fails."""

    @looped
    async def work():
        async with bridged(tmp_path_factory.mktemp("drawn")) as w:
            await w.connected()
            append, fails = w.broker.log.append_all, iter(failures)

            def broken(*given_lots):
                if next(fails, False):
                    raise StoreError("a log that can be written", "none")
                return append(*given_lots)

            w.broker.log.append_all = broken
            expected, number = [], 0
            for piece in pieces:
                for kind in piece:
                    number += 1
                    expected.append((number, KINDS[kind]))
                    topic = "tidegate/requests/ann" if kind == "request" else "tidegate/publications/z"
                    item = {"id": "same" if kind == "again" else f"{number}"}
                    item |= {"source": "other"} if kind == "source" else {}
                    payload = {"json": b"{", "empty": b""}.get(kind, json.dumps(item).encode())
                    w.mqtt.send(topic, payload, number, retain=kind == "empty")
                await asyncio.sleep(0.01)
            await w.mqtt.until(lambda: len(w.mqtt.acknowledged) == number)
            assert w.mqtt.acknowledged == expected
            kinds = [kind for piece in pieces for kind in piece]
            ids = [f"{place}" for place, kind in enumerate(kinds, 1) if kind == "good"]
            found = [one["id"] for one in publications(w)]
            assert [id for id in found if id != "same"] == ids
            assert found.count("same") == ("again" in kinds)

    work()


@looped
async def test_bytes_that_are_no_packet_end_the_connection_and_the_bridge_connects_again(tmp_path):
    async with bridged(tmp_path) as w:
        await w.connected()
        w.mqtt.writer.write(b"\x32\x05\x00\xff123")
        await w.mqtt.until(lambda: len(w.mqtt.logins) == 2)
        assert w.mqtt.disconnected == [129]
