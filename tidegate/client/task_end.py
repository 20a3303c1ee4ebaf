"""Ending a task of one's own, so that being cancelled oneself meanwhile is not taken for the end of that task."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["ended"]


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancel a task and return once it has ended; if that was with an error, raise it, unless the caller is to end too:
    an error in the place of its own ``CancelledError`` would be taken for a reason to try again.

    ``await task`` would not do: it raises the same ``CancelledError`` where the task has ended and where the caller is
    cancelled, and whoever passes over it goes on although it was to end.
    """
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None and not _is_cancelled():
        raise error


def _is_cancelled() -> bool:
    caller = asyncio.current_task()
    return caller is not None and caller.cancelling() > 0
