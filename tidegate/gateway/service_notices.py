"""Notices for the service manager that has started a broker (systemd's ``sd_notify``): ready, stopping."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

__all__ = ["VARIABLE", "send"]

VARIABLE = "NOTIFY_SOCKET"


def send(notice: str) -> None:
    """Send a notice, if somebody wants any. One that does not arrive is no reason not to go on."""
    where = os.environ.get(VARIABLE, "")
    if not where:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(f"\0{where[1:]}" if where.startswith("@") else where)
        sender.send(notice.encode())
