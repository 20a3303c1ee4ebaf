"""The socket on which all gateways of a broker listen, and the address under which others reach it."""

from __future__ import annotations

import socket

from tidegate.errors import SettingError
from tidegate.gateway.certificates import check_exposure, has_tls
from tidegate.runs.serve_section import ServeSection

__all__ = ["BACKLOG", "address_of", "listening_socket"]

#: Connections that the system takes before a gateway does. Of one beyond that a client may not hear for good.
BACKLOG = 4096
_EVERY_ADDRESS = ("0.0.0.0", "::", "")


def listening_socket(serve: ServeSection) -> socket.socket:
    """A socket that listens where ``[serve]`` says."""
    check_exposure(serve)
    host, port = serve.listen
    at = f"{host}:{port}"
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except OSError as wrong:
        raise SettingError("an address of this machine to listen at", f"{wrong.strerror}", at) from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(where)
        made.listen(BACKLOG)
        made.setblocking(False)
    except OSError as wrong:
        made.close()
        expected = "an address of this machine at which nobody else listens"
        raise SettingError(expected, f"{wrong.strerror}", at) from None
    return made


def address_of(listening: socket.socket, serve: ServeSection) -> str:
    """The URL of the broker, as somebody on this machine reaches it."""
    host, port = listening.getsockname()[:2]
    shown = "localhost" if host in _EVERY_ADDRESS else serve.listen[0]
    scheme = "https" if has_tls(serve) else "http"
    return f"{scheme}://[{shown}]:{port}" if ":" in shown else f"{scheme}://{shown}:{port}"
