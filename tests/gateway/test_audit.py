"""The audit under a flood: who has no valid token fills no log, and hides nobody who has one."""

from __future__ import annotations

import json
import logging
from collections import Counter

import anyio
import pytest

from tests.gateway.broker import client_of, opened, token
from tidegate.gateway.audit import Audit
from tidegate.gateway.counts import Counts


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lines(caplog):
    """The lines that were written until now, of which the next call has no more."""
    caplog.set_level(logging.INFO, "tidegate.audit")

    def taken():
        found = [json.loads(record.message) for record in caplog.records if record.name == "tidegate.audit"]
        caplog.clear()
        return found

    return taken


def refuse(audit, count, address="192.0.2.1", **who):
    for _ in range(count):
        audit.refused("authenticate", "no token", address=address, **who)


def left_out(found):
    return {(one.get("address"), one.get("principal")): one["count"] for one in found if one["result"] == "left out"}


def test_of_an_address_the_first_are_written_and_the_rest_is_counted_when_the_minute_is_over(clock, lines):
    counts = Counts()
    audit = Audit(clock, counts)
    refuse(audit, 5000)
    assert [one["result"] for one in lines()] == ["refused"] * 5
    clock.now = 59.9
    audit.tick()
    assert lines() == []
    clock.now = 60.0
    audit.tick()
    [said] = lines()
    assert said.pop("at").endswith("Z")
    assert said == {"what": "refusals", "result": "left out", "address": "192.0.2.1", "count": 4995}
    assert counts.items() == [("access_refused", "left_out", 4995), ("access_refused", "written", 5)]
    refuse(audit, 1)
    assert [one["result"] for one in lines()] == ["refused"]
    clock.now = 1000.0
    audit.tick()
    assert lines() == []


def test_addresses_are_counted_apart_and_networks_of_ipv6_together(clock, lines):
    audit = Audit(clock)
    refuse(audit, 6, "192.0.2.1")
    refuse(audit, 5, "192.0.2.2")
    for number in range(9):
        refuse(audit, 1, f"2001:db8::{number}")
    refuse(audit, 1, "2001:db8:0:1::1")
    audit.close()
    found = lines()
    written = Counter(one["address"].partition("::")[0] for one in found if one["result"] == "refused")
    assert written == {"192.0.2.1": 5, "192.0.2.2": 5, "2001:db8": 5, "2001:db8:0:1": 1}
    assert left_out(found) == {("192.0.2.1", None): 1, ("2001:db8::/64", None): 4}


def test_addresses_that_a_socket_of_both_versions_tells_are_those_of_ipv4(clock, lines):
    audit = Audit(clock)
    refuse(audit, 6, "::ffff:192.0.2.1")
    refuse(audit, 5, "::ffff:192.0.2.2")
    audit.close()
    assert left_out(lines()) == {("192.0.2.1", None): 1}


def test_many_addresses_fill_no_log_either(clock, lines):
    audit = Audit(clock)
    for number in range(3000):
        refuse(audit, 7, f"10.0.{number // 256}.{number % 256}")
    audit.close()
    found = lines()
    assert len(found) == 200 * (5 + 1) + 1
    told = left_out(found)
    assert told.pop(("other addresses", None)) == 2800 * 7
    assert set(told.values()) == {2}


def test_a_flood_hides_no_principal(clock, lines):
    audit = Audit(clock)
    refuse(audit, 10_000)
    refuse(audit, 3001, principal="ann", token="t1")
    refuse(audit, 2, principal="bob", token="t2")
    refuse(audit, 1, principal="others", token="t3")
    audit.close()
    found = lines()
    assert Counter(one.get("principal") for one in found if one["result"] == "refused") == {
        None: 5,
        "ann": 3000,
        "bob": 2,
        "others": 1,
    }
    assert left_out(found) == {("192.0.2.1", None): 9_995, (None, "ann"): 1}


def test_requests_without_a_token_and_with_a_wrong_one_are_counted_and_told_at_the_end(tmp_path, lines):
    async def asked():
        with opened(tmp_path) as broker:
            ann = token(broker, "ann", ["subscriber"])
            async with client_of(broker) as client:
                for headers in (*[{}] * 10, *[{"Authorization": "Bearer tdg_wrong"}] * 3):
                    assert (await client.get("/v1/sources", headers=headers)).status_code == 401
                assert (await client.get("/v1/principals", headers=ann)).status_code == 403
                before = lines()
                assert left_out(before) == {}
            return before + lines()

    found = anyio.run(asked)
    assert Counter((one["what"], one["result"]) for one in found) == {
        ("authenticate", "refused"): 5,
        ("GET /v1/principals", "refused"): 1,
        ("refusals", "left out"): 1,
    }
    assert left_out(found) == {("127.0.0.1", None): 8}
