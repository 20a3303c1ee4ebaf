"""The keys of an issuer as time passes: rotation, keys that vanish, an issuer that is away, how often it is asked."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from random import Random

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.mutations import mutated_json
from tests.gateway.issuing import KINDS, NAME, SigningKey
from tests.gateway.jwt_world import jwt_world, section
from tests.parts.profiles import examples
from tidegate.errors import SettingError
from tidegate.gateway.jwt_keys import KeySet
from tidegate.gateway.problems import RequestError
from tidegate.runs.issuer_sections import ALGORITHMS

ONE, TWO, THREE = (SigningKey(name, number=number) for number, name in enumerate(("one", "two", "three")))


def keys_of(world):
    return world.issuers._by_name[NAME].keys


def test_a_token_of_a_new_key_is_taken_once_the_keys_are_fetched_and_of_an_old_one_no_more(tmp_path):
    async def run():
        with jwt_world(tmp_path) as world:
            world.issuer.publish([ONE])
            await world.fetch()
            await world.access.refresh()
            old, new = world.issuer.token(), world.issuer.token("bob", key=TWO)
            assert [await world.judged(token) for token in (old, new)] == ["accepted", "key"]
            caller = world.access.find(old)
            assert world.access.is_valid(caller)
            world.issuer.publish([ONE, TWO])
            await world.fetch()
            assert [await world.judged(token) for token in (old, new)] == ["accepted", "accepted"]
            world.issuer.publish([TWO])
            await world.fetch()
            assert not world.access.is_valid(caller)
            assert [await world.judged(token) for token in (old, new)] == ["key", "accepted"]
            world.issuer.publish([SigningKey("two", number=2)])  # another key of that id
            await world.fetch()
            assert await world.judged(new) == "signature"

    asyncio.run(run())


def test_an_issuer_that_is_away_is_believed_for_a_while(tmp_path):
    async def run():
        with jwt_world(tmp_path, section(refresh=100.0, outage=50.0, max_lifetime=1e5)) as world:
            await world.fetch()
            token, states = world.issuer.token(exp=world.now + 5000), []
            world.is_away = True
            for later in (0, 100, 149, 31, 1):
                world.now += later
                await world.fetch()
                await world.access.refresh()
                found = await world.judged(token)
                states.append((keys_of(world).state, found))
                caller = world.access._known.find(token).caller
                assert world.access.is_valid(caller) is (found == "accepted")
            assert states == [
                ("stale", "accepted"),
                ("stale", "accepted"),
                ("lost", "503 keys"),
                ("lost", "503 keys"),
                ("lost", "503 keys"),
            ]
            world.is_away = False
            await world.fetch()
            await world.access.refresh()
            assert (keys_of(world).state, await world.judged(token)) == ("known", "accepted")

    asyncio.run(run())


def test_a_document_that_is_none_changes_nothing(tmp_path):
    async def run():
        with jwt_world(tmp_path) as world:
            await world.fetch()
            token = world.issuer.token()
            for wrong in ("", "[]", "{}", '{"keys": 5}', '{"keys": []}', '{"keys": [5, {"kty": "oct", "k": "AAAA"}]}'):
                world.issuer.file.write_text(wrong)
                await world.fetch()
                assert await world.judged(token) == "accepted"
                assert keys_of(world).error
            world.issuer.file.write_text('{"keys": [' + " " * 300_000 + "]}")
            await world.fetch()
            assert "262,144 bytes" in keys_of(world).error
            counted = {cause: count for name, cause, count in world.counts.items() if name == "issuer_keys"}
            assert counted == {"changed": 1, "failed": 7}

    asyncio.run(run())


def test_before_the_first_fetch_nobody_is_told_that_a_token_is_wrong(tmp_path):
    async def run():
        with jwt_world(tmp_path) as world:
            world.is_away = True
            await world.fetch()
            assert await world.judged(world.issuer.token()) == "503 keys"
            assert world.causes() == {}

    asyncio.run(run())


@asynccontextmanager
async def started(world):
    await world.issuers.start()
    try:
        yield
    finally:
        await world.issuers.stop()


def test_a_key_that_is_not_known_is_looked_for_once_however_many_tokens_name_it(tmp_path):
    async def run():
        with jwt_world(tmp_path) as world:
            async with started(world):
                assert await world.judged(world.issuer.token()) == "accepted"
                assert world.fetches == 1
                world.now += 5  # so long after a fetch another one may be
                world.issuer.publish([ONE, TWO])
                tokens = [world.issuer.token(f"p{number}", key=TWO) for number in range(20)]
                found = await asyncio.gather(
                    *(world.access.caller(token, f"198.51.100.{at}") for at, token in enumerate(tokens))
                )
                assert ([one.name for one in found], world.fetches) == ([f"p{number}" for number in range(20)], 2)
                strange = [world.issuer.token(key=THREE, jti=str(number)) for number in range(20)]
                assert {await world.judged(token, f"198.51.100.{at}") for at, token in enumerate(strange)} == {"key"}
                assert world.fetches == 2
                counted = {cause: count for name, cause, count in world.counts.items() if name == "issuer_keys"}
                assert counted == {"changed": 2, "too_soon": 20}

    asyncio.run(run())


def test_another_section_is_taken_and_what_one_that_is_gone_has_signed_holds_no_more(tmp_path):
    async def run():
        here = section()
        with jwt_world(tmp_path, here) as world:
            async with started(world):
                token = world.issuer.token()
                await world.access.refresh()
                assert await world.judged(token) == "accepted"
                caller = world.access.find(token)
                world.issuers.reload([section()])
                assert world.access.is_valid(caller)  # nothing has changed
                world.issuers.reload([section(audience=("another",))])
                assert not world.access.is_valid(caller)
                assert await world.judged(token) == "audience"
                world.is_away = True
                world.issuers.reload([section(audience=("another", "tidegate"))])
                assert await world.judged(token) == "accepted"  # its keys are known
                elsewhere = section(keys="/elsewhere.json")
                world.issuers.reload([elsewhere])
                assert await world.judged(token) == "503 keys"
                world.is_away = False
                world.issuers.reload([section()])
                assert await world.judged(token) == "accepted"
                caller = world.access.find(token)
                world.issuers.reload([])
                assert not world.access.is_valid(caller)
                with pytest.raises(RequestError, match="got another"):
                    await world.access.caller(token, "192.0.2.1")

    asyncio.run(run())


@examples(100)
@given(failures=st.integers(0, 40), refresh=st.floats(0, 1000), after=st.floats(0, 2000))
def test_when_keys_are_fetched_again(tmp_path_factory, failures, refresh, after):
    """Never within five seconds of a fetch that succeeded, whatever the section says, and a minute after one that did
    not at the latest.
    """

    async def run():
        with jwt_world(tmp_path_factory.mktemp("keys"), section(refresh=refresh)) as world:
            await world.fetch()
            world.is_away = failures > 0
            for _ in range(failures):
                await world.fetch()
            began, world.now = world.now, world.now + after
            wait = min(60, 2 ** (failures - 1)) if failures else max(refresh, 5)
            return keys_of(world).due_in, max(0, wait - (world.now - began)), keys_of(world).may_be_asked_in, after

    due_in, wanted, may_be_in, after = asyncio.run(run())
    assert due_in == pytest.approx(wanted, abs=1e-3)
    assert may_be_in == pytest.approx(max(0, 5 - after), abs=1e-3)


def test_of_two_keys_of_one_id_both_are_tried_and_of_more_the_first_two(tmp_path):
    same = [SigningKey("same", number=number) for number in range(3)]

    async def run():
        with jwt_world(tmp_path) as world:
            world.issuer.publish(same)
            await world.fetch()
            return [await world.judged(world.issuer.token(key=one)) for one in same]

    assert asyncio.run(run()) == ["accepted", "accepted", "signature"]


@examples(200)
@given(seed=st.integers(0, 2**32))
def test_a_drawn_document_is_a_set_of_keys_or_refused_and_never_anything_else(seed):
    random = Random(seed)
    several = [SigningKey(kind, kind).public() for kind in KINDS]
    drawn = mutated_json({"keys": several}, random, [None, 5, "", "AQAB", "A" * 5000, [], {}, "RSA", "P-256", "oct"])
    try:
        found = KeySet.parsed(orjson.dumps(drawn), "here")
    except SettingError:
        return
    assert 0 < len(found) <= 128
    for one in found.keys:
        fits = [algorithm for algorithm in ALGORITHMS if one.fits(algorithm)]
        assert fits or one.algorithm is not None  # of a type that is known, unless it is for something else
        assert not any(one.has_signed(b"", b"", algorithm) for algorithm in fits)


def test_a_set_of_keys_is_another_when_a_key_or_what_it_is_for_is():
    def parsed(*keys):
        return KeySet.parsed(orjson.dumps({"keys": keys}), "here")

    assert parsed(ONE.public(), TWO.public()) == parsed(TWO.public(), ONE.public(more=1))
    assert parsed(ONE.public()) != parsed(TWO.public())
    assert parsed(ONE.public()) != parsed(ONE.public(kid="two"))
    assert parsed(ONE.public()) != parsed(ONE.public(alg="ES256"))
    assert len({parsed(ONE.public()), parsed(ONE.public())}) == 1
