"""What endpoints are sent: everything, once each in order, signed, while they answer, fail, hang and come back."""

from __future__ import annotations

import time

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks import Webhook

from tests.gateway.served import until
from tests.webhooks.receiver import Receiver, receiving
from tests.webhooks.sending import SETTINGS, posting, sending
from tidegate.webhooks.endpoint_delivery import echoes

PATIENCE = 30


def came(receiver, path, count):
    """The deliveries to a path, once there are so many."""
    until(lambda: len(receiver.told(path)) >= count, PATIENCE)
    return receiver.told(path)


def test_an_endpoint_is_verified_first_and_then_told_everything_in_order(tmp_path):
    with receiving() as receiver, posting(tmp_path) as world, world.client() as ann:
        secret = world.endpoint(ann, "hook", f"{receiver.url}/a")
        world.publish(ann, 40)
        found = came(receiver, "/a", 40)
        assert receiver.by_path["/a"][0].is_challenge
        assert [one.json["number"] for one in found] == list(range(1, 41))
        assert [one.json["publication"]["attributes"]["n"] for one in found] == list(range(40))
        epochs = {one.headers["webhook-id"].split("-")[0] for one in found}
        assert [one.headers["webhook-id"] for one in found] == [f"{epochs.copy().pop()}-{n}" for n in range(1, 41)]
        for one in receiver.by_path["/a"]:
            Webhook(secret).verify(one.body, one.headers)
        stands = world.until_state(ann, "hook", "active")
        assert (stands["failures"], stands["reason"]) == (0, None)
        assert "secret" not in stands
        same = ann.get("/v1/sessions/ann").json()["queues"]
        assert {one["destination"] for one in same} == {"stream", "webhook:hook"}


def test_another_sdk_reads_the_event(tmp_path):
    with receiving() as receiver, posting(tmp_path) as world, world.client() as ann:
        world.endpoint(ann, "hook", f"{receiver.url}/a")
        trace = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01", "tracestate": "a=b"}
        world.publish(ann, 1, source="hüt 7", **trace)
        (found,) = came(receiver, "/a", 1)
        event = from_http_event(HTTPMessage(found.headers, found.body))
        item = found.json
        assert event.get_id() == found.headers["webhook-id"]
        assert event.get_type() == "tidegate.notification"
        assert event.get_source() == "/principals/ann/webhooks/hook"
        assert event.get_subject() == "h%C3%BCt%207/p0"
        assert event.get_time().isoformat(timespec="microseconds").replace("+00:00", "Z") == item["matched_at"]
        assert event.get_data() == item
        assert {name: found.headers[name] for name in trace} == trace


def test_batches_have_as_many_items_and_bytes_as_they_may(tmp_path):
    with receiving() as receiver, posting(tmp_path) as world, world.client() as ann:
        receiver.answers["/few"] = receiver.answers["/small"] = 503
        world.endpoint(ann, "few", f"{receiver.url}/few", batch={"items": 4})
        world.endpoint(ann, "small", f"{receiver.url}/small", batch={"items": 100, "bytes": 600})
        world.publish(ann, 10)
        until(lambda: receiver.told("/few") and receiver.told("/small"), PATIENCE)
        receiver.answers.clear()

        def taken(path):
            found = {}
            for one in receiver.told(path):  # what was refused comes again
                found[one.headers["webhook-id"]] = [item["number"] for item in one.json["notifications"]]
            return found

        until(lambda: {n for numbers in taken("/few").values() for n in numbers} == set(range(1, 11)), PATIENCE)
        until(lambda: {n for numbers in taken("/small").values() for n in numbers} == set(range(1, 11)), PATIENCE)
        assert max(len(numbers) for numbers in taken("/few").values()) == 4
        assert max(len(numbers) for numbers in taken("/small").values()) in (2, 3)
        for path in ("/few", "/small"):
            for one in receiver.told(path):
                numbers = [item["number"] for item in one.json["notifications"]]
                assert numbers == list(range(numbers[0], numbers[-1] + 1))
                assert one.headers["webhook-id"].endswith(f"-{numbers[-1]}")
        assert all(len(one.body) < 600 + 30 for one in receiver.told("/small"))


