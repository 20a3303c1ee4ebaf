"""The first administrator's token: made once and shown once, or what the environment says at each start."""

from __future__ import annotations

import pytest

import tidegate as tg
from tidegate.errors import ConflictError
from tidegate.gateway.first_token import FirstToken, first_token
from tidegate.store.data_directory import DataDirectory
from tidegate.store.principal_tables import ROLES
from tidegate.store.principals import Principals


@pytest.fixture
def data(tmp_path):
    found = DataDirectory.made(tmp_path / "data", "process")
    found.run.mkdir()
    return found


@pytest.fixture
def principals(data):
    with Principals(data.registry) as found:
        yield found


def test_one_is_made_at_the_first_start_only(data, principals):
    first = first_token(principals, data, {})
    holder = principals.holder(first.made)
    assert (holder.principal.name, sorted(holder.token.roles)) == ("admin", sorted(ROLES))
    assert first_token(principals, data, {}) == FirstToken(None, False)
    principals.revoke(holder.token.id)
    assert first_token(principals, data, {}).made not in (None, first.made)


@pytest.mark.parametrize(
    "given", ["0123456789abcdef", "!" * 16, "tdg_and something".replace(" ", "-"), f"tdg_{43 * 'a'}", "~" * 1024]
)
def test_that_of_the_environment_holds_at_every_start(data, principals, given):
    for _ in range(3):
        assert first_token(principals, data, {"TIDEGATE_TOKEN": given}) == FirstToken(None, True)
        assert "administrator" in principals.holder(given).token.roles
    assert len(principals.tokens()) == 1
    assert given.encode() not in data.registry.read_bytes() + (data.run / "token").read_bytes()


def test_another_one_takes_its_place(data, principals):
    before = first_token(principals, data, {})
    for given in ("the-first-of-them", "the-second-of-them", "the-first-of-them"):
        first_token(principals, data, {"TIDEGATE_TOKEN": given})
        holding = [one for one in ("the-first-of-them", "the-second-of-them") if principals.holder(one)]
        assert holding == [given]
    assert principals.holder(before.made)


def test_one_that_an_administrator_has_is_taken_and_never_revoked(data, principals):
    mine = principals.make_token("ann", ["administrator"]).secret
    for given in ("one-of-the-environment", mine, "one-of-the-environment"):
        assert first_token(principals, data, {"TIDEGATE_TOKEN": given}).is_given
        assert principals.holder(mine).principal.name == "ann"


def test_what_is_none_is_refused_without_being_shown(data, principals):
    weak = principals.make_token("bob", ["publisher"], secret="the-secret-of-bob").secret
    for given, error, says in [
        ("short", tg.SettingError, "16 to 1024 characters as a secret; got 5; at TIDEGATE_TOKEN"),
        ("with a blank in it", tg.SettingError, "visible ASCII characters as a secret"),
        (weak, ConflictError, "the token of an administrator, or a new one, in TIDEGATE_TOKEN; got one of bob"),
    ]:
        with pytest.raises(error) as caught:
            first_token(principals, data, {"TIDEGATE_TOKEN": given})
        assert says in str(caught.value)
        assert given not in str(caught.value)
