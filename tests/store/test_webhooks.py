"""Webhooks in the registry's database: their secrets, their changes, how they stand, beside older registries."""

from __future__ import annotations

import os
import stat

import pytest
from sqlalchemy import text

import tidegate as tg
from tests.formats.test_formats import RELEASES
from tests.formats.write import unpacked
from tidegate.errors import ConflictError, SettingError
from tidegate.store.database import Database
from tidegate.store.database_url import address
from tidegate.store.principals import Principals
from tidegate.store.registry import Registry
from tidegate.store.schema import SchemaPart
from tidegate.store.webhook_secrets import made
from tidegate.store.webhook_tables import PART, Batch, DeadLetters, Progress
from tidegate.store.webhooks import StoredWebhooks, TooManyWebhooks

NOW = 1_763_193_600_000_000
URL = "https://example.com/hook"


def put(webhooks, name="hook", url=URL, principal="ann", **more):
    return webhooks.put(principal, name, url, **{"batch": None, "secret": None, "most": 3} | more)


@pytest.mark.contract
def test_they_are_made_changed_and_removed_and_each_change_is_heard_of(url):
    with StoredWebhooks(url, clock=lambda: NOW) as here, StoredWebhooks(url, clock=lambda: NOW) as there:
        changes = [here.changes]
        first, is_new = put(here)
        changes.append(there.changes)
        assert is_new
        assert (first.url, first.batch, first.progress, first.created) == (URL, None, Progress(), NOW)
        assert put(there) == (first, False)
        assert there.changes == changes[-1]  # nothing was changed
        batched, is_new = put(there, batch=Batch(7, 1000))
        changes.append(here.changes)
        assert (is_new, batched.batch, batched.secret) == (False, Batch(7, 1000), first.secret)
        rotated = here.rotate("ann", "hook", None, 60.0)
        changes.append(there.changes)
        assert rotated.secrets_at(NOW) == (rotated.secret, first.secret)
        assert rotated.secrets_at(NOW + 60_000_000) == (rotated.secret,)
        assert here.rotate("ann", "other", None, 60.0) is here.ask_verification("ann", "other") is None
        assert there.find("ann", "hook") == rotated
        assert there.find("bob", "hook") is there.find("ann", "\0") is None
        assert there.remove("ann", "hook")
        changes.append(here.changes)
        assert not here.remove("ann", "hook")
        assert changes == sorted(set(changes))


@pytest.mark.contract
def test_how_one_stands_is_written_unless_it_was_changed_meanwhile(url):
    with StoredWebhooks(url, clock=lambda: NOW) as webhooks:
        first, _ = put(webhooks)
        failing = Progress("failing", 7, NOW, NOW + 5, "status 500", NOW, None, True)
        webhooks.save([(first, failing)])
        assert webhooks.find("ann", "hook").progress == failing
        assert put(webhooks, batch=Batch(2, 100)).webhook.progress == failing
        webhooks.save([(first, Progress("disabled"))])  # of before
        assert webhooks.find("ann", "hook").progress == failing
        moved = put(webhooks, url="https://example.org/").webhook
        assert moved.progress == Progress()
        webhooks.save([(moved, failing)])
        assert webhooks.ask_verification("ann", "hook").progress == Progress()
        assert webhooks.by_state() == {"unverified": 1, "active": 0, "failing": 0, "disabled": 0}
        webhooks.save([(webhooks.find("ann", "hook"), failing)])
        assert [one.name for one in webhooks.failing(9)] == ["hook"]
        assert webhooks.by_state()["failing"] == 1


@pytest.mark.contract
def test_each_principal_has_its_own_and_so_many_at_most(url):
    with StoredWebhooks(url) as webhooks:
        for name in ("c", "a", "b"):
            put(webhooks, name)
        with pytest.raises(TooManyWebhooks, match="at most 3 webhooks of ann"):
            put(webhooks, "d")
        put(webhooks, "b", batch=Batch(2, 2))
        put(webhooks, "a", principal="bob")
        assert [one.name for one in webhooks.page("ann", "", 2)] == ["a", "b"]
        assert [one.name for one in webhooks.page("ann", "b", 2)] == ["c"]
        assert len(webhooks.all()) == 4
        webhooks.dead.add("ann", "a", DeadLetters("e", 1, 9, "x", NOW))
        webhooks.ask_replay("ann", "a", "e", 1, 9)
        with Principals(url) as principals:
            principals.remove("ann")
        assert [(one.principal, one.name) for one in webhooks.all()] == [("bob", "a")]
        assert webhooks.replays() == webhooks.dead.page("ann", "a", 0, 9) == []


@pytest.mark.contract
def test_replays_are_kept_until_they_are_done(url):
    with StoredWebhooks(url, clock=lambda: NOW) as webhooks:
        put(webhooks)
        first = webhooks.ask_replay("ann", "hook", "e", 3, 9)
        assert (first.position, first.upto, first.asked_at) == (2, 9, NOW)
        webhooks.step_replay(first, 5)
        assert webhooks.replays() == [first._replace(position=5)]
        for _ in range(9):
            webhooks.ask_replay("ann", "hook", "e", 1, 1)
        with pytest.raises(TooManyWebhooks, match="at most 10 replays"):
            webhooks.ask_replay("ann", "hook", "e", 1, 1)
        webhooks.step_replay(first, 9)
        assert first.id not in {one.id for one in webhooks.replays()}