def test_a_receiver_that_goes_away_gets_everything_once_it_is_back(tmp_path):
    with posting(tmp_path) as world, world.client() as ann:
        first = Receiver().start()
        world.endpoint(ann, "hook", f"{first.url}/a")
        world.publish(ann, 5)
        came(first, "/a", 5)
        first.stop()
        world.publish(ann, 20)
        until(lambda: world.stands(ann, "hook")["failures"] > 1, PATIENCE)
        second = Receiver(port=first.port).start()
        try:
            came(second, "/a", 20)
        finally:
            second.stop()
        both = first.numbers("/a") + second.numbers("/a")
        assert list(dict.fromkeys(both)) == list(range(1, 26))
        assert sorted(both) == both  # whatever comes twice comes at once


def test_failures_are_repeated_under_the_same_id_until_one_is_answered(tmp_path):
    with receiving() as receiver, posting(tmp_path) as world, world.client() as ann:
        answers = iter([500, 429, 503, 404])
        receiver.answers["/a"] = lambda request: next(answers, 204)
        world.endpoint(ann, "hook", f"{receiver.url}/a")
        world.publish(ann, 2)
        found = came(receiver, "/a", 6)
        assert [one.json["number"] for one in found] == [1, 1, 1, 1, 1, 2]
        assert len({one.headers["webhook-id"] for one in found[:5]}) == 1
        counts = world.sender.sender.counts
        until(lambda: counts.posts["answered"] == 3, PATIENCE)
        assert (counts.posts["status"], counts.retries["status"], counts.retries["answered"]) == (4, 3, 1)
        assert sum(counts.posts.values()) == len(receiver.received)
        assert counts.items["delivered"] == 2


def test_who_is_gone_is_asked_no_more_until_somebody_wants_it(tmp_path):
    with receiving() as receiver, posting(tmp_path) as world, world.client() as ann:
        receiver.answers["/a"] = 410
        world.endpoint(ann, "hook", f"{receiver.url}/a")
        world.publish(ann, 3)
        stands = world.until_state(ann, "hook", "disabled")
        assert stands["reason"] == "status 410: it wants no more"
        before = len(receiver.received)
        world.publish(ann, 3)
        time.sleep(0.5)
        assert len(receiver.received) == before
        receiver.answers.clear()
        assert ann.post("/v1/webhooks/hook/verify").status_code == 202
        came(receiver, "/a", 7)
        assert receiver.numbers("/a") == [1, 1, 2, 3, 4, 5, 6]
        assert sum(one.is_challenge for one in receiver.received) == 2


def test_an_endpoint_that_does_not_answer_the_challenge_is_told_nothing(tmp_path):
    with receiving() as receiver, posting(tmp_path) as world, world.client() as ann:
        receiver.refuses_challenges.add("/a")
        world.endpoint(ann, "hook", f"{receiver.url}/a")
        world.publish(ann, 3)
        until(lambda: world.stands(ann, "hook")["failures"] >= 3, PATIENCE)
        assert all(one.is_challenge for one in receiver.received)
        assert world.stands(ann, "hook")["reason"] == "the challenge did not come back"
        receiver.refuses_challenges.clear()
        assert came(receiver, "/a", 3)
        assert receiver.numbers("/a") == [1, 2, 3]


def test_one_that_is_never_verified_is_disabled(tmp_path):
    text = f"{SETTINGS}give_up_seconds = 0.3\n"
    with receiving() as receiver, posting(tmp_path, text) as world, world.client() as ann:
        receiver.refuses_challenges.add("/a")
        world.endpoint(ann, "hook", f"{receiver.url}/a")
        world.until_state(ann, "hook", "disabled")


