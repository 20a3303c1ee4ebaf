"""The section [webhooks]: what it is if nothing is said, and one sentence for what is wrong in it."""

from __future__ import annotations

import pytest

from tidegate.broker.webhook_url import PortRange, rules_of
from tidegate.errors import SettingError
from tidegate.runs.config import load


def read(directory, *lines):
    file = directory / "service.toml"
    file.write_text("\n".join(['[run]\ndata = "data"\nrunner = "process"\n[webhooks]', *lines]))
    return load(file).webhooks


def test_nothing_but_public_addresses_with_https_unless_somebody_says_so(tmp_path):
    rules = rules_of(read(tmp_path))
    assert rules == (False, (PortRange(80, 80), PortRange(443, 443), PortRange(1024, 65_535)), ())
    rules = rules_of(read(tmp_path, "http = true", 'allow = ["10.0.0.0/8", "::1"]', 'ports = ["8000-8999"]'))
    assert (rules.http, rules.ports) == (True, (PortRange(8000, 8999),))
    assert list(map(str, rules.allowed)) == ["10.0.0.0/8", "::1/128"]


@pytest.mark.parametrize(
    ("line", "at"),
    [
        *(('allow = ["10.0.0.1/8"]', "allow"), ('allow = ["localhost"]', "allow"), ('allow = "10.0.0.0/8"', "allow")),
        *(('ports = ["0"]', "ports"), ('ports = ["65536"]', "ports"), ('ports = ["9-8"]', "ports")),
        *(
            ('ports = ["a"]', "ports"),
            ('ports = ["1-2-3"]', "ports"),
            ("ports = [443]", "ports"),
            ('ports = [""]', "ports"),
        ),
        *(("http = 1", "http"), ("posts = 0", "posts"), ("retry_first = -1", "retry_first"), ("page = 0", "page")),
        *(("give_up_seconds = '3 days'", "give_up_seconds"), ("allowed = []", "allowed")),
    ],
)
def test_mistakes_are_one_sentence_with_their_place(tmp_path, line, at):
    with pytest.raises(SettingError, match=rf"^expected .*; got .*; at webhooks\.{at}"):
        read(tmp_path, line)
