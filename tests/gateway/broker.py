"""A gateway without a socket: a broker in a directory, and a client of its ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx

from tidegate.gateway.api import routes
from tidegate.gateway.application import Application
from tidegate.gateway.open_broker import OpenBroker
from tidegate.runs.config import load

__all__ = ["client_of", "opened", "token"]


def opened(directory, text="", **settings) -> OpenBroker:
    """A broker of the runner in process, whose TOML file has these lines more."""
    file = directory / "service.toml"
    file.write_text(f'[run]\ndata = "data"\nrunner = "process"\n{text}')
    return OpenBroker(load(file), **settings)


def token(broker: OpenBroker, principal: str, roles: Sequence[str], **more) -> dict[str, str]:
    """The headers of somebody with a new token."""
    return {"Authorization": f"Bearer {broker.principals.make_token(principal, roles, **more).secret}"}


@asynccontextmanager
async def client_of(broker: OpenBroker, **settings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a broker whose parts work meanwhile."""
    transport = httpx.ASGITransport(Application(broker, routes()), raise_app_exceptions=True)
    await broker.start()
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://broker", **settings) as client:
            yield client
    finally:
        await broker.stop()