def test_another_address_is_verified_and_goes_on_where_the_first_was(tmp_path):
    with receiving() as receiver, posting(tmp_path) as world, world.client() as ann:
        world.endpoint(ann, "hook", f"{receiver.url}/a")
        world.publish(ann, 3)
        came(receiver, "/a", 3)
        answer = ann.put("/v1/webhooks/hook", json={"url": f"{receiver.url}/b"})
        assert (answer.status_code, answer.json()["state"]) == (200, "unverified")
        world.until_state(ann, "hook", "active")
        world.publish(ann, 3)
        came(receiver, "/b", 3)
        assert (receiver.numbers("/a"), receiver.numbers("/b")) == ([1, 2, 3], [4, 5, 6])
        assert receiver.by_path["/b"][0].is_challenge


def test_both_secrets_sign_while_one_is_rotated(tmp_path):
    with receiving() as receiver, posting(tmp_path) as world, world.client() as ann:
        old = world.endpoint(ann, "hook", f"{receiver.url}/a")
        world.publish(ann, 1)
        came(receiver, "/a", 1)
        rotated = ann.post("/v1/webhooks/hook/rotate", json={}).json()
        assert rotated["secret"] != old
        assert rotated["old_secret_until"]
        until(lambda: world.sender.sender._deliveries["ann", "hook"].webhook.secret == rotated["secret"], PATIENCE)
        world.publish(ann, 1)
        both = came(receiver, "/a", 2)[-1]
        for secret in (old, rotated["secret"]):
            Webhook(secret).verify(both.body, both.headers)
        last = ann.post("/v1/webhooks/hook/rotate", json={"overlap": 0}).json()
        until(lambda: world.sender.sender._deliveries["ann", "hook"].webhook.secret == last["secret"], PATIENCE)
        world.publish(ann, 1)
        only = came(receiver, "/a", 3)[-1]
        Webhook(last["secret"]).verify(only.body, only.headers)
        assert len(only.headers["webhook-signature"].split(" ")) == 1


def test_a_sender_goes_on_at_the_cursor(tmp_path):
    with receiving() as receiver, posting(tmp_path) as world, world.client() as ann:
        world.endpoint(ann, "hook", f"{receiver.url}/a")
        world.publish(ann, 10)
        came(receiver, "/a", 10)
        world.sender.stop()
        world.publish(ann, 10)
        with sending(world.broker):
            came(receiver, "/a", 20)
        assert receiver.numbers("/a") == list(range(1, 21))
        assert sum(one.is_challenge for one in receiver.received) == 1


def test_what_is_left_out_is_told_as_it_is_elsewhere(tmp_path):
    with receiving() as receiver, posting(tmp_path) as world, world.client() as ann:
        receiver.answers["/a"] = 503
        world.endpoint(ann, "hook", f"{receiver.url}/a")
        world.publish(ann, 4)
        came(receiver, "/a", 1)
        for id in ("p1", "p2"):
            assert ann.delete("/v1/publications", params={"source": "hut", "id": id}).status_code == 204
        world.live.run()
        receiver.received.clear()
        receiver.by_path.clear()
        receiver.answers.clear()
        until(lambda: 6 in receiver.numbers("/a"), PATIENCE)
        found = [one.json for one in receiver.told("/a")]
        kinds = list(dict.fromkeys((one["type"], one["number"]) for one in found))
        assert kinds == [
            *(("notification", 1), ("skipped", 3), ("notification", 4), ("retracted", 5), ("retracted", 6)),
        ]
        assert {one.headers["ce-type"] for one in receiver.told("/a")} == {
            *("tidegate.notification", "tidegate.skipped", "tidegate.retracted"),
        }


