"""A fake broker in a thread, for clients without asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.client.fake_broker import FakeBroker

__all__ = ["broker_in_thread"]


@contextmanager
def broker_in_thread(**settings) -> Iterator[tuple[FakeBroker, asyncio.AbstractEventLoop]]:
    """The broker and its event loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    broker = FakeBroker(**settings)
    try:
        asyncio.run_coroutine_threadsafe(broker.__aenter__(), loop).result()
        yield broker, loop
    finally:
        asyncio.run_coroutine_threadsafe(broker.__aexit__(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
