"""A bare loop of gmqtt that appends what it gets to a file and acknowledges what is durable: what MQTT in Python and
the disk alone allow on this machine.

Messages that come while a sync is under way are written together and share the next one. Nothing of them is looked at.
``python -m bench.mqtt_bare PORT TOPIC FILE`` runs it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Any

import gmqtt

from bench.gateway_bare import BareLog
from tidegate.gateway.gateway_process import new_loop

__all__ = ["main"]

#: Messages that may come before the first is acknowledged, as of the bridge.
_RECEIVE = 2000


async def _serve(port: int, topic: str, path: Path) -> None:
    log, stopping = BareLog(path), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    client = gmqtt.Client(
        "bare", optimistic_acknowledgement=False, receive_maximum=_RECEIVE, logger=logging.getLogger("bare")
    )

    async def received(client: Any, topic: str, payload: bytes, qos: int, properties: Any) -> int:
        await log.append(payload + b"\n")
        return 0  # the reason of the acknowledgement, which goes out now

    client.on_message = received
    await client.connect("127.0.0.1", port)
    client.subscribe(topic, qos=1)
    path.with_suffix(".ready").touch()
    await stopping.wait()
    await client.disconnect()


def main(words: list[str]) -> None:
    """Run until SIGTERM."""
    logging.basicConfig(level=logging.ERROR)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(int(words[0]), words[1], Path(words[2])))


if __name__ == "__main__":
    main(sys.argv[1:])