def test_hanging_receivers_do_not_delay_others(tmp_path):
    settings = f"{SETTINGS}answer_seconds = 600\nposts = 4\nslow_posts = 2\nfailing_posts = 2\nendpoints = 1000\n"
    with receiving() as receiver, posting(tmp_path, settings) as world, world.client() as ann:
        for number in range(12):
            receiver.answers[f"/hangs{number}"] = None
            world.endpoint(ann, f"hangs{number}", f"{receiver.url}/hangs{number}")
        for number in range(4):
            world.endpoint(ann, f"lives{number}", f"{receiver.url}/lives{number}")
        world.publish(ann, 1)
        for number in range(4):
            came(receiver, f"/lives{number}", 1)
        for _ in range(3):
            world.publish(ann, 5)
        for number in range(4):
            came(receiver, f"/lives{number}", 16)
            assert receiver.numbers(f"/lives{number}") == list(range(1, 17))


@pytest.mark.parametrize("form", ["text", "quoted", "object"])
def test_a_challenge_may_come_back_in_three_forms(form):
    body = {"text": b"abc\n", "quoted": b'"abc"', "object": b'{"challenge":"abc","x":1}'}[form]
    assert echoes(body, "abc")
    for wrong in (b"", b"abcd", b'{"challenge":7}', b'{"challenge"', b"[]", b'{"other":"abc"}', b"\xff"):
        assert not echoes(wrong, "abc")


def test_who_was_unregistered_begins_anew(tmp_path):
    with receiving() as receiver, posting(tmp_path) as world, world.client() as ann:
        world.endpoint(ann, "hook", f"{receiver.url}/a")
        world.publish(ann, 3)
        came(receiver, "/a", 3)
        assert ann.delete("/v1/sessions/ann").status_code == 204
        world.publish(ann, 3)
        answer = ann.put("/v1/subscriptions/hook", json={"where": "n >= 0", "deliver": {"webhook": "hook"}})
        assert answer.status_code == 201
        world.live.run()
        world.publish(ann, 2)
        found = came(receiver, "/a", 5)
        assert [one.json["number"] for one in found] == [1, 2, 3, 1, 2]
        assert [one.json["publication"]["id"] for one in found] == ["p0", "p1", "p2", "p6", "p7"]
        assert len({one.headers["webhook-id"].split("-")[0] for one in found}) == 2


def test_an_endpoint_that_is_removed_is_told_no_more(tmp_path):
    with receiving() as receiver, posting(tmp_path) as world, world.client() as ann:
        receiver.answers["/a"] = 503
        world.endpoint(ann, "hook", f"{receiver.url}/a")
        world.publish(ann, 3)
        came(receiver, "/a", 1)
        assert ann.delete("/v1/subscriptions/hook").status_code == 204
        assert ann.delete("/v1/webhooks/hook").status_code == 204
        until(lambda: not world.sender.sender.states, PATIENCE)
        before = len(receiver.received)
        time.sleep(0.5)
        assert len(receiver.received) == before


@pytest.mark.thorough
def test_a_hundred_dead_endpoints_keep_nothing_from_a_hundred_that_live(tmp_path):
    with receiving() as receiver, posting(tmp_path, f"{SETTINGS}endpoints = 1000\n") as world, world.client() as ann:
        slow = iter(range(10**9))

        def late(request):
            time.sleep(0.0 if next(slow) % 7 else 0.05)
            return 200

        for number in range(100):
            dead, lives = f"/dead{number}", f"/lives{number}"
            receiver.answers[dead] = [None, 500, 302, late][number % 4]
            world.endpoint(ann, dead[1:], f"{receiver.url}{dead}")
            world.endpoint(ann, lives[1:], f"{receiver.url}{lives}")
        for _ in range(5):
            world.publish(ann, 4)
        until(lambda: all(len(receiver.told(f"/lives{number}")) >= 20 for number in range(100)), 120)
        for number in range(100):
            assert receiver.numbers(f"/lives{number}") == list(range(1, 21))
