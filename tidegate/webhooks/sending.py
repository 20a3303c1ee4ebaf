"""What the process of the sender does once there is an endpoint: it opens the directory and runs a ``Sender``."""

from __future__ import annotations

import asyncio
import logging
import pickle
import resource
import signal
from contextlib import ExitStack

from tidegate.broker.garbage_collection import look_for_cycles_seldom
from tidegate.broker.open_queues import OpenQueues, has_queues
from tidegate.errors import TidegateError
from tidegate.gateway.broker_locks import sender_lock
from tidegate.gateway.gateway_process import new_loop
from tidegate.gateway.process_log import log_to_standard_error
from tidegate.runs.config import Config
from tidegate.store.data_directory import DataDirectory
from tidegate.store.webhooks import StoredWebhooks
from tidegate.webhooks.sender import Sender
from tidegate.webhooks.sender_numbers import SenderNumbers

__all__ = ["serve"]

_LOG = logging.getLogger("tidegate.webhooks")
#: Seconds between two looks whether the runner has made queues, and the exit code for what cannot be used.
_LOOK, _UNUSABLE = 0.1, 2


def serve(order: bytes) -> int:
    """Send for the broker of an order until SIGTERM; the exit code."""
    config: Config = pickle.loads(order)  # what our starter wrote, nobody else
    log_to_standard_error("webhooks")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each endpoint may have a connection
    logging.getLogger("httpcore").setLevel(logging.CRITICAL)
    look_for_cycles_seldom()
    try:
        data = config.made()
        assert data is not None, "a broker has a data directory"
        place = sender_lock(data)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_serve(config, data))
        place.release()
    except TidegateError as wrong:
        _LOG.error("%s", wrong)
        return _UNUSABLE
    return 0


async def _serve(config: Config, data: DataDirectory) -> None:
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    while not has_queues(config) and not asked.is_set():
        await asyncio.sleep(_LOOK)
    if asked.is_set():
        return
    with ExitStack() as opened:
        queues = opened.enter_context(OpenQueues(config))
        webhooks = opened.enter_context(StoredWebhooks(config.subscriptions.registry))
        sender = Sender(config.webhooks, queues, webhooks)
        numbers = SenderNumbers(data.run / "numbers", sender.counts.numbers)
        await sender.start()
        await numbers.start()
        try:
            await asked.wait()
        finally:
            await sender.stop()
            await numbers.stop()
