"""Messages become publications: acknowledged once these are durable, in the order of the messages, whatever fails."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mqtt.bridged import bridged, counted, looped
from tests.mqtt.fake_mqtt_broker import properties
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
        assert stored == (1, [("tidegate/publications/#", 0b000101)])
        assert live == (2, [("tidegate/publications/#", 0b101101)])
        assert requests == (None, [("tidegate/requests/+", 0b100101)])


@looped
async def test_a_session_that_goes_on_is_not_told_again_what_was_stored(tmp_path):
    async with bridged(tmp_path, has_session=True) as w:
        await w.connected()
        assert [id for id, _ in w.mqtt.subscriptions] == [None, 2]


@looped
async def test_an_mqtt_broker_without_ids_of_subscriptions_gets_none(tmp_path):
    async with bridged(tmp_path, has_ids=0) as w:
        await w.connected()
        assert [id for id, _ in w.mqtt.subscriptions] == [None, None, None]
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
async def test_a_quota_slows_messages_down_and_refuses_none(tmp_path):
    async with bridged(tmp_path) as w:
        await w.connected()
        w.broker.principals.put("mqtt", quotas={"publications_per_second": 5})
        from tidegate.mqtt.publisher import Publisher

        publisher = w.bridge._incoming._publisher = Publisher(w.broker, w.broker.config.mqtt)
        assert publisher.caller.quotas["publications_per_second"] == 5
        for number in range(1, 13):
            w.mqtt.send("tidegate/publications/z7", b'{"no2": 41}', number)
            await asyncio.sleep(0.02)
        await w.mqtt.until(lambda: len(w.mqtt.acknowledged) == 12)
        assert {reason for _, reason in w.mqtt.acknowledged} == {0}
        assert counted(w.broker, "mqtt_retried")["rate"] >= 1


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
    stored, live = properties(SubscriptionIdentifier=1), properties(SubscriptionIdentifier=2)
    async with bridged(tmp_path, "retained_seconds = 3600") as w:
        await w.connected()
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
