"""Connections to exactly the address that was checked: a name is resolved once, all it stands for must be permitted.

``PinnedBackend`` is the network under httpcore. What a name stands for a moment later does not matter, since nobody
asks again; TLS and HTTP still see the name. Knows nothing of what is sent.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import httpcore

from tidegate.broker.public_addresses import Address, Network, is_permitted
from tidegate.errors import TidegateError

__all__ = ["ForbiddenAddress", "PinnedBackend", "Resolver", "UnresolvedName", "resolved"]

#: All addresses of a host, as texts. Called in a thread.
Resolver = Callable[[str, int], Sequence[str]]
#: Addresses of a name that are tried, and that are looked at.
_TRIED, _MOST = 4, 64


class ForbiddenAddress(TidegateError, ConnectionError):
    """A name stands for an address to which nothing is posted."""

    code = "address"


class UnresolvedName(TidegateError, ConnectionError):
    """A name stands for no address."""

    code = "name"


def resolved(host: str, port: int) -> list[str]:
    """What the system says."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


class PinnedBackend(httpcore.AsyncNetworkBackend):
    """Connects over TCP to addresses that are permitted, and in no other way. ``threads`` resolve names."""

    def __init__(self, allowed: Sequence[Network], threads: Executor, resolve: Resolver = resolved) -> None:
        self._allowed, self._threads, self._resolve = allowed, threads, resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to one of the addresses of a host."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._addresses(host, port)
        except TimeoutError:
            raise httpcore.ConnectTimeout("the name was not resolved in time") from None
        tried = addresses[:_TRIED]
        for address in tried[:-1]:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await self._network.connect_tcp(str(address), port, timeout, local_address, socket_options)
        return await self._network.connect_tcp(str(tried[-1]), port, timeout, local_address, socket_options)

    async def _addresses(self, host: str, port: int) -> list[Address]:
        """What a host stands for, if all of it is permitted."""
        try:
            found = [ip_address(one) for one in await self._said(host, port)]
        except (OSError, UnicodeError) as error:
            said = getattr(error, "strerror", None) or type(error).__name__
            raise UnresolvedName("a name that stands for an address", said, host) from None
        except ValueError:
            raise ForbiddenAddress("addresses of machines", "something else", host) from None
        if not found:
            raise UnresolvedName("a name that stands for an address", "none", host)
        if len(found) > _MOST:
            raise ForbiddenAddress(f"a name with at most {_MOST} addresses", f"{len(found)}", host)
        for address in found:
            if not is_permitted(address, self._allowed):
                expected = "addresses that are public, or that [webhooks] allow has"
                raise ForbiddenAddress(expected, "another", host)  # which one is nobody's business: names may be inner
        return found

    async def _said(self, host: str, port: int) -> Sequence[str]:
        """What the resolver says of a name. An address is what it is, and waits for no thread."""
        with suppress(ValueError):
            return [str(ip_address(host))]
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._resolve, host, port)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise ForbiddenAddress("a connection over TCP", "a socket of this machine")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