def test_secrets_are_chosen_once_and_are_in_no_text(tmp_path):
    with StoredWebhooks(tmp_path / "registry.db") as webhooks:
        mine = made()
        found, _ = put(webhooks, secret=mine)
        assert found.secret == mine
        assert put(webhooks, secret=mine).webhook == found
        with pytest.raises(ConflictError, match="a rotation") as caught:
            put(webhooks, secret=made())
        with pytest.raises(SettingError):
            put(webhooks, "other", secret="whsec_short")
        with pytest.raises(SettingError):
            webhooks.rotate("ann", "hook", "whsec_short", 0)
        rotated = webhooks.rotate("ann", "hook", None, 9)
        for shown in (repr(found), str(found), repr(rotated), str(caught.value), repr(webhooks)):
            assert mine not in shown
            assert rotated.secret not in shown


def test_a_rotation_may_be_repeated_and_ends_no_secret_that_a_receiver_may_still_have(tmp_path):
    moment = [NOW]
    with StoredWebhooks(tmp_path / "registry.db", clock=lambda: moment[0]) as webhooks:
        first, second, third = put(webhooks).webhook.secret, made(), made()
        rotated = webhooks.rotate("ann", "hook", second, 60.0)
        changes = webhooks.changes
        assert webhooks.rotate("ann", "hook", second, 60.0) == webhooks.rotate("ann", "hook", second, 0) == rotated
        with pytest.raises(ConflictError, match="overlap 0") as caught:
            webhooks.rotate("ann", "hook", third, 60.0)
        assert third not in str(caught.value)
        assert webhooks.find("ann", "hook").secrets_at(NOW) == (second, first)
        assert webhooks.changes == changes
        moment[0] += 60_000_000
        assert webhooks.rotate("ann", "hook", third, 60.0).secrets_at(moment[0]) == (third, second)
        assert webhooks.rotate("ann", "hook", first, 0).secrets_at(moment[0]) == (first,)


def test_to_verify_what_is_not_there_is_no_change(tmp_path):
    with StoredWebhooks(tmp_path / "registry.db") as webhooks:
        changes = webhooks.changes
        assert webhooks.ask_verification("ann", "hook") is None
        assert webhooks.changes == changes


def test_old_secrets_are_removed_from_the_database(tmp_path):
    moment = [NOW]
    with StoredWebhooks(tmp_path / "registry.db", clock=lambda: moment[0]) as webhooks:
        first = put(webhooks).webhook.secret
        webhooks.rotate("ann", "hook", None, 10)
        webhooks.forget_old_secrets()
        assert webhooks.find("ann", "hook").old_secret == first
        moment[0] += 10_000_000
        webhooks.forget_old_secrets()
        assert webhooks.find("ann", "hook").old_secret is None


def test_the_file_of_a_database_with_secrets_is_its_owners(tmp_path):
    path = tmp_path / "registry.db"
    with Registry(path) as registry, StoredWebhooks(registry) as webhooks:
        os.chmod(path, 0o644)
        put(webhooks)
        for file in tmp_path.glob("registry.db*"):
            if file.is_file() and not file.name.endswith(".lock"):
                assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_one_that_a_subscription_names_stays(tmp_path):
    with Registry(tmp_path / "registry.db") as registry, StoredWebhooks(registry) as webhooks:
        put(webhooks)
        put(webhooks, principal="bob")
        registry.subscribe([tg.Subscription("s", "ann", "n > 1", deliver={"webhook": "hook"})])
        with pytest.raises(ConflictError, match="one that 's' delivers to; at webhook 'hook'"):
            webhooks.remove("ann", "hook")
        assert webhooks.remove("bob", "hook")
        registry.unsubscribe("ann/s")
        assert webhooks.remove("ann", "hook")


@pytest.mark.parametrize("release", RELEASES)
def test_they_are_kept_beside_the_registry_of_a_release(release, tmp_path):
    path = unpacked(release, "registry", tmp_path) / "registry.db"
    with Registry(path) as registry, StoredWebhooks(registry) as webhooks:
        there = len(registry)
        assert put(webhooks).is_new
        assert len(registry) == there > 0


def test_those_of_a_newer_tidegate_are_refused(tmp_path):
    path = tmp_path / "registry.db"
    with StoredWebhooks(path) as webhooks:
        put(webhooks)
    newer = SchemaPart("webhooks", (*PART.steps, lambda connection: connection.execute(text("SELECT 1"))))
    database = Database(address(path), newer.prepare)
    database.open()
    database.close()
    with pytest.raises(tg.TidegateError, match="version 2, made by a newer Tidegate"):
        StoredWebhooks(path)
