"""Nothing is posted where an operator does not permit it, however an address is written and whatever a name means."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address, ip_network

import httpcore
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.profiles import examples
from tests.webhooks.hostile_urls import FORBIDDEN_ADDRESSES, PERMITTED, REFUSED, STANDS_FOR
from tests.webhooks.receiver import receiving
from tidegate.broker.public_addresses import is_permitted
from tidegate.broker.webhook_url import PortRange, UrlRules, WebhookUrl, parsed, rules_of
from tidegate.errors import SettingError
from tidegate.gateway.webhook_bodies import WebhookBody
from tidegate.runs.webhooks_section import WebhooksSection
from tidegate.webhooks.pinned_connections import ForbiddenAddress, PinnedBackend
from tidegate.webhooks.posting import Patience, Poster

RULES = rules_of(WebhooksSection())
LOOPBACK = ip_network("127.0.0.0/8")
CONTEXT = httpcore.default_ssl_context()


def test_there_are_many_of_them():
    assert len(REFUSED) + len(STANDS_FOR) > 250


@pytest.mark.parametrize("url", REFUSED)
def test_it_is_refused_as_it_is_read(url):
    with pytest.raises(SettingError, match=r"^expected "):
        parsed(url, RULES)


@pytest.mark.parametrize("text", FORBIDDEN_ADDRESSES)
def test_nothing_is_posted_to_a_special_address_unless_its_network_is_allowed(text):
    address = ip_address(text)
    assert not is_permitted(address, ())
    assert is_permitted(address, [ip_network(text)])


@pytest.mark.parametrize("text", PERMITTED)
def test_public_addresses_are_permitted(text):
    address = ip_address(text)
    assert is_permitted(address, ())
    host = f"[{text}]" if address.version == 6 else text
    assert ip_address(parsed(f"https://{host}/", RULES).host) == address


def test_what_is_a_good_url():
    found = {
        "https://example.com": WebhookUrl("https", "example.com", 443, "/"),
        "https://Example.COM:8443/a/b?c=d&e=%20": WebhookUrl("https", "example.com", 8443, "/a/b?c=d&e=%20"),
        "https://example.com?a=1": WebhookUrl("https", "example.com", 443, "/?a=1"),
        "https://xn--exmple-cua.com/": WebhookUrl("https", "xn--exmple-cua.com", 443, "/"),
        "https://[2606:4700:4700:0::1111]:443/": WebhookUrl("https", "2606:4700:4700::1111", 443, "/"),
        "https://a1.b2/": WebhookUrl("https", "a1.b2", 443, "/"),
    }
    assert {url: parsed(url, RULES) for url in found} == found
    plain = UrlRules(True, (PortRange(80, 80),), (LOOPBACK,))
    assert parsed("http://127.0.0.1/x", plain) == WebhookUrl("http", "127.0.0.1", 80, "/x")


@examples(300)
@given(st.text(max_size=30) | st.from_regex(r"https?://[\[\]0-9a-fx.:@%\\/#?-]{1,40}", fullmatch=True))
def test_what_is_taken_is_plain_and_means_one_place(text):
    """An oracle in other words: what is taken, put together again from its parts, is what was given."""
    try:
        found = parsed(text, RULES)
    except SettingError:
        return
    assert text.isascii()
    assert not set(text) & set(' \t\r\n\0@\\#<>"')
    host = f"[{found.host}]" if ":" in found.host else found.host
    rest = text.removeprefix("https://")
    given_host = rest[: rest.index("]") + 1] if rest.startswith("[") else rest.split("/")[0].split("?")[0].split(":")[0]
    if ":" in found.host:
        assert ip_address(given_host[1:-1]) == ip_address(found.host)
    else:
        assert given_host.lower() == host
    try:
        there = socket.inet_ntoa(socket.inet_aton(found.host))  # what the C library takes for an address is one to us
    except OSError:
        there = found.host
    assert there == found.host
    assert found.address is None or is_permitted(found.address, ())


# --- connecting -----------------------------------------------------------------------------------------------------


def posted(url, rules, resolve, count=1, allowed=None):
    """The outcomes of posts to a URL, with what a resolver says; perhaps with other networks when one connects."""

    async def once():
        with ThreadPoolExecutor(1) as threads:
            network = PinnedBackend(rules.allowed if allowed is None else allowed, threads, resolve)
            poster = Poster(CONTEXT, Patience(5, 5))
            found = [await poster.post(parsed(url, rules), [], b"{}", network) for _ in range(count)]
            await poster.close()
            return found

    return asyncio.run(once())


@pytest.mark.parametrize("name", STANDS_FOR)
def test_a_name_that_stands_for_it_is_refused_when_somebody_connects(name):
    (outcome,) = posted(f"https://{name}/", RULES, lambda host, port: STANDS_FOR[host])
    assert outcome.cause == "address"
    assert outcome.failure is not None


def test_what_was_checked_is_what_is_connected_to():
    """A name that stands for something else each time it is asked for is asked for once."""
    asked = []

    def rebinding(host, port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    with receiving() as receiver:
        rules = UrlRules(True, (PortRange(1, 65_535),), (LOOPBACK,))
        url = f"http://rebinding.example:{receiver.port}/a"
        (first,) = posted(url, rules, rebinding)
        (second,) = posted(url, rules, rebinding)
        assert (first.cause, second.cause) == ("answered", "address")
        assert asked == 2 * ["rebinding.example"]
        assert [one.headers["host"] for one in receiver.received] == [f"rebinding.example:{receiver.port}"]


def test_a_connection_that_is_kept_stays_with_its_address():
    asked = []

    def once(host, port):
        asked.append(host)
        return ["127.0.0.1"]

    with receiving() as receiver:
        rules = UrlRules(True, (PortRange(1, 65_535),), (LOOPBACK,))
        found = posted(f"http://kept.example:{receiver.port}/a", rules, once, count=5)
        assert [one.cause for one in found] == 5 * ["answered"]
        assert (len(asked), receiver.connections) == (1, 1)


def test_an_address_is_resolved_by_nobody():
    def never(host, port):
        raise AssertionError("an address is no name")

    with receiving() as receiver:
        rules = UrlRules(True, (PortRange(1, 65_535),), (LOOPBACK,))
        (found,) = posted(f"http://127.0.0.1:{receiver.port}/a", rules, never)
        assert found.cause == "answered"
        (found,) = posted(f"http://127.0.0.1:{receiver.port}/a", rules, never, allowed=())
        assert found.cause == "address"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_failures_and_never_followed(status):
    with receiving() as receiver:
        receiver.answers["/from"] = status
        receiver.headers["/from"] = {"Location": f"http://localhost:{receiver.port}/to"}
        rules = UrlRules(True, (PortRange(1, 65_535),), (LOOPBACK,))
        (found,) = posted(f"http://127.0.0.1:{receiver.port}/from", rules, lambda host, port: [host])
        assert found.cause == "redirect"
        assert [one.path for one in receiver.received] == ["/from"]


def test_no_proxy_of_the_environment_is_asked(monkeypatch):
    with receiving() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        rules = UrlRules(True, (PortRange(1, 65_535),), (LOOPBACK,))
        (found,) = posted(f"http://127.0.0.1:{receiver.port}/a", rules, lambda host, port: [host])
        assert found.cause == "answered"
        assert receiver.received[0].path == "/a"


def test_sockets_of_this_machine_are_out_of_reach():
    async def once():
        with ThreadPoolExecutor(1) as threads, pytest.raises(ForbiddenAddress):
            await PinnedBackend((), threads).connect_unix_socket("/run/some.sock")

    asyncio.run(once())


def test_a_body_of_the_api_is_no_way_around():
    assert set(WebhookBody.__struct_fields__) == {"url", "batch", "secret"}
