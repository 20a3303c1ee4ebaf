"""A bare Starlette app that makes bodies durable and answers 202: what HTTP and the disk alone allow on this machine.

Bodies that come while a sync is under way are written together and share the next one. There is no access control, no
check of what is sent and no dedupe. ``python -m bench.gateway_bare FILE PORT EVENTS [read]`` serves it on the loopback
interface with the loop and the HTTP implementation of the gateway; with ``read`` it decodes the JSON that it is sent,
and writes each publication as a line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

__all__ = ["BareLog", "application"]


class BareLog:
    """A file that bodies are appended to. Used in one event loop; a thread writes and syncs."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def append(self, body: bytes) -> None:
        """Return once the body is durable."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((body, done))
        if self._writing is None:
            self._writing = loop.create_task(self._write())
        await done

    async def _write(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting, []
            await asyncio.to_thread(self._sync, b"".join(body for body, _ in taken))
            for _, done in taken:
                if not done.done():
                    done.set_result(None)
        self._writing = None

    def _sync(self, data: bytes) -> None:
        os.write(self._file, data)
        os.fdatasync(self._file)


def application(path: Path, events: int, reads: bool = False) -> Starlette:
    """The app; each body is said to have so many events. ``reads``: it decodes them, as Starlette does."""
    log = BareLog(path)
    answer = b'{"accepted":%d,"duplicates":0,"refused":[],"ids":{},"position":0}' % events

    async def publish(request: Request) -> Response:
        await log.append(_lines(await request.json()) if reads else await request.body())
        return Response(answer, 202, media_type="application/json")

    return Starlette(routes=[Route("/v1/publications", publish, methods=["POST"])])


def _lines(decoded: Any) -> bytes:
    """Publications as lines of JSON."""
    given = decoded if isinstance(decoded, list) else [decoded]
    return b"".join(orjson.dumps(one) + b"\n" for one in given)


def _serve(path: Path, port: int, events: int, reads: bool) -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: None)  # uvicorn raises it again when it has stopped
    settings = uvicorn.Config(
        application(path, events, reads),
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(settings).run()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), "read" in sys.argv[4:])
