"""A real browser listens: the page of the how-to with ``EventSource``, a ``WebSocket``, and pages that may not."""

from __future__ import annotations

import functools
import http.server
import re
import threading

import httpx
import pytest
from playwright.sync_api import sync_playwright

from tests.gateway.served import served
from tests.parts.machine import program
from tests.test_doc_pages import ADDRESS, DOCS

pytestmark = pytest.mark.services

SOCKET = """
([address, token]) => new Promise((resolve, reject) => {
  const told = [], socket = new WebSocket(`${address.replace("http", "ws")}/v1/ws?after=0&access_token=${token}`);
  socket.onerror = () => reject(new Error("refused"));
  socket.onmessage = (event) => {
    told.push(JSON.parse(event.data));
    if (told.length === 1) socket.send(JSON.stringify({type: "ping", ref: "r"}));
    if (told.length === 4) resolve(told);
  };
})
"""
FETCH = """
([address, token]) => fetch(`${address}/v1/notifications?after=0`, {headers: {Authorization: `Bearer ${token}`}})
  .then((answer) => answer.json(), (error) => error.name)
"""


@pytest.fixture(scope="module")
def browser():
    path = program("chromium", "chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def pages(tmp_path):
    """The origin of a server that has the files of a directory."""
    directory = tmp_path / "pages"
    directory.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=directory)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield directory, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_browser_listens(browser, pages, tmp_path):
    directory, origin = pages
    how_to = (DOCS / "howto" / "broker.md").read_text("utf-8")
    [page_of_the_how_to] = re.findall(r"```html\n(.*?)```", how_to, re.DOTALL)
    with (
        served(tmp_path, text=f'origins = ["{origin}"]\n') as broker,
        httpx.Client(base_url=broker.url, headers=broker.headers, timeout=60) as client,
    ):
        made = client.post("/v1/tokens", json={"principal": "eva", "roles": ["subscriber"]}).json()
        eva = {"Authorization": f"Bearer {made['token']}"}
        put = client.put("/v1/subscriptions/warm", json={"where": "temperature > 20"}, headers=eva)
        assert put.status_code == 201
        (directory / "listen.html").write_text(page_of_the_how_to.replace(ADDRESS, broker.url))
        page = browser.new_page()
        page.goto(f"{origin}/listen.html#token={made['token']}")
        for temperature in (21, 22):
            client.post("/v1/publications", json={"source": "balcony", "temperature": temperature})
            page.get_by_text(f"balcony {temperature}").wait_for(timeout=30_000)
        assert page.locator("li").all_text_contents() == ["1 balcony 21", "2 balcony 22"]

        told = page.evaluate(SOCKET, [broker.url, made["token"]])
        assert sorted(one["type"] for one in told) == ["accepted", "hello", "notification", "notification"]
        assert [one["number"] for one in told if one["type"] == "notification"] == [1, 2]
        assert [one["number"] for one in page.evaluate(FETCH, [broker.url, made["token"]])["notifications"]] == [1, 2]
        page.close()

        other = browser.new_page()  # an origin that is not allowed
        other.goto(f"{origin.replace('127.0.0.1', 'localhost')}/listen.html#token={made['token']}")
        assert other.evaluate(FETCH, [broker.url, made["token"]]) == "TypeError"
        with pytest.raises(Exception, match="refused"):
            other.evaluate(SOCKET, [broker.url, made["token"]])
        assert other.locator("li").count() == 0
        other.close()
