"""A sender in a thread of the test, beside a broker whose runner the test drives (``live_broker``)."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack, contextmanager

from tests.gateway.live_broker import live
from tests.gateway.served import until
from tidegate.broker.open_queues import OpenQueues
from tidegate.store.webhooks import StoredWebhooks
from tidegate.webhooks.sender import Sender

__all__ = ["SETTINGS", "RunningSender", "posting", "sending"]

#: Permits the receivers of tests, and retries soon.
SETTINGS = '[webhooks]\nallow = ["127.0.0.0/8", "::1"]\nhttp = true\nretry_first = 0.05\nretry_longest = 0.2\n'


class RunningSender:
    """A sender that runs until ``stop``."""

    def __init__(self, broker, **settings):
        self._broker, self._settings = broker, settings
        self._is_ready, self._failure = threading.Event(), []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure.append(error)
            self._is_ready.set()
            raise

    async def _serve(self):
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        with ExitStack() as opened:
            queues = opened.enter_context(OpenQueues(self._broker.config))
            webhooks = opened.enter_context(StoredWebhooks(self._broker.registry))
            self.sender = Sender(self._broker.config.webhooks, queues, webhooks, **self._settings)
            await self.sender.start()
            self._is_ready.set()
            try:
                await self._stopped.wait()
            finally:
                await self.sender.stop()

    def start(self):
        self._thread.start()
        assert self._is_ready.wait(30)
        assert not self._failure
        return self

    def stop(self):
        """Stop it; again has no effect."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(30)
        assert not self._thread.is_alive()
        assert not self._failure


@contextmanager
def sending(broker, **settings):
    """A sender for an open broker."""
    sender = RunningSender(broker, **settings).start()
    try:
        yield sender
    finally:
        sender.stop()


class Posting:
    """A broker, its sender, and clients of it."""

    def __init__(self, live_broker):
        self.live = live_broker
        self.broker = live_broker.broker
        self._count = 0

    def client(self, principal="ann"):
        return self.live.client(principal, "subscriber", "publisher")

    def endpoint(self, client, name, url, where="n >= 0", subscription=None, **more):
        """A webhook with a subscription to it; its secret."""
        made = client.put(f"/v1/webhooks/{name}", json={"url": url, **more})
        assert made.status_code == 201, made.text
        body = {"where": where, "deliver": {"webhook": name}}
        answer = client.put(f"/v1/subscriptions/{subscription or name}", json=body)
        assert answer.status_code == 201, answer.text
        return made.json()["secret"]

    def publish(self, client, count, **more):
        """Publish so many readings, and run them."""
        first = self._count
        self._count += count
        some = [{"source": "hut", "id": f"p{n}", "n": n, **more} for n in range(first, first + count)]
        answer = client.post("/v1/publications", json=some)
        assert answer.json()["accepted"] == count, answer.text
        self.live.run()

    def stands(self, client, name):
        answer = client.get(f"/v1/webhooks/{name}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def until_state(self, client, name, state):
        return until(lambda: (found := self.stands(client, name))["state"] == state and found, 30)


@contextmanager
def posting(directory, text=SETTINGS, **settings):
    """A broker with a sender; the runner has run once, so that there are queues."""
    with live(directory, text) as live_broker:
        live_broker.run()
        with sending(live_broker.broker, **settings) as sender:
            found = Posting(live_broker)
            found.sender = sender
            yield found
