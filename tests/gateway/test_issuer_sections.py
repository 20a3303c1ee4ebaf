"""The sections [[issuers]] of a TOML file: what may stand there, and what is said of what may not."""

from __future__ import annotations

import pickle

import pytest

from tests.gateway.issuing import AUDIENCE, NAME
from tidegate.errors import SettingError
from tidegate.runs.config import load
from tidegate.runs.issuer_sections import ALGORITHMS, IssuerSection, is_safe_url

GOOD = f'issuer = "{NAME}"\naudience = "{AUDIENCE}"\n'


def loaded(directory, *sections):
    file = directory / "service.toml"
    file.write_text('[run]\ndata = "data"\nrunner = "process"\n' + "".join(f"[[issuers]]\n{one}" for one in sections))
    return load(file).issuers


def test_a_file_may_have_none():
    assert IssuerSection(NAME, (AUDIENCE,)).algorithms == ALGORITHMS
    assert not any(name.startswith("HS") or name.lower() == "none" for name in ALGORITHMS)


def test_what_stands_in_a_file(tmp_path):
    assert loaded(tmp_path) == ()
    assert loaded(tmp_path, GOOD) == (IssuerSection(NAME, (AUDIENCE,)),)
    more = 'keys = "keys.json"\nalgorithms = ["ES256"]\nskew = 5\nrole_names = {"tg.read" = "subscriber"}\n'
    (found,) = loaded(tmp_path, GOOD.replace(f'"{AUDIENCE}"', '["a", "b"]') + more)
    assert (found.audience, found.keys, found.skew) == (("a", "b"), str(tmp_path / "keys.json"), 5.0)
    assert found.role_names == {"tg.read": "subscriber"}
    assert pickle.loads(pickle.dumps(found)) == found  # gateways are told so
    assert found.discovery == f"{NAME}/.well-known/openid-configuration"


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ('algorithms = ["HS256"]', r"expected some of RS256, .*; got 'HS256'; at issuers\[0\].algorithms of"),
        ('algorithms = ["none"]', "got 'none'"),
        ("algorithms = []", "a list of text that is not empty"),
        ('keys = "http://login.example/keys"', r"a URL of https \(or of http on this machine\); got 'http:"),
        ('keys = "ftp://login.example/keys"', "a URL of https"),
        ('keys = "https://a:b@login.example/keys"', "a URL of https"),
        ('role_names = {"a" = "root"}', r"expected one of subscriber, publisher, administrator; got 'root'"),
        ('prefix = "a/"', "characters that the names of principals have"),
        ("skew = -1", "a number of 0 or more"),
        ("skew = inf", "a number of 0 or more"),
        ("max_length = 0", "a whole number from 1"),
        ('reed = "a"', r"did you mean read\?"),
        ('principal = ""', "text that is not empty"),
    ],
)
def test_what_may_not_stand_there(tmp_path, more, wrong):
    with pytest.raises(SettingError, match=wrong):
        loaded(tmp_path, f"{GOOD}{more}\n")


def test_what_must_stand_there(tmp_path):
    with pytest.raises(SettingError, match="a key issuer"):
        loaded(tmp_path, f'audience = "{AUDIENCE}"\n')
    with pytest.raises(SettingError, match="a key audience"):
        loaded(tmp_path, f'issuer = "{NAME}"\n')
    with pytest.raises(SettingError, match="keys, for an issuer that is no URL of https; got 'corp'"):
        loaded(tmp_path, f'issuer = "corp"\naudience = "{AUDIENCE}"\n')
    assert loaded(tmp_path, f'issuer = "corp"\naudience = "{AUDIENCE}"\nkeys = "k.json"\n')[0].issuer == "corp"


def test_no_two_issuers_can_name_the_same_principal(tmp_path):
    other = GOOD.replace(NAME, "https://two.example")
    with pytest.raises(SettingError, match=r"an issuer that no section before it has.*at issuers\[1\].issuer"):
        loaded(tmp_path, GOOD, GOOD + 'prefix = "b."\n')
    for one, two in (("", "b."), ("b.", ""), ("b", "b."), ("b.", "b."), ("b.c", "b.")):
        with pytest.raises(SettingError, match=r"a prefix that does not begin as that of .*at issuers\[1\].prefix"):
            loaded(tmp_path, f'{GOOD}prefix = "{one}"\n', f'{other}prefix = "{two}"\n')
    assert len(loaded(tmp_path, f'{GOOD}prefix = "a."\n', f'{other}prefix = "b."\n')) == 2


def test_it_is_a_list(tmp_path):
    (tmp_path / "service.toml").write_text('[run]\ndata = "data"\nrunner = "process"\n[issuers]\nissuer = "a"\n')
    with pytest.raises(SettingError, match=r"at most 64 sections \[\[issuers\]\]"):
        load(tmp_path / "service.toml")


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://login.example/keys", True),
        ("http://127.0.0.1:80/keys", True),
        ("http://[::1]/keys", True),
        ("http://localhost/keys", True),
        ("http://localhost.evil.example/keys", False),
        ("http://10.0.0.1/keys", False),
        ("http://127.0.0.1@evil.example/keys", False),
        ("https://login.example:x/keys", False),
        ("https://", False),
        ("file:///keys", False),
        ("HTTPS://login.example", True),
    ],
)
def test_where_keys_may_come_from(url, is_safe):
    assert is_safe_url(url) is is_safe
