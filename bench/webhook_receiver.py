"""Receivers of webhooks for the bench, in a process of their own: some answer at once, others hang or answer late.

``python -m bench.webhook_receiver PORT OUTPUT`` serves any path: below ``/lives`` it answers, below ``/hangs`` never,
below ``/slow`` after some seconds, below ``/fails`` with 500. At SIGTERM it writes what came to ``/lives`` to OUTPUT: a
line per request with its path, the number, the id of the publication, and milliseconds since that was sent.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

import orjson

__all__ = ["main"]

#: Seconds after which a slow one answers.
_SLOW = 5.0


class Receivers:
    """Notes what comes to those that live."""

    def __init__(self) -> None:
        self.lines: list[list[object]] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                body = await reader.readexactly(length)
                path = head.split(b" ", 2)[1].decode()
                status = await self._status(path, body)
                writer.write(b"HTTP/1.1 %d .\r\nContent-Length: 0\r\n\r\n" % status)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _status(self, path: str, body: bytes) -> int:
        if path.startswith("/hangs"):
            await asyncio.sleep(3600)
        if path.startswith("/slow"):
            await asyncio.sleep(_SLOW)
        if path.startswith("/lives"):
            item, now = orjson.loads(body), time.time()
            publication = item["publication"]
            late = (now - publication["attributes"]["sent"]) * 1e3
            self.lines.append([path, item["number"], publication["id"], late])
        return 500 if path.startswith("/fails") else 204


async def _serve(port: int, output: Path) -> None:
    receivers, asked = Receivers(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    await asyncio.start_server(receivers.talk, "127.0.0.1", port, backlog=4096)
    await asked.wait()
    output.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in receivers.lines))


def main(words: list[str]) -> None:
    """Serve until SIGTERM."""
    asyncio.run(_serve(int(words[0]), Path(words[1])))


if __name__ == "__main__":
    main(sys.argv[1:])
