"""What each administrative change does besides: it is heard of at once in this gateway, and the audit gets a line."""

from __future__ import annotations

from typing import Any

from tidegate.gateway.access import address_of
from tidegate.gateway.api_request import ApiRequest

__all__ = ["note_change"]


async def note_change(request: ApiRequest, what: str, **facts: Any) -> None:
    """Note a change that the caller has made."""
    access, caller = request.broker.access, request.caller
    await access.refresh()
    access.audit.changed(what, principal=caller.name, token=caller.token, address=address_of(request), **facts)
