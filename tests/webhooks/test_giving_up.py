"""What cannot be given for too long is given up, listed, and sent again by its numbers."""

from __future__ import annotations

import random

import pytest

from tests.gateway.served import until
from tests.webhooks.receiver import receiving
from tests.webhooks.sending import SETTINGS, posting
from tidegate.store.dead_letters import DeadLetterBook
from tidegate.store.webhook_tables import DeadLetters
from tidegate.store.webhooks import StoredWebhooks

PATIENCE = 30
SHORT = f"{SETTINGS}give_up_seconds = 0.6\nfailing_after = 2\n"


def dead(client, name="hook", **query):
    answer = client.get(f"/v1/webhooks/{name}/dead", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["dead"]


def ranges(found):
    return [(one["from"], one["to"]) for one in found]


def test_one_delivery_that_is_never_taken_does_not_hold_the_others_up_for_ever(tmp_path):
    with receiving() as receiver, posting(tmp_path, SHORT) as world, world.client() as ann:
        receiver.answers["/a"] = lambda request: 400 if request.json["number"] == 2 else 200
        world.endpoint(ann, "hook", f"{receiver.url}/a")
        world.publish(ann, 4)
        until(lambda: set(receiver.numbers("/a")) == {1, 2, 3, 4}, PATIENCE)
        (found,) = until(lambda: dead(ann), PATIENCE)
        assert (found["from"], found["to"], found["reason"]) == (2, 2, "status 400")
        world.until_state(ann, "hook", "active")
        last_two = receiver.numbers("/a")[-2:]
        assert last_two == [3, 4]
        assert world.sender.sender.counts.dead["given_up"] == 1


def test_what_a_dead_endpoint_was_to_be_told_is_given_up_once_it_is_too_old(tmp_path):
    with receiving() as receiver, posting(tmp_path, SHORT) as world, world.client() as ann:
        world.endpoint(ann, "hook", f"{receiver.url}/a")
        world.publish(ann, 2)
        until(lambda: receiver.numbers("/a") == [1, 2], PATIENCE)
        receiver.answers["/a"] = 500
        world.publish(ann, 200)
        assert until(lambda: ranges(dead(ann)) == [(3, 202)], PATIENCE)
        tries = len(receiver.told("/a"))
        assert tries < 60  # and not one for each
        assert world.stands(ann, "hook")["state"] == "failing"
        receiver.answers.clear()
        world.publish(ann, 1)
        until(lambda: receiver.numbers("/a")[-1] == 203, PATIENCE)
        before = len(receiver.told("/a"))
        again = ann.post("/v1/webhooks/hook/replay", json={"from": 1, "to": 202})
        assert (again.status_code, again.json()["from"], again.json()["to"]) == (202, 1, 202)
        until(lambda: len(receiver.told("/a")) == before + 202, PATIENCE)
        assert receiver.numbers("/a")[before:] == list(range(1, 203))
        assert until(lambda: dead(ann) == [], PATIENCE)
        until(lambda: world.broker.webhooks.replays() == [], PATIENCE)


def test_what_is_sent_again_comes_beside_what_is_new(tmp_path):
    with receiving() as receiver, posting(tmp_path) as world, world.client() as ann:
        world.endpoint(ann, "hook", f"{receiver.url}/a", batch={"items": 5})
        world.publish(ann, 50)

        def told():
            return [item["number"] for one in receiver.told("/a") for item in one.json["notifications"]]

        until(lambda: len(told()) == 50, PATIENCE)
        until(lambda: ann.post("/v1/webhooks/hook/replay", json={"from": 11, "to": 40}).status_code == 202, PATIENCE)
        world.publish(ann, 20)
        until(lambda: len(told()) == 100, PATIENCE)
        new, again = ([n for n in told()[50:] if (n > 50) == is_new] for is_new in (True, False))
        assert (new, again) == (list(range(51, 71)), list(range(11, 41)))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"from": 1, "to": 9}, "webhook"),
        ({"from": 3, "to": 2}, "webhook"),
        ({"from": 0, "to": 1}, "body"),
        ({}, "body"),
    ],
)
def test_what_cannot_be_sent_again_is_refused(body, code, tmp_path):
    with receiving() as receiver, posting(tmp_path) as world, world.client() as ann:
        world.endpoint(ann, "hook", f"{receiver.url}/a")
        assert ann.post("/v1/webhooks/hook/replay", json={"from": 1, "to": 1}).status_code in (409, 422)
        world.publish(ann, 3)
        until(lambda: receiver.numbers("/a") == [1, 2, 3], PATIENCE)
        answer = ann.post("/v1/webhooks/hook/replay", json=body)
        assert answer.status_code in (400, 422)
        assert answer.json()["code"] == code


def test_ranges_are_kept_as_sets_of_numbers_are(tmp_path):
    """What the book of dead letters has is what a set has to which the same was done."""
    draw = random.Random(5)
    with StoredWebhooks(tmp_path / "registry.db") as webhooks:
        book, wanted = DeadLetterBook(webhooks._database, 1_000), set()
        for step in range(150):
            begin = draw.randrange(1, 60)
            upto = begin + draw.randrange(8)
            if draw.random() < 0.6:
                book.add("ann", "hook", DeadLetters("e", begin, upto, draw.choice("xy"), step))
                wanted |= set(range(begin, upto + 1))
            else:
                book.remove("ann", "hook", "e", begin, upto)
                wanted -= set(range(begin, upto + 1))
            found = [n for one in book.page("ann", "hook", 0, 1_000) for n in range(one.begin, one.upto + 1)]
            assert found == sorted(wanted)
        pages, after = [], 0
        while page := book.page("ann", "hook", after, 2):
            pages += page
            after = page[-1].upto
        assert pages == book.page("ann", "hook", 0, 1_000)
        assert book.page("bob", "hook", 0, 9) == []


def test_of_too_many_ranges_the_oldest_are_forgotten_and_counted(tmp_path):
    with StoredWebhooks(tmp_path / "registry.db") as webhooks:
        book = DeadLetterBook(webhooks._database, 3)
        forgotten = [book.add("ann", "hook", DeadLetters("e", n, n + 1, "x", n)) for n in range(1, 50, 10)]
        assert [(one.ranges, one.deliveries) for one in forgotten] == [(0, 0), (0, 0), (0, 0), (1, 2), (1, 2)]
        assert [one.begin for one in book.page("ann", "hook", 0, 9)] == [21, 31, 41]
