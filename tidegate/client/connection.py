"""``connect``: the entrance to a broker, for ``with`` and for ``async with``."""

from __future__ import annotations

from os import PathLike, fspath

from tidegate.client.address import BrokerAddress
from tidegate.client.async_broker import AsyncBroker
from tidegate.client.plain_broker import Broker
from tidegate.client.token_source import GivenToken

__all__ = ["Connection", "connect"]


class Connection:
    """A broker to be connected to: ``with`` gives a ``Broker``, ``async with`` an ``AsyncBroker``."""

    def __init__(self, address: BrokerAddress) -> None:
        self._address = address
        self._broker: Broker | None = None
        self._async_broker: AsyncBroker | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self._address.url}>"

    def __enter__(self) -> Broker:
        self._broker = Broker(self._address)
        return self._broker

    def __exit__(self, *_: object) -> None:
        assert self._broker is not None
        self._broker.close()

    async def __aenter__(self) -> AsyncBroker:
        self._async_broker = AsyncBroker(self._address)
        return self._async_broker

    async def __aexit__(self, *_: object) -> None:
        assert self._async_broker is not None
        await self._async_broker.close()


def connect(
    url: str,
    *,
    token: GivenToken,
    ca: str | PathLike[str] | None = None,
    timeout: float = 30.0,
    deadline: float = 60.0,
    heartbeat: float = 15.0,
) -> Connection:
    """Connect to a broker: ``async with tg.connect(url, token=…) as broker``, or the same without ``async``.

    ``token`` is a text, or a function, plain or asynchronous, that gives the token of the moment: it is asked again
    when the broker does not take the last one any more, and when a connection is made again. ``ca`` is a file of
    certificates (PEM) that are trusted in place of the system's. ``timeout`` is how many seconds one attempt of a
    request may take, ``deadline`` how many it may take with all its attempts, and ``heartbeat`` after how many seconds
    of silence a connection is asked whether it lives. A proxy that the environment names is used only for brokers that
    are not on this machine.
    """
    place = None if ca is None else fspath(ca)
    return Connection(BrokerAddress.of(url, token, ca=place, timeout=timeout, deadline=deadline, heartbeat=heartbeat))
